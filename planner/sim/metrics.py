"""Percentiles and attainment: what a replay says about targets.

Percentiles are inverted-CDF, so "P99 ≤ x" and "at least 99 % at x or less" are one statement.
Rejected requests have infinite latency: they count as violations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.sim.kernel.meter import gap_upper_edge
from planner.spec.slo import Target

Floats = NDArray[np.float64]


def needed(percentile: float, count: int) -> int:
    """Return how many of `count` values must stay at a limit: ⌈percentile·count/100⌉, at least 1.

    >>> needed(99.0, 1000), needed(99.9, 1000), needed(50.0, 3), needed(99.0, 1)
    (990, 999, 2, 1)
    """
    # 99.9·1000/100 is 999.0000000000001 in binary: a hair above an integer is that integer.
    return max(1, math.ceil(percentile * count / 100.0 - 1e-9))


def percentile_of(values: Floats, percentile: float) -> float:
    """Return the smallest value that `percentile` percent of `values` do not exceed.

    >>> percentile_of(np.array([3.0, 1.0, 2.0]), 50.0)
    2.0
    """
    if not len(values):
        return math.nan
    rank = needed(percentile, len(values)) - 1
    return float(np.partition(values, rank)[rank])


def gap_percentile(histogram: NDArray[np.int64], percentile: float) -> float:
    """Return a percentile of gaps counted in bins: the upper edge of its bin (≤ 1.6 % high)."""
    total = int(histogram.sum())
    if not total:
        return math.nan
    at = int(np.searchsorted(np.cumsum(histogram), needed(percentile, total)))
    return float(gap_upper_edge(at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Latency of a class over the whole trace; NaN where there was nothing to measure."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


def distribution(values: Floats) -> Distribution:
    """Summarise `values` (inf for rejected requests)."""
    if not len(values):
        nan = math.nan
        return Distribution(count=0, mean=nan, p50=nan, p90=nan, p95=nan, p99=nan, max=nan)
    ordered = np.sort(values)

    def at(percentile: float) -> float:
        return float(ordered[needed(percentile, len(ordered)) - 1])

    return Distribution(
        count=len(ordered),
        mean=float(ordered.mean()),
        p50=at(50.0),
        p90=at(90.0),
        p95=at(95.0),
        p99=at(99.0),
        max=float(ordered[-1]),
    )


def gap_distribution(histogram: NDArray[np.int64]) -> Distribution:
    """Summarise gaps counted in bins, each taken at its bin's upper edge."""
    count = int(histogram.sum())
    used = np.flatnonzero(histogram)
    edges = np.array([gap_upper_edge(int(i)) for i in used])
    return Distribution(
        count=count,
        mean=float(edges @ histogram[used] / count) if count else math.nan,
        p50=gap_percentile(histogram, 50.0),
        p90=gap_percentile(histogram, 90.0),
        p95=gap_percentile(histogram, 95.0),
        p99=gap_percentile(histogram, 99.0),
        max=float(edges[-1]) if count else math.nan,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowResult:
    """One target in one evaluation window. `count` are requests, or gaps for ITL."""

    start_s: float
    end_s: float
    count: int
    value_s: float
    attainment: float
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """One target of one class: over the whole trace and in every evaluation window."""

    class_name: str
    target: Target
    whole_s: float
    attainment: float
    windows: tuple[WindowResult, ...]  # those with something to measure

    @property
    def holds(self) -> bool:
        """Whether the target holds in every evaluation window."""
        return all(window.holds for window in self.windows)

    @property
    def worst(self) -> WindowResult | None:
        """The window with the highest percentile; None if nothing was measured."""
        return max(self.windows, key=lambda window: window.value_s, default=None)


def judged(values: Floats, target: Target, start_s: float, end_s: float) -> WindowResult:
    """Hold the latencies of one window against a target."""
    count = len(values)
    within = int(np.count_nonzero(values <= target.limit_s))
    return WindowResult(
        start_s=start_s,
        end_s=end_s,
        count=count,
        value_s=percentile_of(values, target.percentile),
        attainment=within / count,
        holds=within >= needed(target.percentile, count),
    )


def judged_gaps(
    histogram: NDArray[np.int64], within: int, target: Target, start_s: float, end_s: float
) -> WindowResult:
    """Hold the gaps of one window against an ITL target; `within` was counted exactly."""
    count = int(histogram.sum())
    holds = within >= needed(target.percentile, count)
    edge = gap_percentile(histogram, target.percentile)
    return WindowResult(
        start_s=start_s,
        end_s=end_s,
        count=count,
        # The bin's edge must not contradict the exact count.
        value_s=min(edge, target.limit_s) if holds else max(edge, target.limit_s),
        attainment=within / count,
        holds=holds,
    )
