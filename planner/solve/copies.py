"""How more traffic than the trace holds is made from it: arrivals, and how far copies lie apart.

One reading for every command, so that a replay of a plan's fleet meets the traffic that it was
sized for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim.copying import (
    INDEPENDENT,
    INDEPENDENT_S,
    TOGETHER,
    Copying,
    Mixture,
)
from planner.solve.case import Case
from planner.solve.sampling import LEVELS_S, kept_shares
from planner.solve.traffic import Traffic
from planner.solve.windows import Window
from planner.units import DAY_S, HOUR_S

CONTENT_LEVELS_S = (60.0, 600.0, HOUR_S, 6.0 * HOUR_S, DAY_S)  # as `LEVELS_S`, for lengths
FEW = 30  # sessions of a class that are too few to tell whose lengths belong where


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """The arrivals of a trace as a plan reads them, its windows, and how it is copied."""

    arrival_s: NDArray[np.float64]
    spread_ticks: bool
    copying: Copying
    windows: tuple[Window, ...]


def reading_at(case: Case, max_model_len: int, kv_tokens: float, load: float) -> Reading:
    """Return how a plan would read the case's trace for one configuration.

    Parameters
    ----------
    case
        The trace and what is declared of it.
    max_model_len
        Tokens of the longest request that is served.
    kv_tokens
        KV cache of one replica, tokens.
    load
        Load of one replica over the trace's, on which its prefix cache depends.
    """
    traffic = case.traffic(max_model_len, case.cached(kv_tokens, load))
    return Reading(
        arrival_s=traffic.arrival_s,
        spread_ticks=traffic.arrival_s is not case.requests.arrival_s,
        copying=copying_of(case.requests, traffic),
        windows=case.windows(traffic),
    )


@lru_cache(maxsize=8)
def copying_of(requests: Requests, traffic: Traffic) -> Copying:
    """Return how copies of a trace are made: a sample's so that they show the whole service.

    A whole log is copied only for growth, and its copies are displaced by ten minutes. In a sample
    the deviations at each time scale (2 s, a minute, ten minutes; an hour is kept) are partly the
    service's and partly the draw's; copies stay together as often as gives the service's part
    (`sampling.kept_shares`). Lengths likewise: as far as they do not change with the time of the
    day more than the draw explains, sessions bring what others of their class brought elsewhere.
    """
    if traffic.sample_rate >= 1.0 or not len(requests):
        return INDEPENDENT
    served = np.where(traffic.served, traffic.prompt_tokens, 0.0)
    shares = kept_shares(traffic.arrival_s, served, requests.session_id, LEVELS_S)
    content = tuple(
        _content(requests, np.flatnonzero(requests.class_id == which))
        for which in range(len(requests.class_names))
    )
    return Copying(within=_mixture(LEVELS_S, shares), content=content)


def _content(requests: Requests, mine: NDArray[np.int64]) -> Mixture:
    """Return from how far away the sessions of a class may bring their requests."""
    session = requests.session_id[mine]
    if len(np.unique(session[session >= 0])) + int((session < 0).sum()) < FEW:
        return ((0.0, 1.0),)
    kept = np.zeros(len(CONTENT_LEVELS_S) - 1)
    for tokens in (requests.input_tokens[mine], requests.output_tokens[mine]):
        centred = tokens - tokens.mean()
        arrival = requests.arrival_s[mine]
        found = kept_shares(arrival, centred, session, CONTENT_LEVELS_S, surely=True)
        kept = np.maximum(kept, found)
    return _mixture(CONTENT_LEVELS_S, kept.tolist())


def _mixture(levels_s: Sequence[float], shares: Sequence[float]) -> Mixture:
    """Return the widths with the share of sessions that none of them exceeds.

    >>> _mixture((2.0, 60.0, 600.0), (0.0, 0.4))
    ((60.0, 0.4), (600.0, 1.0))
    """
    pairs = zip(levels_s, (*shares, 1.0), strict=True)
    return tuple((width, share) for width, share in pairs if share > 0.0)


def burstier(copying: Copying) -> Copying:
    """Return the next more cautious reading: within ten minutes, then copies that stay together.

    >>> burstier(Copying(within=((3600.0, 1.0),))).within, burstier(INDEPENDENT).within
    (((600.0, 1.0),), ((1.0, 1.0),))
    """
    if copying.widest_s > INDEPENDENT_S:
        return copying.capped(INDEPENDENT_S)
    return replace(TOGETHER, content=copying.content)
