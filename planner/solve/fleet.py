"""From one replica's capacity to a fleet."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the fleet must carry, as slo.yaml declares it.

    `correction` is the capacity that replay found over the one the equations gave: counts taken
    from equations divide the load by it, so that neighbours of a replayed plan are judged alike.
    """

    sample_rate: float
    growth: float
    headroom: float
    spare_replicas: int
    correction: float = 1.0

    @property
    def fleet_factor(self) -> float:
        """Load of the whole fleet over the trace's own: (1 + growth)/(sample_rate·correction)."""
        return (1.0 + self.growth) / (self.sample_rate * self.correction)


def fleet_load(needs: Needs) -> float:
    """Return the load that the fleet's capacity must reach: (1 + g)/(s·(1 − headroom)).

    >>> round(fleet_load(Needs(sample_rate=0.5, growth=0.1, headroom=0.2, spare_replicas=0)), 6)
    2.75
    """
    return needs.fleet_factor / (1.0 - needs.headroom)


def exact_replicas(needs: Needs, factor: float) -> float:
    """Return replicas before rounding: demand·(1 + growth) / ((1 − headroom)·capacity).

    With capacity as a load factor f of the trace: (1 + g) / (s·(1 − h)·f).

    >>> needs = Needs(sample_rate=0.05, growth=0.1, headroom=0.1, spare_replicas=0)
    >>> round(exact_replicas(needs, 4.0), 3)
    6.111
    """
    if factor <= 0.0:
        return math.inf
    return needs.fleet_factor / ((1.0 - needs.headroom) * factor)


def for_load(needs: Needs, factor: float) -> int | None:
    """Return the replicas that carry the load, without spares; None: no count does.

    >>> needs = Needs(sample_rate=1.0, growth=0.0, headroom=0.0, spare_replicas=1)
    >>> for_load(needs, 0.5), for_load(needs, 0.0)
    (2, None)
    """
    exact = exact_replicas(needs, factor)
    return None if math.isinf(exact) else max(1, math.ceil(exact - 1e-9))


def replica_factor(needs: Needs, replicas: int) -> float:
    """Return the load factor of each of `replicas` that share the grown demand.

    >>> needs = Needs(sample_rate=0.1, growth=0.0, headroom=0.1, spare_replicas=0)
    >>> replica_factor(needs, 5)
    2.0
    """
    return needs.fleet_factor / replicas
