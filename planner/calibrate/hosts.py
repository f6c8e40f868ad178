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

from planner.calibrate.host_samples import (
    FIELDS,
    USUAL,
    Case,
    Sample,
    closed_loop_cases,
    samples_at,
)
from planner.calibrate.measured import Row
from planner.spec import catalog

MOST = np.array([200e-6, 200e-6, 5e-3, 0.3, 5e-3, 50e-6])
ROUNDS = 4  # launches are not linear in TTFT and TPOT: slopes are taken anew at each solution
# Repeats of one point differ by 8 % in TPOT and 36 % in TTFT (P90): each weighs by its noise.
TPOT_WEIGHT, TTFT_WEIGHT = 1.0, 8 / 36


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
        samples += [replace(sample, group=group) for sample in samples_at([case], values)]
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
