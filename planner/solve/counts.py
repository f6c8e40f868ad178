"""The fewest replicas for which something holds."""

from __future__ import annotations

from collections.abc import Callable

WIDEST = 4.0  # counts are sought up to this multiple of the first one tried


def fewest_that_hold(holds: Callable[[int], bool], start: int) -> tuple[int | None, int]:
    """Return the least count that holds and the count below it that fails (0: there is none).

    Sought from `start` in doubling strides, then by halving; no count when none up to WIDEST
    times `start` holds, and then the largest that was tried fails.

    >>> fewest_that_hold(lambda n: n >= 7, 5), fewest_that_hold(lambda n: n >= 1, 5)
    ((7, 6), (1, 0))
    >>> fewest_that_hold(lambda n: False, 5)
    (None, 20)
    """
    most = max(6, int(WIDEST * start))
    low, high, stride = 0, start, 1  # `low` fails (0 always would), `high` holds
    while not holds(high):
        if high >= most:
            return None, high
        low, high = high, min(most, high + stride)
        stride *= 2
    while not low and high > 1:
        tried = max(1, high - stride)
        low, high = (low, tried) if holds(tried) else (tried, high)
        stride *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high, low
