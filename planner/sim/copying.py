"""How copies of a trace lie apart, and what their sessions bring: the two readings of a sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.sim.routing import uniforms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INDEPENDENT_S = 600.0  # copies displaced by up to ± 5 minutes do not burst together
CORRELATED_S = 1.0  # copies displaced by up to ± half a second do

Mixture = tuple[tuple[float, float], ...]  # (width in s, share with no more than that), up to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """How copies are made from a trace.

    `within` says by how much sessions are displaced: (width, share of them displaced by up to half
    of that width either way, or of a smaller one). `content` says, for each class, from how far
    away in the trace a session takes its requests; empty: every session keeps its own. A sample
    that is laid twenty times over itself has each of its few long sessions twenty times in one
    hour otherwise, and the worst hour is then the one that drew most of them.
    """

    within: Mixture = ((INDEPENDENT_S, 1.0),)
    content: tuple[Mixture, ...] = ()

    @property
    def widest_s(self) -> float:
        """The width that no session exceeds."""
        return self.within[-1][0]

    def capped(self, width_s: float) -> Copying:
        """Return the same with no session displaced by more than a width."""
        return Copying(within=capped(self.within, width_s), content=self.content)


INDEPENDENT = Copying()
TOGETHER = Copying(within=((CORRELATED_S, 1.0),))


def capped(mixture: Mixture, width_s: float) -> Mixture:
    """Return a mixture whose wider parts are cut to a width.

    >>> capped(((60.0, 0.2), (600.0, 0.5), (3600.0, 1.0)), 600.0)
    ((60.0, 0.2), (600.0, 1.0))
    """
    narrower = tuple((width, share) for width, share in mixture if width < width_s)
    return (*narrower, (width_s, 1.0))


def drawn_widths(mixture: Mixture, counters: Ints, seed: int, stream: int) -> Floats:
    """Return a width for each counter, each as often as the mixture says.

    >>> drawn = drawn_widths(((60.0, 0.25), (600.0, 1.0)), np.arange(10_000), 1, 0)
    >>> round(float((drawn == 60.0).mean()), 1)
    0.2
    """
    if len(mixture) == 1:
        return np.full(len(counters), mixture[0][0])
    shares = np.array([share for _, share in mixture])
    which = np.searchsorted(shares, uniforms(counters, seed, stream), side="right")
    found: Floats = np.array([width for width, _ in mixture])[np.minimum(which, len(shares) - 1)]
    return found


def folded(times_s: Floats, first_s: float, last_s: float) -> Floats:
    """Return times reflected into [first, last], as often as it takes.

    >>> folded(np.array([-1.0, 4.0, 12.0, 23.0]), 0.0, 10.0).tolist()
    [1.0, 4.0, 8.0, 3.0]
    """
    span = last_s - first_s
    if span <= 0.0:
        return np.full_like(times_s, first_s)
    turned = first_s + np.abs((times_s - first_s + span) % (2.0 * span) - span)
    inside = (times_s >= first_s) & (times_s <= last_s)
    return np.where(inside, times_s, turned)
