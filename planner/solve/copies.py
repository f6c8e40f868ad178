"""How more traffic than the trace holds is made from it: arrivals, and how far copies lie apart.

One reading for every command, so that a replay of a plan's fleet meets the traffic that it was
sized for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.sim.load import CORRELATED_S, INDEPENDENT_S
from planner.solve.case import Case
from planner.solve.windows import Window
from planner.units import HOUR_S

REAL_SHARE = 0.5  # of a deviation, above which it is the service and not the draw


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """The arrivals of a trace as a plan reads them, its windows, and how its copies are displaced.

    `real_share` is how much of what ten-minute rates deviate from the hour by is the service's own
    (`sampling.burst_shares`).
    """

    arrival_s: NDArray[np.float64]
    spread_ticks: bool
    spread_s: float
    real_share: float
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
        spread_s=copies_spread_s(traffic.burst_shares),
        real_share=traffic.burst_shares[2],
        windows=case.windows(traffic),
    )


def copies_spread_s(burst_shares: tuple[float, float, float]) -> float:
    """Return over how long copies of a sampled trace are displaced against each other, in s.

    Ten minutes where the ten-minute rates are the service's own; an hour where more than half of
    what they deviate from the hour by is the luck of the draw (`sampling.burst_shares`). In a 5 %
    sample of a service whose whole log asks for 7 replicas, an hour gives 8, ten minutes give 10.

    >>> copies_spread_s((1.0, 1.0, 1.0)), copies_spread_s((0.0, 0.1, 0.3))
    (600.0, 3600.0)
    """
    return INDEPENDENT_S if burst_shares[2] >= REAL_SHARE else HOUR_S


def burstier_spread_s(spread_s: float) -> float:
    """Return the next more cautious displacement: ten minutes, then copies that stay together.

    >>> burstier_spread_s(3600.0), burstier_spread_s(600.0)
    (600.0, 1.0)
    """
    return INDEPENDENT_S if spread_s > INDEPENDENT_S else CORRELATED_S
