"""What no model of the stated columns can predict: repeats that differ, rows that contradict them.

Nothing here leaves a score: it says how much of an error is the measurement's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from planner.calibrate.doubtful import another_run, compiles_first, may_speculate
from planner.calibrate.launch_scripts import INFERENCEX
from planner.calibrate.measured import Row, figures, is_main, text
from planner.calibrate.points import point
from planner.calibrate.scoring import Scored, comparisons
from planner.calibrate.validate import predict

STATED = (
    "engine",
    "engine_version",
    "gpu",
    "tp",
    "pp",
    "ep",
    "dp",
    "weight_dtype",
    "kv_dtype",
    "input_tokens",
    "output_tokens",
    "concurrency",
    "n_requests",
)
# Tokens a verifying step of multi-token prediction yields; DeepSeek-V3 reports 1.8 with one draft
# token (arXiv:2412.19437, §5.4.3), InferenceX drafts two or three.
TOKENS_PER_VERIFYING_STEP = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Differences between runs that agree in every stated column, in per cent."""

    engine: str
    metric: str
    pairs: int
    median_pct: float
    p90_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Absolute errors of a group of rows, in per cent."""

    rows: int
    median_pct: float
    p90_pct: float


def contradicts(row: Row) -> bool:
    """Whether a row's figures say that the run was not, or not only, what its columns state."""
    described_by_half = text(row, "engine") == "sglang" and text(row, "gpu").startswith("H800")
    return may_speculate(row) or another_run(row) or compiles_first(row) or described_by_half


def repeat_noise(rows: Iterable[Row]) -> list[Spread]:
    """Return how far InferenceX's repeats of one point differ; copies of a row count once.

    Models of one shape under two names (DeepSeek R1 and V3) are one point.
    """
    groups: dict[tuple[str, ...], dict[tuple[float | None, ...], Row]] = {}
    for row in rows:
        if not is_main(row) or text(row, "source_id") != INFERENCEX:
            continue  # other sources vary flags that no column holds
        model = text(row, "model").split("/")[-1].replace("DeepSeek-R1", "DeepSeek-V3")
        known = figures(row)
        values = (known["TPOT"].value, known["TTFT"].value)
        groups.setdefault((model, *(text(row, name) for name in STATED)), {})[values] = row
    spreads: dict[tuple[str, str], list[float]] = {}
    for group in groups.values():
        for (one, row), (other, _) in combinations(group.items(), 2):
            for metric, a, b in zip(("TPOT", "TTFT"), one, other, strict=True):
                if a and b:
                    spread = abs(a - b) / min(a, b)
                    spreads.setdefault((text(row, "engine"), metric), []).append(spread)
    return [
        Spread(
            engine=engine,
            metric=metric,
            pairs=len(values),
            median_pct=100.0 * float(np.median(values)),
            p90_pct=100.0 * float(np.quantile(values, 0.9)),
        )
        for (engine, metric), values in sorted(spreads.items())
    ]


def errors_of(found: Iterable[Scored], metric: str, keep: Callable[[Row], bool]) -> Kept:
    """Return a metric's errors over the rows to keep."""
    errors = [
        abs(predicted / value - 1.0)
        for item in found
        if keep(item.row)
        for name, value, predicted in comparisons(item)
        if name == metric and predicted is not None and predicted > 0
    ]
    return _kept(errors)


def speculative_waits(rows: Iterable[Row], tokens_per_step: float) -> Kept:
    """Return TTFT errors of the rows that may speculate if a step yields this many tokens.

    Their scheduler looks at its inbox every 10 or 30 steps, and a verifying step takes the measured
    TPOT times the tokens it yields: so long a new request waits before anything of the model runs.
    """
    errors = []
    for row in rows:
        if not (is_main(row) and may_speculate(row)):
            continue
        known = figures(row)
        ttft, tpot = known["TTFT"], known["TPOT"]
        if ttft.excluded or tpot.excluded or not (ttft.value and tpot.value):
            continue
        item = point(row)
        loop = predict(item)
        steps = float(item.engine.async_scheduling) + (item.load.poll_steps - 1.0) / 2.0
        waited = loop.ttft_s - steps * loop.tpot_s + steps * tokens_per_step * tpot.value / 1e3
        errors.append(abs(1e3 * waited / ttft.value - 1.0))
    return _kept(errors)


def plain_waits(rows: Iterable[Row]) -> Kept:
    """Return the same rows' TTFT errors as scored: a step yields one token of our own TPOT."""
    found = []
    for row in rows:
        if is_main(row) and may_speculate(row):
            ttft = figures(row)["TTFT"]
            if ttft.value and not ttft.excluded:
                found.append(abs(1e3 * predict(point(row)).ttft_s / ttft.value - 1.0))
    return _kept(found)


def _kept(errors: Sequence[float]) -> Kept:
    absolute = 100.0 * np.asarray(errors, dtype=np.float64)
    return Kept(
        rows=len(absolute),
        median_pct=float(np.median(absolute)),
        p90_pct=float(np.quantile(absolute, 0.9)),
    )
