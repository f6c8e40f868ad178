"""How requests arrive: rates, peaks, burstiness, and what the timestamps cannot show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from planner.profile.fits import distances, every_kth, gamma_shape, weibull_shape
from planner.profile.types import ArrivalStats
from planner.units import DAY_S, HOUR_S, MINUTE_S, WEEK_S

GRIDS_S = (HOUR_S, MINUTE_S, 1.0, 0.1, 0.01, 0.001)
GRID_SLACK_S = 1e-6  # float64 seconds resolve 0.1 ns over a week; the finest grid is 1 ms
BATCHED_SHARE = 0.5  # of gaps that are zero: from here on rows come in batches
BATCH_SPREAD = 1.2  # 90th over 10th percentile of the gaps between batches that is still regular
HOURS_OF_WEEK = 168


def arrival_stats(arrival_s: NDArray[np.float64], span_s: float) -> ArrivalStats:
    """Profile the sorted arrival times of one class within a trace of length `span_s`."""
    gaps = np.diff(arrival_s)
    positive = gaps[gaps > 0.0]
    quantum_s = time_quantum_s(arrival_s)
    # Below the resolution of the timestamps there is no shape to fit.
    hidden = quantum_s > 0.0 and quantum_s * len(arrival_s) > span_s
    fitted = every_kth(positive[:0] if hidden else positive)
    gamma_k, weibull_k = gamma_shape(fitted), weibull_shape(fitted)
    exponential, gamma, weibull = distances(fitted, gamma_k, weibull_k)
    second, minute, hour = (
        window_counts(arrival_s, window_s, span_s) for window_s in (1.0, MINUTE_S, HOUR_S)
    )
    return ArrivalStats(
        mean_per_s=len(arrival_s) / span_s if span_s > 0.0 else math.nan,
        peak_to_mean_1s=second.peak_to_mean,
        peak_to_mean_60s=minute.peak_to_mean,
        peak_to_mean_3600s=hour.peak_to_mean,
        peak_per_minute=minute.peak,
        peak_per_hour=hour.peak,
        gap_cv=float(gaps.std() / gaps.mean()) if len(positive) else math.nan,
        zero_gap_share=1.0 - len(positive) / len(gaps) if len(gaps) else math.nan,
        gamma_shape=gamma_k,
        weibull_shape=weibull_k,
        ks_exponential=exponential,
        ks_gamma=gamma,
        ks_weibull=weibull,
        fano_1s=second.fano,
        fano_60s=minute.fano,
        time_quantum_s=quantum_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """Requests per window of one length, windows laid end to end from the trace's start.

    `peak` looks at every window; the mean and the variance leave out the last, which the end of the
    trace cuts short. The ratios are NaN for a trace shorter than one window.
    """

    peak: int
    peak_to_mean: float
    fano: float  # variance / mean


def window_counts(arrival_s: NDArray[np.float64], window_s: float, span_s: float) -> WindowCounts:
    """Count sorted arrivals per window, without an array as long as the trace has windows.

    Examples
    --------
    >>> window_counts(np.array([0.0, 0.5, 1.2, 3.0]), 1.0, 3.0)
    WindowCounts(peak=2, peak_to_mean=2.0, fano=0.6666666666666667)
    """
    index = np.floor_divide(arrival_s, window_s)
    begins = np.flatnonzero(np.diff(index, prepend=-1.0))
    counts = np.diff(begins, append=len(index))
    peak = int(counts.max())
    whole = math.floor(span_s / window_s)
    inside = counts[index[begins] < whole].astype(np.float64)
    mean = float(inside.sum()) / whole if whole else 0.0
    if mean <= 0.0:
        return WindowCounts(peak=peak, peak_to_mean=math.nan, fano=math.nan)
    variance = float(inside @ inside) / whole - mean * mean
    return WindowCounts(peak=peak, peak_to_mean=peak / mean, fano=variance / mean)


def time_quantum_s(arrival_s: NDArray[np.float64]) -> float:
    """Resolution of the timestamps: the spacing of batches, else the coarsest decimal grid, else 0.

    Batches show when most gaps are zero and the others nearly equal. A grid shows when every time
    is a whole number of its steps after the first.

    Examples
    --------
    >>> time_quantum_s(np.array([0.0, 0.25, 1.75, 3.11]))
    0.01
    >>> time_quantum_s(np.array([0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 5.999]))
    3.0
    """
    gaps = np.diff(arrival_s)
    positive = np.sort(gaps[gaps > 0.0])
    if len(positive) == 0:
        return 0.0
    if len(positive) <= (1.0 - BATCHED_SHARE) * len(gaps):
        low, middle, high = positive[[int(share * len(positive)) for share in (0.1, 0.5, 0.9)]]
        if high <= BATCH_SPREAD * low:
            return round(float(middle), 3)
    few = every_kth(arrival_s, 1000)
    return next((q for q in GRIDS_S if _on_grid(few, q) and _on_grid(arrival_s, q)), 0.0)


def _on_grid(times_s: NDArray[np.float64], step_s: float) -> bool:
    return bool(np.all(np.abs(times_s - np.rint(times_s / step_s) * step_s) <= GRID_SLACK_S))


def hour_of_week(arrival_s: NDArray[np.float64], span_s: float, origin: str) -> tuple[float, ...]:
    """Mean requests in each hour of the week from Monday 00:00 UTC.

    Empty when the trace has no calendar (`origin` "") or covers less than a week: an hour that the
    trace never saw has no mean. Each hour's count is divided by how much of it the trace saw.
    """
    if not origin or span_s < WEEK_S - HOUR_S:
        return ()
    start_s = _seconds_into_week(origin)
    counts = np.bincount(
        (np.floor_divide(arrival_s + start_s, HOUR_S) % HOURS_OF_WEEK).astype(np.int64),
        minlength=HOURS_OF_WEEK,
    )
    seen_s = _covered_s(HOURS_OF_WEEK, start_s, start_s + span_s)
    return tuple(
        float(count * HOUR_S / seen) if seen > 0.0 else 0.0
        for count, seen in zip(counts, seen_s, strict=True)
    )


def _covered_s(slots: int, begin_s: float, end_s: float) -> NDArray[np.float64]:
    """Seconds of [begin, end) in each of the first `slots` hours of the week, over all weeks.

    Examples
    --------
    >>> _covered_s(2, 1800.0, 604800.0 + 900.0).tolist()
    [2700.0, 3600.0]
    """
    covered = np.zeros(slots)
    for week in range(math.floor(end_s / WEEK_S) + 1):
        opens = np.arange(slots) * HOUR_S + week * WEEK_S
        inside = np.minimum(opens + HOUR_S, end_s) - np.maximum(opens, begin_s)
        covered += np.maximum(inside, 0.0)
    return covered


def _seconds_into_week(origin: str) -> float:
    """Seconds from Monday 00:00 UTC; a time without zone counts as UTC.

    Examples
    --------
    >>> _seconds_into_week("2026-10-12T01:00:00+00:00"), _seconds_into_week("2026-10-13T00:00:00")
    (3600.0, 86400.0)
    """
    moment = datetime.fromisoformat(origin)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return moment.weekday() * DAY_S + (moment - midnight).total_seconds()
