"""Predict what a measured row would have shown: latencies and throughput of a whole run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.calibrate.lengths import SEED, relative_lengths
from planner.calibrate.measured import Row, dataset, number, text
from planner.calibrate.points import Point, Unsupported, point
from planner.errors import PlannerError
from planner.ingest.requests import Requests
from planner.perf.calibrations import calibration
from planner.perf.closed_loop import ClosedLoop, closed_loop
from planner.perf.compile import compile_step_cost
from planner.perf.finite_run import FiniteRun, finite_run
from planner.perf.memory import memory_budget
from planner.perf.static_batch import static_batch
from planner.perf.step_cost import StepCost
from planner.spec.calibration import Calibration
from planner.spec.gpu import Gpu

# ML.ENERGY does not publish input lengths; chat prompts are short (own assumption).
UNSTATED_PROMPT_TOKENS = "400"
# One blog measured "short chat prompts" and says no more; its answers have 51 tokens.
SHORT_PROMPT_TOKENS = "50"
MOST_REQUESTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What the file of predictions holds for one row; None where a metric has no meaning."""

    ttft_s: float | None
    tpot_s: float | None
    output_tokens_per_s: float | None
    status: str = "ok"


Efficiencies = Callable[[Gpu], Calibration]


def predict_row(row: Row, efficiencies: Efficiencies = calibration) -> Predicted:
    """Return the prediction of any row; an unsupported row has a status that says why."""
    try:
        return PREDICTORS[dataset(row)](row, efficiencies)
    except Unsupported as reason:
        return _refused(str(reason))
    except PlannerError as error:
        return _refused(str(error))


def _refused(reason: str) -> Predicted:
    return Predicted(ttft_s=None, tpot_s=None, output_tokens_per_s=None, status=reason)


def _cost(item: Point, efficiencies: Efficiencies) -> StepCost:
    return compile_step_cost(
        item.model, item.gpu, item.engine, efficiencies(item.gpu), item.deployment
    )


def _resident(item: Point) -> float:
    """KV tokens of one rank; a model that does not fit by our account ran all the same."""
    budget = memory_budget(item.model, item.gpu, item.engine, item.deployment)
    return budget.kv_tokens / item.deployment.data_parallel_size or float("inf")


def _closed(row: Row, efficiencies: Efficiencies) -> Predicted:
    if text(row, "len_dist").startswith("short chat prompt") and not text(row, "input_tokens"):
        row = {**row, "input_tokens": SHORT_PROMPT_TOKENS}
    item = point(row)
    cost, resident = _cost(item, efficiencies), _resident(item)
    loop = closed_loop(cost, item.load, resident, item.mixes)
    ranks = item.deployment.data_parallel_size
    requests = number(row, "n_requests")
    if not requests:
        return Predicted(
            ttft_s=loop.ttft_s,
            tpot_s=loop.tpot_s,
            output_tokens_per_s=ranks * loop.output_tokens_per_s,
        )
    run = _finite(row, item, cost, resident, loop)
    count = min(requests, MOST_REQUESTS)
    return Predicted(
        ttft_s=loop.ttft_s,
        tpot_s=run.tpot_s,
        output_tokens_per_s=count * item.load.output_tokens / run.duration_s,
    )


def _finite(row: Row, item: Point, cost: StepCost, resident: float, loop: ClosedLoop) -> FiniteRun:
    """Return the row's whole run: its requests over its ranks, the tail included."""
    ranks = item.deployment.data_parallel_size
    count = int(min(number(row, "n_requests") or 0.0, MOST_REQUESTS))
    lengths = relative_lengths(row, max(1, round(count / ranks))) * item.load.output_tokens
    load = replace(item.load, opening_burst=0.0)

    def at(clients: float) -> ClosedLoop:
        return closed_loop(cost, replace(load, concurrency=clients), resident, item.mixes)

    return finite_run(
        lengths,
        max(1, round(item.load.concurrency)),
        loop.ttft_s,
        lambda clients: at(clients).tpot_s,
        lambda clients: at(clients).decode_step_s,
    )


def _steady(row: Row, efficiencies: Efficiencies) -> Predicted:
    """Predict a steady state at a known mean batch."""
    stated: Mapping[str, str] = {
        **row,
        "concurrency": text(row, "avg_running_batch"),
        "input_tokens": text(row, "input_tokens") or UNSTATED_PROMPT_TOKENS,
    }
    item = point(stated)
    loop = closed_loop(_cost(item, efficiencies), item.load, float("inf"), item.mixes)
    return Predicted(
        ttft_s=None,
        tpot_s=loop.tpot_s,
        output_tokens_per_s=item.load.concurrency
        * item.deployment.data_parallel_size
        / loop.tpot_s,
    )


