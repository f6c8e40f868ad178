"""Fit what an engine's host adds to a step: the time that no operator table contains.

TPOT of a closed loop is linear in the overheads, because its state is counted in steps:
TPOT = TPOT₀ + L·layer + D·sequence + q·L·prefill_layer, q the share of steps that carry prefill.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.measured import Row, is_main, measured, number, usable
from planner.calibrate.points import Point, Unsupported, point
from planner.calibrate.validate import predict
from planner.perf.calibrations import calibration
from planner.perf.compile import compile_step_cost
from planner.perf.step_cost import mixed_step_s
from planner.spec.engine import Engine

STEADY_PROMPT_TOKENS = 400.0  # ML.ENERGY does not publish input lengths; chat prompts are short


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement: time without overheads, the overheads' factors, time measured."""

    base_s: float
    layers: float
    sequences: float
    prefill_layers: float
    measured_s: float
    group: str  # model and GPU: what cross-validation leaves out together


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Fitted overheads and the errors they leave, in sample and with groups left out."""

    layer_s: float
    sequence_s: float
    prefill_layer_s: float
    rows: int
    median_error: float
    p90_error: float
    median_error_left_out: float
    p90_error_left_out: float


def bare(engine: Engine) -> Engine:
    """Return the engine without host overheads."""
    return replace(
        engine,
        layer_overhead_s=0.0,
        seq_overhead_s=0.0,
        step_overhead_s=0.0,
        prefill_layer_overhead_s=0.0,
    )


def closed_loop_samples(rows: Iterable[Row], engine: str, version: str = "") -> list[Sample]:
    """Return samples from closed-loop rows of one engine profile on GPUs with operator tables."""
    samples = []
    for row in rows:
        if not is_main(row):
            continue
        try:
            item = point(row)
        except Unsupported:
            continue
        known = measured(row).tpot_s
        wanted = item.engine.id == engine and version in ("", item.engine.version)
        if known is None or not wanted or not item.gpu.calibration:
            continue
        samples.append(_closed_loop_sample(item, known))
    return samples


def _closed_loop_sample(item: Point, known: float) -> Sample:
    loop = predict(item, engine=bare(item.engine))
    state = loop.state
    carrying = state.mixed_share if item.mixes else state.arrivals_per_step
    layers = float(item.model.num_layers)
    return Sample(
        base_s=loop.tpot_s,
        layers=layers,
        sequences=state.decode_seqs,
        prefill_layers=carrying * layers,
        measured_s=known,
        group=f"{item.model.id} {item.gpu.id}",
    )


def steady_samples(rows: Iterable[Row]) -> list[Sample]:
    """Return samples from steady-state rows: median inter-token latency of decode-only steps."""
    samples = []
    for row in rows:
        latency, batch = number(row, "itl_median_ms"), number(row, "avg_running_batch")
        output = number(row, "output_tokens")
        steady = row["data_kind"].endswith("steady-state") and row["trust"] == "A"
        if not (steady and usable(row) and latency and batch and output):
            continue
        stated = {
            **row,
            "concurrency": str(batch),
            "input_tokens": row["input_tokens"] or str(STEADY_PROMPT_TOKENS),
        }
        try:
            item = point(stated)
        except Unsupported:
            continue
        decodes = item.load.concurrency
        cost = compile_step_cost(
            item.model, item.gpu, bare(item.engine), calibration(item.gpu), item.deployment
        )
        base = mixed_step_s(
            cost,
            decode_seqs=decodes,
            context_tokens=item.load.prompt_tokens + output / 2.0,
        )
        samples.append(
            Sample(
                base_s=float(base),
                layers=float(item.model.num_layers),
                sequences=decodes,
                prefill_layers=0.0,
                measured_s=latency / 1e3,
                group=f"{item.model.id} {item.gpu.id}",
            )
        )
    return samples


def fit_host(samples: Sequence[Sample]) -> Host:
    """Fit the three overheads, none negative, to relative errors, robustly."""
    values = _solve(samples)
    errors = np.abs(_relative_errors(samples, values))
    left_out = _left_out_errors(samples)
    return Host(
        layer_s=float(values[0]),
        sequence_s=float(values[1]),
        prefill_layer_s=float(values[2]),
        rows=len(samples),
        median_error=float(np.median(errors)),
        p90_error=float(np.quantile(errors, 0.9)),
        median_error_left_out=float(np.median(left_out)),
        p90_error_left_out=float(np.quantile(left_out, 0.9)),
    )


def _relative_errors(samples: Sequence[Sample], values: NDArray[np.float64]) -> NDArray[np.float64]:
    factors = np.array([[s.layers, s.sequences, s.prefill_layers] for s in samples])
    base = np.array([s.base_s for s in samples])
    known = np.array([s.measured_s for s in samples])
    return np.asarray((base + factors @ values) / known - 1.0)


def _solve(samples: Sequence[Sample]) -> NDArray[np.float64]:
    from scipy.optimize import least_squares

    scale = np.array([1e-6, 1e-6, 1e-3])

    def residual(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return _relative_errors(samples, values * scale)

    found = least_squares(
        residual,
        [25.0, 10.0, 0.2],
        bounds=([0.0, 0.0, 0.0], [500.0, 500.0, 10.0]),
        loss="soft_l1",
        f_scale=0.1,
    )
    return np.asarray(np.asarray(found.x) * scale)


def _left_out_errors(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Return absolute errors of each (model, GPU) group predicted from all the others."""
    groups = sorted({s.group for s in samples})
    if len(groups) < 2:
        return np.abs(_relative_errors(samples, _solve(samples)))
    errors = []
    for group in groups:
        values = _solve([s for s in samples if s.group != group])
        errors.append(_relative_errors([s for s in samples if s.group == group], values))
    return np.abs(np.concatenate(errors))


def rewrite_host(path: Path, host: Host, source: str, date: str) -> None:
    """Replace the numbers of an engine file's `host:` section, and nothing else."""
    text = path.read_text(encoding="utf-8")
    head, section, tail = _split_host(text)
    values = {
        "layer_us": f"{1e6 * host.layer_s:.1f}",
        "sequence_us": f"{1e6 * host.sequence_s:.1f}",
        "step_us": "0.0",
        "prefill_layer_ms": f"{1e3 * host.prefill_layer_s:.2f}",
        "source": f'"{source}"',
        "date": f'"{date}"',
    }
    for key, value in values.items():
        section, count = re.subn(rf"(?m)^  {key}: .*$", f"  {key}: {value}", section)
        if count != 1:
            raise ValueError(f"{path.name} has no single {key} in its host section")
    path.write_text(head + section + tail, encoding="utf-8")


def _split_host(text: str) -> tuple[str, str, str]:
    found = re.search(r"(?m)^host:\n(?:  .*\n)+", text)
    if not found:
        raise ValueError("no host section")
    return text[: found.start()], found[0], text[found.end() :]
