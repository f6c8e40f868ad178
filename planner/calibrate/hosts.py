"""Fit what an engine's host adds: the time that no operator table contains.

TPOT and TTFT of a closed loop are nearly linear in the overheads, because its state is counted in
steps; where they are not (launches that the GPU hides, the wait for the current step) slopes are
taken again at each solution. Six numbers an engine, on TPOT and TTFT together; nothing scales an
operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.measured import Row, is_main, measured, number, text, usable
from planner.calibrate.points import Point, Unsupported, point
from planner.calibrate.validate import resident_tokens
from planner.perf.calibrations import calibration
from planner.perf.closed_loop import ClosedLoop, closed_loop
from planner.perf.compile import compile_step_cost, with_host
from planner.perf.step_cost import StepCost, mixed_step_s
from planner.spec import catalog
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
MOST = np.array([200e-6, 200e-6, 5e-3, 0.3, 5e-3, 50e-6])
ROUNDS = 4  # launches are not linear in TTFT and TPOT: slopes are taken anew at each solution
# Repeats of one point differ by 8 % in TPOT and 36 % in TTFT (P90): each weighs by its noise.
TPOT_WEIGHT, TTFT_WEIGHT = 1.0, 8 / 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement: time without overheads, seconds per unit of each overhead, time measured."""

    base_s: float
    slopes: tuple[float, ...]  # in the order of FIELDS
    measured_s: float
    group: str  # model and GPU: what cross-validation leaves out together
    metric: str = "TPOT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Fitted overheads and the errors they leave, in sample and with groups left out."""

    layer_s: float
    sequence_s: float
    prefill_layer_s: float
    frontend_s: float = 0.0
    client_s: float = 0.0
    token_s: float = 0.0
    rows: int
    median_error: float  # of TPOT
    p90_error: float
    median_error_left_out: float
    p90_error_left_out: float
    ttft_median_error: float = float("nan")
    ttft_p90_error: float = float("nan")
    ttft_median_error_left_out: float = float("nan")
    ttft_p90_error_left_out: float = float("nan")


def bare(engine: Engine) -> Engine:
    """Return the engine without host overheads."""
    return with_overheads(engine, np.zeros(len(FIELDS)))


def with_overheads(engine: Engine, values: NDArray[np.float64]) -> Engine:
    """Return the engine with these overheads, in the order of FIELDS."""
    fields = dict(zip(FIELDS, map(float, values), strict=True))
    return replace(engine, step_overhead_s=0.0, **fields)  # type: ignore[arg-type]


def may_speculate(row: Row) -> bool:
    """Whether a row may hide speculative decoding.

    The dump of 2026-03-25 holds plain and MTP runs of SGLang 0.5.9's fp8 deployments under the same
    columns: of P01653 and P00375, equal in everything stated, one takes 6.7 ms a token and the
    other 8.8 ms. A run that cannot be told apart calibrates nothing; it is scored all the same.
    """
    return (
        text(row, "engine") == "sglang"
        and text(row, "engine_version") == "0.5.9"
        and text(row, "weight_dtype") == "fp8"
        and "id=2026_03_25" in text(row, "source_ref")
    )


def another_run(row: Row) -> bool:
    """Whether a row's own figures contradict the deployment it states.

    Kimi-K2.6 on H200: 9 ms a token at one client and 365 at 100, where other runs of the same
    weights take 60. GLM-5 "as checkpoint" on 8 H200: 1.49 TB do not fit. gpt-oss at 512 clients:
    4 ms a token, less than at 16, and TTFT of minutes. They calibrate nothing, and stay scored.
    """
    engine, model = text(row, "engine"), text(row, "model")
    hopper = text(row, "gpu").startswith("H200")
    if engine == "sglang" and hopper:
        return "Kimi-K2.6" in model or ("GLM-5" in model and "fp8" not in text(row, "weight_dtype"))
    return engine == "vllm" and "gpt-oss" in model and (number(row, "concurrency") or 0.0) >= 512


def compiles_first(row: Row) -> bool:
    """Whether the first requests of a run waited for kernels to be compiled.

    SGLang's fp4 runs of DeepSeek without a version (late 2025) have a mean TTFT of 5 to 9 s at any
    concurrency and prompt length: a stall of about 70 s that the opening tenth of the requests met.
    """
    return (
        text(row, "engine") == "sglang"
        and not text(row, "engine_version")
        and text(row, "weight_dtype") == "fp4"
    )


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


def fit_closed_loops(
    cases: Sequence[Case],
    fixed: Mapping[str, float] | None = None,
    by: Callable[[Case], str] | None = None,
) -> Host:
    """Fit an engine's overheads on its closed loops; `fixed` ones are given.

    `by` names what is left out together, the model and GPU unless said otherwise.
    """
    values = USUAL
    for _ in range(ROUNDS):
        values = _solve(samples_at(cases, values), fixed or {})
    samples = []
    for case in cases:
        group = by(case) if by else case.group
        samples += [replace(sample, group=group) for sample in _samples(case, values)]
    return fit_host(samples, fixed)


