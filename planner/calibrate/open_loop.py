"""Compare a replay with per-request times of real open-loop runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.measured import Row, number, text
from planner.calibrate.points import Unsupported, point
from planner.calibrate.runs import requests_of
from planner.perf.calibrations import calibration
from planner.perf.compile import compile_step_cost
from planner.perf.memory import memory_budget

Floats = NDArray[np.float64]
STATISTICS: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run: measured and predicted times of every request, in the order of arrival."""

    run: str
    status: str
    measured: Mapping[str, Floats]
    predicted: Mapping[str, Floats]


def replay_runs(requests: Sequence[Row], runs: Iterable[Row]) -> list[RunResult]:
    """Replay every run of a file of runs through the scheduler."""
    return [_replay(run, [r for r in requests if r["run"] == run["run"]]) for run in runs]


def _replay(run: Row, rows: Sequence[Row]) -> RunResult:
    rows = sorted(rows, key=lambda row: number(row, "arrival_s") or 0.0)
    measured = _measured(rows)
    try:
        predicted = _predicted(run, rows)
    except Unsupported as reason:
        return RunResult(run=run["run"], status=str(reason), measured=measured, predicted={})
    return RunResult(run=run["run"], status="ok", measured=measured, predicted=predicted)


def _column(rows: Sequence[Row], name: str) -> Floats:
    return np.array([number(row, name) or 0.0 for row in rows])


def _measured(rows: Sequence[Row]) -> dict[str, Floats]:
    """Return times since the engine's queue took each request: a client's delay is not its."""
    came = np.maximum(_column(rows, "arrival_s"), _column(rows, "queued_s"))
    first, last = _column(rows, "first_s"), _column(rows, "last_s")
    gaps = np.maximum(_column(rows, "output") - 1.0, 1.0)
    return {"ttft_s": first - came, "tpot_s": (last - first) / gaps, "e2e_s": last - came}


def _predicted(run: Row, rows: Sequence[Row]) -> dict[str, Floats]:
    from planner.sim.replay import replay
    from planner.sim.settings import SchedulerSettings

    prompts, outputs = _column(rows, "input"), _column(rows, "output")
    stated = {
        **run,
        "input_tokens": str(prompts.mean()),
        "output_tokens": str(outputs.mean()),
        "concurrency": text(run, "max_num_seqs") or "256",
        "load_type": "trace",
    }
    item = point(stated)
    deployment = replace(item.deployment, max_model_len=int((prompts + outputs).max()) + 1)
    cost = compile_step_cost(item.model, item.gpu, item.engine, calibration(item.gpu), deployment)
    budget = memory_budget(item.model, item.gpu, item.engine, deployment)
    settings = SchedulerSettings.of(deployment, item.engine, budget)
    came = np.maximum(_column(rows, "arrival_s"), _column(rows, "queued_s"))
    order = np.argsort(came, kind="stable")
    requests = requests_of(came[order] - came[order][0], prompts[order], outputs[order])
    found = replay(
        requests,
        cost,
        settings,
        replicas=deployment.data_parallel_size,
        routing="least_loaded" if deployment.data_parallel_size > 1 else "random",
    )
    back = np.argsort(order, kind="stable")
    return {
        "ttft_s": found.ttft_s[back],
        "tpot_s": found.tpot_s[back],
        "e2e_s": found.e2e_s[back],
    }


def summary(results: Sequence[RunResult]) -> list[dict[str, Any]]:
    """Return errors per run and metric: of every request, of the mean and of percentiles."""
    found = []
    for result in results:
        for metric, known in result.measured.items():
            entry: dict[str, Any] = {"run": result.run, "metric": metric, "status": result.status}
            if metric in result.predicted:
                entry |= _errors(known, result.predicted[metric])
            found.append(entry)
    return found


def _errors(known: Floats, predicted: Floats) -> dict[str, Any]:
    usable = np.isfinite(predicted) & np.isfinite(known) & (known > 0)
    k, p = known[usable], predicted[usable]
    absolute = np.abs(p / k - 1.0)
    entry: dict[str, Any] = {
        "n": len(k),
        "median_ape_pct": round(100 * float(np.median(absolute)), 2),
        "p90_ape_pct": round(100 * float(np.quantile(absolute, 0.9)), 2),
        "bias_pct": round(100 * float(np.median(p / k - 1.0)), 2),
        "mean": {"measured": round(float(k.mean()), 6), "predicted": round(float(p.mean()), 6)},
    }
    for name, share in STATISTICS.items():
        entry[name] = {
            "measured": round(float(np.quantile(k, share)), 6),
            "predicted": round(float(np.quantile(p, share)), 6),
        }
    return entry


def report(results: Sequence[RunResult]) -> str:
    """Return the summary as aligned text, milliseconds."""
    head = f"{'run':<42} {'metric':<7} {'n':>4} {'medAPE%':>8} {'p90APE%':>8} {'bias%':>7}"
    lines = [head + "   mean, p50, p90, p99: measured -> predicted, ms"]
    for entry in summary(results):
        if "n" not in entry:
            lines.append(f"{entry['run']:<42} {entry['metric']:<7} {entry['status']}")
            continue
        pairs = ", ".join(
            f"{1e3 * entry[s]['measured']:.1f} -> {1e3 * entry[s]['predicted']:.1f}"
            for s in ("mean", *STATISTICS)
        )
        lines.append(
            f"{entry['run']:<42} {entry['metric']:<7} {entry['n']:>4} "
            f"{entry['median_ape_pct']:>8.1f} {entry['p90_ape_pct']:>8.1f} "
            f"{entry['bias_pct']:>7.1f}   {pairs}"
        )
    return "\n".join(lines) + "\n"
