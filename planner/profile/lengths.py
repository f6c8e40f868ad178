"""Token lengths: percentiles, joint histogram, correlation of input and output."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from planner.profile.counts import ValueCounts, inverted_cdf, midranks
from planner.profile.types import Histogram2d, LengthStats


def length_stats(counted: ValueCounts) -> LengthStats:
    """Mean, population standard deviation and inverted-CDF percentiles of one token column."""
    n = int(counted.counts.sum())
    mean = float(counted.counts @ counted.values.astype(np.float64)) / n
    variance = float(counted.counts @ (counted.values - mean) ** 2) / n
    return LengthStats(
        mean=mean,
        std=math.sqrt(variance),
        p50=float(inverted_cdf(counted, 50.0)),
        p90=float(inverted_cdf(counted, 90.0)),
        p95=float(inverted_cdf(counted, 95.0)),
        p99=float(inverted_cdf(counted, 99.0)),
        max=float(counted.values[-1]),
    )


def power_of_two_bins(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bin of each count on the edges 0, 1, 2, 4, 8, …: its number of binary digits.

    Examples
    --------
    >>> power_of_two_bins(np.array([0, 1, 2, 3, 4, 1023, 1024])).tolist()
    [0, 1, 2, 2, 3, 10, 11]
    """
    # float64 holds every integer below 2**53, so the exponent is exact.
    return np.frexp(tokens.astype(np.float64))[1].astype(np.int64)


def power_of_two_edges(bins: int) -> tuple[int, ...]:
    """Edges of the first `bins` power-of-two bins.

    Examples
    --------
    >>> power_of_two_edges(4)
    (0, 1, 2, 4, 8)
    """
    return (0, *(1 << k for k in range(bins)))


def joint_histogram(inputs: ValueCounts, outputs: ValueCounts) -> Histogram2d:
    """Count requests by power-of-two bins of input and output tokens."""
    input_bin = power_of_two_bins(inputs.values)
    output_bin = power_of_two_bins(outputs.values)
    rows, columns = int(input_bin[-1]) + 1, int(output_bin[-1]) + 1
    cell = input_bin[inputs.row] * columns + output_bin[outputs.row]
    counts = np.bincount(cell, minlength=rows * columns).reshape(rows, columns)
    return Histogram2d(
        input_edges=power_of_two_edges(rows),
        output_edges=power_of_two_edges(columns),
        counts=tuple(tuple(int(count) for count in row) for row in counts),
    )


def correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Pearson's r: cov(x, y)/(std(x)·std(y)); NaN where either does not vary.

    Examples
    --------
    >>> correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    1.0
    >>> correlation(np.array([1.0, 1.0]), np.array([2.0, 4.0]))
    nan
    """
    dx, dy = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(dx @ dx) * float(dy @ dy))
    return float(dx @ dy) / scale if scale > 0.0 else math.nan


def correlations(inputs: ValueCounts, outputs: ValueCounts) -> tuple[float, float]:
    """Pearson's r of the lengths, and Spearman's ρ: Pearson's r of their mid-ranks."""
    x = inputs.values.astype(np.float64)[inputs.row]
    y = outputs.values.astype(np.float64)[outputs.row]
    return correlation(x, y), correlation(midranks(inputs), midranks(outputs))
