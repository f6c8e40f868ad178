"""What a sampled log says about the service it was sampled from.

A log that holds one session in twenty shows bursts that the service does not have: the noise of
the draw, twenty times enlarged when the rate is scaled back up. The rate of the service is
estimated by keeping of every deviation the share that the draw does not explain. Each replica's
own chance comes back in the queue equation, at its own size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS_S = (2.0, 60.0, 600.0, 3600.0)  # deviations are judged level by level, each from the next
ALL_SIGNAL = (1.0, 1.0, 1.0)


def signal_share(observed: float, noise: float) -> float:
    """Return the share of a variance that sampling noise does not explain: max(0, 1 − noise/V).

    It is the best linear weight of a deviation (Wiener): the estimate keeps what is real.

    >>> signal_share(4.0, 1.0), signal_share(1.0, 2.0)
    (0.75, 0.0)
    """
    return max(0.0, 1.0 - noise / observed) if observed > 0.0 else 0.0


def burst_shares(
    arrival_s: Floats, tokens: Floats, session_id: NDArray[np.int64], sample_rate: float
) -> tuple[float, float, float]:
    """Return the weights of deviations of 2 s from a minute, a minute from ten, ten from an hour.

    Drawing whole sessions with probability s gives Σ over bins of Σ over sessions (1 − s)·w², w a
    session's tokens in the bin: sessions that send many tokens at once make the draw noisier. That
    is compared with the variance observed in the whole log.

    Parameters
    ----------
    arrival_s, tokens
        Requests, and what they bring.
    session_id
        -1: unknown, a request of its own.
    sample_rate
        s; 1 keeps everything.
    """
    if sample_rate >= 1.0 or not len(arrival_s):
        return ALL_SIGNAL
    shares = [
        _level_share(arrival_s, tokens, session_id, sample_rate, width, parent)
        for width, parent in pairwise(LEVELS_S)
    ]
    return shares[0], shares[1], shares[2]


def _level_share(
    arrival_s: Floats,
    tokens: Floats,
    session_id: NDArray[np.int64],
    sample_rate: float,
    width_s: float,
    parent_s: float,
) -> float:
    observed, squares = _level(arrival_s, tokens, session_id, width_s, parent_s)
    return signal_share(observed, (1.0 - sample_rate) * squares)


def _level(
    arrival_s: Floats,
    tokens: Floats,
    session_id: NDArray[np.int64],
    width_s: float,
    parent_s: float,
) -> tuple[float, float]:
    """Return the squared deviations of bins from wider ones, and what sessions alone would give."""
    place = (arrival_s // width_s).astype(np.int64)
    level = np.bincount(place, tokens).astype(np.float64)
    inside = max(2, round(parent_s / width_s))
    deviation = level - local_mean(level, inside)
    observed = float((deviation**2).sum()) * inside / (inside - 1)
    return observed, _session_squares(place, tokens, session_id)


def kept_shares(
    arrival_s: Floats,
    tokens: Floats,
    session_id: NDArray[np.int64],
    levels_s: Sequence[float],
    *,
    surely: bool = False,
) -> tuple[float, ...]:
    """Return for each level but the last how many sessions must stay within it: √(1 − noise/V).

    Sessions that come independently of each other give a level's deviations the variance Σw²
    ("noise"), w a session's tokens in the bin; what is observed beyond that is common to many. If
    a share p of all copies stays together at a level and the others are displaced further, the
    deviations of their sum shrink to p, their variance to p²·V: with this p it is V − noise, the
    common part. What stays within a level stays within every wider one. With `surely`, of few bins
    only what exceeds noise by two standard deviations (2/bins of its square) counts as common.
    """
    found = []
    for width, parent in pairwise(levels_s):
        observed, noise = _level(arrival_s, tokens, session_id, width, parent)
        bins = 1.0 + arrival_s[-1] // width
        if surely:
            noise *= 1.0 + 2.0 * math.sqrt(2.0 / bins)
        found.append(math.sqrt(signal_share(observed, noise)))
    return tuple(float(share) for share in np.maximum.accumulate(found))


def _session_squares(
    place: NDArray[np.int64], tokens: Floats, session_id: NDArray[np.int64]
) -> float:
    """Return Σ over intervals and sessions of (tokens of the session in the interval)²."""
    known = session_id >= 0
    alone = float((tokens[~known] ** 2).sum())
    if not known.any():
        return alone
    width = int(session_id.max()) + 1
    _, group = np.unique(place[known] * width + session_id[known], return_inverse=True)
    return alone + float((np.bincount(group, tokens[known]) ** 2).sum())


def estimated_rate(rate: Floats, bin_s: float, shares: tuple[float, float, float]) -> Floats:
    """Return the rate of the service behind a sampled rate, bin by bin, in the log's own units.

    hour + w₃·(ten minutes − hour) + w₂·(minute − ten minutes) + w₁·(bin − minute), running means.

    >>> estimated_rate(np.array([1.0, 3.0]), 2.0, (1.0, 1.0, 1.0)).tolist()
    [1.0, 3.0]
    >>> estimated_rate(np.array([1.0, 3.0]), 2.0, (0.5, 1.0, 1.0)).tolist()
    [1.5, 2.5]
    """
    if shares == ALL_SIGNAL:
        return rate
    minute, ten, hour = (local_mean(rate, max(1, round(width / bin_s))) for width in LEVELS_S[1:])
    estimate: Floats = (
        hour + shares[2] * (ten - hour) + shares[1] * (minute - ten) + shares[0] * (rate - minute)
    )
    return np.maximum(estimate, 0.0)


def local_mean(values: Floats, width: int) -> Floats:
    """Return the running mean over `width` neighbours, narrower at the ends.

    >>> local_mean(np.array([1.0, 2.0, 3.0, 4.0]), 3).tolist()
    [1.5, 2.0, 3.0, 3.5]
    """
    total = np.concatenate([[0.0], np.cumsum(values)])
    half = width // 2
    low = np.maximum(0, np.arange(len(values)) - half)
    high = np.minimum(len(values), np.arange(len(values)) + half + 1)
    mean: Floats = (total[high] - total[low]) / (high - low)
    return mean