def trtllm_host(rows: Iterable[Row]) -> Host:
    """Fit TensorRT-LLM's overheads beside what it shares with vLLM (`points.trtllm`).

    Its rows are one model on one GPU: a left-out group is one tensor-parallel size.
    """
    shared = catalog.engine("vllm")
    names = ("prefill_layer_overhead_s", "frontend_client_s", "frontend_token_s")
    return fit_closed_loops(
        closed_loop_cases(rows, "trtllm"),
        {name: getattr(shared, name) for name in names},
        by=lambda case: f"TP{case.item.deployment.tensor_parallel_size}",
    )


def fit_host(samples: Sequence[Sample], fixed: Mapping[str, float] | None = None) -> Host:
    """Fit the overheads, none negative, to log errors, robustly; `fixed` ones are given."""
    given = fixed or {}
    values = _solve(samples, given)
    inside, outside = np.abs(_relative_errors(samples, values)), _left_out_errors(samples, given)
    tpot = np.array([s.metric == "TPOT" for s in samples])
    return Host(
        layer_s=float(values[0]),
        sequence_s=float(values[1]),
        prefill_layer_s=float(values[2]),
        frontend_s=float(values[3]),
        client_s=float(values[4]),
        token_s=float(values[5]),
        rows=int(tpot.sum()),
        median_error=_quantile(inside[tpot], 0.5),
        p90_error=_quantile(inside[tpot], 0.9),
        median_error_left_out=_quantile(outside[tpot], 0.5),
        p90_error_left_out=_quantile(outside[tpot], 0.9),
        ttft_median_error=_quantile(inside[~tpot], 0.5),
        ttft_p90_error=_quantile(inside[~tpot], 0.9),
        ttft_median_error_left_out=_quantile(outside[~tpot], 0.5),
        ttft_p90_error_left_out=_quantile(outside[~tpot], 0.9),
    )


def _quantile(values: NDArray[np.float64], share: float) -> float:
    return float(np.quantile(values, share)) if len(values) else float("nan")


def _relative_errors(samples: Sequence[Sample], values: NDArray[np.float64]) -> NDArray[np.float64]:
    slopes = np.array([s.slopes for s in samples])
    base = np.array([s.base_s for s in samples])
    known = np.array([s.measured_s for s in samples])
    return np.asarray((base + slopes @ values) / known - 1.0)


def _solve(samples: Sequence[Sample], fixed: Mapping[str, float]) -> NDArray[np.float64]:
    from scipy.optimize import least_squares

    weights = np.array([TPOT_WEIGHT if s.metric == "TPOT" else TTFT_WEIGHT for s in samples])

    def residual(values: NDArray[np.float64]) -> NDArray[np.float64]:
        errors = np.maximum(_relative_errors(samples, values * USUAL), -0.99)
        return np.asarray(weights * np.log1p(errors))

    start, low, high = np.ones(len(FIELDS)), np.zeros(len(FIELDS)), MOST / USUAL
    for name, value in fixed.items():
        index = FIELDS.index(name)
        start[index] = value / USUAL[index]
        low[index], high[index] = start[index] - 1e-9, start[index] + 1e-9
    found = least_squares(
        residual,
        start,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=0.1,
    )
    return np.asarray(np.asarray(found.x) * USUAL)


def _left_out_errors(samples: Sequence[Sample], fixed: Mapping[str, float]) -> NDArray[np.float64]:
    """Return absolute errors, each (model, GPU) group predicted from all the others."""
    groups = sorted({s.group for s in samples})
    errors = np.abs(_relative_errors(samples, _solve(samples, fixed)))
    if len(groups) < 2:
        return np.asarray(errors)
    for group in groups:
        inside = [i for i, s in enumerate(samples) if s.group == group]
        values = _solve([s for s in samples if s.group != group], fixed)
        errors[inside] = np.abs(_relative_errors([samples[i] for i in inside], values))
    return np.asarray(errors)


def rewrite_host(path: Path, host: Host, source: str, date: str) -> None:
    """Replace the numbers of an engine file's `host:` section, and nothing else."""
    text = path.read_text(encoding="utf-8")
    head, section, tail = _split_host(text)
    values = {
        "layer_us": f"{1e6 * host.layer_s:.1f}",
        "sequence_us": f"{1e6 * host.sequence_s:.1f}",
        "step_us": "0.0",
        "prefill_layer_ms": f"{1e3 * host.prefill_layer_s:.2f}",
        "frontend_ms": f"{1e3 * host.frontend_s:.1f}",
        "frontend_client_us": f"{1e6 * host.client_s:.0f}",
        "frontend_token_us": f"{1e6 * host.token_s:.2f}",
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
