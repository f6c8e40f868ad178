"""A token column as its distinct values and how often each occurs: the rest follows from that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DENSE_LIMIT = 1 << 22  # up to this value counting by index beats sorting


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCounts:
    """Distinct values ascending, their counts, and for each row the index of its value."""

    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    row: NDArray[np.int64]


def value_counts(column: NDArray[np.int64]) -> ValueCounts:
    """Count the distinct values of a column of non-negative integers.

    Examples
    --------
    >>> found = value_counts(np.array([7, 3, 7]))
    >>> found.values.tolist(), found.counts.tolist(), found.row.tolist()
    ([3, 7], [1, 2], [1, 0, 1])
    """
    if len(column) and int(column.min()) >= 0 and int(column.max()) < DENSE_LIMIT:
        dense = np.bincount(column)
        values = np.flatnonzero(dense)
        place = np.zeros(len(dense), np.int64)
        place[values] = np.arange(len(values))
        return ValueCounts(values=values, counts=dense[values], row=place[column])
    values, row, counts = np.unique(column, return_inverse=True, return_counts=True)
    return ValueCounts(values=values, counts=counts, row=row)


def inverted_cdf(counted: ValueCounts, percent: float) -> int:
    """Smallest observed value that at least `percent` % of the rows do not exceed.

    Source: Hyndman and Fan, "Sample quantiles in statistical packages", 1996, definition 1.

    Examples
    --------
    >>> counted = value_counts(np.array([10, 20, 30, 40]))
    >>> [inverted_cdf(counted, percent) for percent in (50, 51, 100)]
    [20, 30, 40]
    """
    upto = np.cumsum(counted.counts)
    # The product is rounded first: 0.95·20 is 19.000000000000004 in binary and must mean row 19.
    needed = np.ceil(np.round(percent / 100.0 * upto[-1], 6))
    return int(counted.values[np.searchsorted(upto, max(needed, 1))])


def midranks(counted: ValueCounts) -> NDArray[np.float64]:
    """Rank of every row from 1; equal values share the mean of their ranks.

    Examples
    --------
    >>> midranks(value_counts(np.array([5, 9, 5]))).tolist()
    [1.5, 3.0, 1.5]
    """
    upto = np.cumsum(counted.counts)
    ranks: NDArray[np.float64] = (upto - (counted.counts - 1) / 2.0)[counted.row]
    return ranks
