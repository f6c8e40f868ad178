"""What measured rows say of an engine's host: time without it, seconds per unit of each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.doubtful import another_run, compiles_first, may_speculate
from planner.calibrate.measured import Row, is_main, measured, number, usable
from planner.calibrate.points import Point, Unsupported, point
from planner.calibrate.validate import resident_tokens
from planner.perf.calibrations import calibration
from planner.perf.closed_loop import ClosedLoop, closed_loop
from planner.perf.compile import compile_step_cost, with_host
from planner.perf.step_cost import StepCost, mixed_step_s
from planner.spec.engine import Engine

STEADY_PROMPT_TOKENS = 400.0  # ML.ENERGY does not publish input lengths; chat prompts are short

# The fitted overheads, a usual value each (slopes are taken there), and the largest plausible one.
FIELDS = (
    "layer_overhead_s",
    "seq_overhead_s",
    "prefill_layer_overhead_s",
    "frontend_s",
    "frontend_client_s",
    "frontend_token_s",
)
USUAL = np.array([25e-6, 5e-6, 0.5e-3, 10e-3, 0.5e-3, 5e-6])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement: time without overheads, seconds per unit of each overhead, time measured."""

    base_s: float
    slopes: tuple[float, ...]  # in the order of FIELDS
    measured_s: float
    group: str  # model and GPU: what cross-validation leaves out together
    metric: str = "TPOT"


def bare(engine: Engine) -> Engine:
    """Return the engine without host overheads."""
    return with_overheads(engine, np.zeros(len(FIELDS)))


def with_overheads(engine: Engine, values: NDArray[np.float64]) -> Engine:
    """Return the engine with these overheads, in the order of FIELDS."""
    fields = dict(zip(FIELDS, map(float, values), strict=True))
    return replace(engine, step_overhead_s=0.0, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A closed-loop row ready to be predicted with any overheads."""

    item: Point
    kernels: StepCost  # no host beside them
    resident_tokens: float
    times: Mapping[str, float]  # measured seconds by metric

    @property
    def group(self) -> str:
        """Model and GPU: what cross-validation leaves out together."""
        return f"{self.item.model.id} {self.item.gpu.id}"


def closed_loop_cases(rows: Iterable[Row], engine: str, version: str = "") -> list[Case]:
    """Return the closed-loop rows of one engine profile on GPUs with operator tables."""
    cases = []
    for row in rows:
        if not is_main(row) or may_speculate(row) or another_run(row):
            continue
        try:
            item = point(row)
        except Unsupported:
            continue
        wanted = item.engine.id == engine and version in ("", item.engine.version)
        if wanted and item.gpu.calibration and (times := _times(row)):
            cases.append(_case(item, times))
    return cases


def _times(row: Row) -> dict[str, float]:
    known = measured(row)
    times = {"TPOT": known.tpot_s, "TTFT": None if compiles_first(row) else known.ttft_s}
    return {metric: value for metric, value in times.items() if value}


def _case(item: Point, times: Mapping[str, float]) -> Case:
    kernels = compile_step_cost(
        item.model, item.gpu, bare(item.engine), calibration(item.gpu), item.deployment
    )
    return Case(
        item=item, kernels=kernels, resident_tokens=resident_tokens(item, item.engine), times=times
    )


def samples_at(cases: Iterable[Case], values: NDArray[np.float64]) -> list[Sample]:
    """Return every case's measurements with slopes taken at these overheads."""
    return [sample for case in cases for sample in _samples(case, values)]


def _samples(case: Case, values: NDArray[np.float64]) -> list[Sample]:
    at = [values]
    for index in range(len(FIELDS)):
        step = np.zeros(len(FIELDS))
        step[index] = 0.1 * USUAL[index]
        at.append(values + step)
    loops = [_loop(case, overheads) for overheads in at]
    samples = []
    for metric, seconds in case.times.items():
        here, *moved = (loop.tpot_s if metric == "TPOT" else loop.ttft_s for loop in loops)
        slopes = tuple((m - here) / (0.1 * u) for m, u in zip(moved, USUAL, strict=True))
        samples.append(
            Sample(
                base_s=here - float(np.dot(slopes, values)),
                slopes=slopes,
                measured_s=seconds,
                group=case.group,
                metric=metric,
            )
        )
    return samples


def _loop(case: Case, values: NDArray[np.float64]) -> ClosedLoop:
    item = case.item
    cost = with_host(case.kernels, item.model, with_overheads(item.engine, values))
    return closed_loop(cost, item.load, case.resident_tokens, item.mixes)


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
        if item.model.linear_attention:
            continue  # no table has its kernels at these batches: what remains is not the host's
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
                slopes=(float(item.model.num_layers), decodes, 0.0, 0.0, 0.0, 0.0),
                measured_s=latency / 1e3,
                group=f"{item.model.id} {item.gpu.id}",
            )
        )
    return samples