def _static(row: Row, efficiencies: Efficiencies) -> Predicted:
    item = point(row)
    load = item.load
    found = static_batch(
        _cost(item, efficiencies), load.concurrency, load.prompt_tokens, load.output_tokens
    )
    made = load.concurrency * item.deployment.data_parallel_size * load.output_tokens
    return Predicted(
        ttft_s=found.ttft_s, tpot_s=found.tpot_s, output_tokens_per_s=made / found.duration_s
    )


def _replayed(row: Row, efficiencies: Efficiencies) -> Predicted:
    """Predict a burst or an open loop: every request through the scheduler."""
    count = int(number(row, "n_requests") or 0.0)
    rate = number(row, "req_rate")
    opens = dataset(row) == "openloop"
    if not count or (opens and not rate):
        raise Unsupported("number of requests or their rate not stated")
    stated: Mapping[str, str] = {**row, "concurrency": text(row, "concurrency") or "256"}
    item = point(stated)
    cost = _cost(item, efficiencies)
    if not item.mixes:
        if opens:
            raise Unsupported("open loop of an engine that the replay does not know")
        return _drained(stated, item, cost)
    requests = drawn_requests(row, item, min(count, MOST_REQUESTS), rate if opens else None)
    return replayed(item, requests, cost)


def _drained(row: Row, item: Point, cost: StepCost) -> Predicted:
    """Predict a burst of an engine the replay does not know: as many at a time as KV holds."""
    resident, load = _resident(item), item.load
    context = load.prompt_tokens + load.output_tokens / 2.0
    ranks = item.deployment.data_parallel_size
    count = min(number(row, "n_requests") or 1.0, MOST_REQUESTS)
    most = min(count / ranks, max(1.0, resident / context), float(cost.max_num_seqs))
    full = replace(item, load=replace(load, concurrency=most, opening_burst=0.0))
    loop = closed_loop(cost, full.load, resident, item.mixes)
    run = _finite(row, full, cost, resident, loop)
    return Predicted(
        ttft_s=None,
        tpot_s=run.tpot_s,
        output_tokens_per_s=count * load.output_tokens / run.duration_s,
    )


def drawn_requests(row: Row, item: Point, count: int, rate: float | None) -> Requests:
    """Return a run's requests: lengths of its kind, at once or at a rate (Poisson or even)."""
    rng = np.random.default_rng(SEED)
    arrivals = np.zeros(count)
    if rate and text(row, "load_type").startswith("poisson"):
        arrivals = np.cumsum(rng.exponential(1.0 / rate, count))
    elif rate:
        arrivals = np.arange(count) / rate
    prompts = relative_lengths(row, count, SEED + 1) * item.load.prompt_tokens
    outputs = relative_lengths(row, count) * item.load.output_tokens
    return requests_of(arrivals - arrivals[0], prompts, outputs)


def requests_of(
    arrivals: np.ndarray, prompts: np.ndarray, outputs: np.ndarray
) -> Requests:  # plain arrays of any numeric kind
    """Return requests of one class without sessions or cached prefixes."""
    zeros = np.zeros(len(arrivals), dtype=np.int64)
    return Requests(
        arrival_s=np.asarray(arrivals, dtype=np.float64),
        input_tokens=np.maximum(np.rint(prompts), 1).astype(np.int64),
        output_tokens=np.maximum(np.rint(outputs), 1).astype(np.int64),
        class_id=zeros,
        class_names=("all",),
        cached_tokens=zeros,
        session_id=zeros - 1,
    )


def replayed(item: Point, requests: Requests, cost: StepCost) -> Predicted:
    """Return mean latencies and throughput of a replay through every rank's scheduler."""
    from planner.sim.replay import replay
    from planner.sim.settings import SchedulerSettings

    longest = int((requests.input_tokens + requests.output_tokens).max())
    ranks = item.deployment.data_parallel_size
    deployment = replace(item.deployment, max_model_len=max(longest, item.deployment.max_model_len))
    budget = memory_budget(item.model, item.gpu, item.engine, deployment)
    if budget.num_blocks < 2:
        raise Unsupported("the memory account leaves no KV cache")
    settings = SchedulerSettings.of(deployment, item.engine, budget)
    found = replay(requests, cost, settings, replicas=ranks, routing="round_robin")
    served = found.rejected == 0
    if not served.any():
        raise Unsupported("no request fits the KV cache that the account leaves")
    end = float((requests.arrival_s[served] + found.e2e_s[served]).max())
    return Predicted(
        ttft_s=float(found.ttft_s[served].mean()),
        tpot_s=float(np.nanmean(found.tpot_s[served])),
        output_tokens_per_s=float(requests.output_tokens[served].sum()) / end,
    )


PREDICTORS: Mapping[str, Callable[[Row, Efficiencies], Predicted]] = {
    "main": _closed,
    "suspect": _closed,
    "steady": _steady,
    "static": _static,
    "openloop": _replayed,
    "burst": _replayed,
}
