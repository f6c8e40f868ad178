"""A fleet whose size changes, replayed in stretches of hours that are judged window by window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.errors import InfeasibleError
from planner.ingest.requests import Requests
from planner.sim.replay import Replay
from planner.solve.course import Course, constant
from planner.solve.stretch import LEAD_S
from planner.solve.verify import Span, Trial

Ints = NDArray[np.int64]

EVER: Sequence[Span] = ((0.0, np.inf),)

TOGETHER = 6  # hours replayed in one piece at least: the lead-in is then a small part
MOST_TOGETHER = 30  # and at most
FOLLOWED = 100_000  # requests of a stretch that a first look replays
MOST = 4096  # replicas at which a search gives up
ROUNDS = 12  # times a timetable is mended


@dataclass(slots=True, kw_only=True)
class Fleet:
    """The deployment under its whole load, and what was replayed of it."""

    trial: Trial
    load: float  # of the fleet, in multiples of the trace
    hours: tuple[Span, ...]
    spans: tuple[Span, ...]  # every window that some target is judged in
    replays: int = 0
    hard: list[Span] = field(default_factory=list)  # stretches that failed, the last one first
    parts: dict[Span, Requests] = field(default_factory=dict)  # of each stretch, under the load

    @property
    def stretches(self) -> Iterator[tuple[Span, tuple[Span, ...]]]:
        """Stretches to replay with the windows that each judges.

        A few hours with all windows inside them; windows that reach across on their own.
        """
        pieces = [(some[0][0], some[-1][1]) for some in self.together]
        found: dict[Span, list[Span]] = {piece: [] for piece in pieces}
        for span in self.spans:
            around = next((p for p in pieces if p[0] <= span[0] and span[1] <= p[1]), span)
            found.setdefault(around, []).append(span)
        yield from ((piece, tuple(inside)) for piece, inside in found.items() if inside)

    @property
    def together(self) -> Iterator[tuple[Span, ...]]:
        """Neighbouring hours to replay in one piece: from TOGETHER on, cut where no window is."""
        first = 0
        for after in range(1, len(self.hours) + 1):
            edge, many = self.hours[after - 1][1], after - first
            crossed = any(start < edge < end for start, end in self.spans)
            done = many >= MOST_TOGETHER or (many >= TOGETHER and not crossed)
            if done or after == len(self.hours):
                yield self.hours[first:after]
                first = after

    def replayed(
        self, course: Course, piece: Span, *, stop: bool = False, followed: int | None = None
    ) -> Replay:
        """Return the replay of one stretch."""
        self.replays += 1
        if piece not in self.parts:
            self.parts[piece] = self.trial.grown(self.load, piece)
        return self.trial.varying(
            self.load,
            course.at,
            piece,
            stop_when_lost=stop,
            followed=followed,
            part=self.parts[piece],
        )

    def missed(
        self,
        course: Course,
        asked: Sequence[Span] = EVER,
        *,
        look: bool = False,
    ) -> list[Span]:
        """Return the windows in which some target is missed, of the stretches that touch `asked`.

        With `look` only so many replicas are followed as FOLLOWED requests allow, at least one.
        """
        found: set[Span] = set()
        for piece, _ in self.stretches:
            if overlaps(piece, asked):
                followed = self._followed(course, piece) if look else None
                done = self.replayed(course, piece, followed=followed)
                found |= {
                    (window.start_s, window.end_s)
                    for target in done.targets
                    for window in target.windows
                    if not window.holds
                }
        return sorted(found)

    def _followed(self, course: Course, piece: Span) -> int:
        """Return the replicas that a first look follows."""
        arrivals = self.trial.requests.arrival_s
        inside = arrivals[(arrivals >= piece[0] - LEAD_S) & (arrivals <= piece[1])]
        each = self.load * float((1.0 / course.at(inside)).sum())
        return max(1, int(FOLLOWED / max(each, 1.0)))

    def holds(self, course: Course) -> bool:
        """Return whether every window holds; a stretch that fails is asked first the next time."""
        pieces = [piece for piece, _ in self.stretches]
        for piece in [*self.hard, *(piece for piece in pieces if piece not in self.hard)]:
            if not self.replayed(course, piece, stop=True).holds:
                self.hard = [piece, *(other for other in self.hard if other != piece)]
                return False
        return True


def static_count(fleet: Fleet, guess: int) -> int:
    """Return the fewest replicas with which every window holds, sought from a guess.

    Raises
    ------
    InfeasibleError
        Not even MOST replicas hold.
    """
    count = max(1, guess)
    if fleet.holds(constant(count)):
        while count > 1 and _holds_fewer(fleet, count - 1):
            count -= 1
        return count
    while not fleet.holds(constant(count)):
        count += 1
        if count > MOST:
            raise InfeasibleError(f"no number of replicas up to {MOST} holds in every window")
    return count


def _holds_fewer(fleet: Fleet, count: int) -> bool:
    """Return whether every window holds; where a first look misses one is asked first."""
    missed = fleet.missed(constant(count), look=True)
    fleet.hard = [piece for piece, _ in fleet.stretches if overlaps(piece, missed)]
    return fleet.holds(constant(count))


def timetable(fleet: Fleet, most: int) -> Course:
    """Return few replicas for every hour, mended until every window holds, then lowered.

    Constant fleets of ever fewer replicas show in which hours they do. A timetable of these counts
    is replayed; what it misses gets a replica more, and so does the hour before, whose backlog it
    meets. At last each hour is asked whether it holds with one less. No hour gets more than a
    fleet that never changes.

    Parameters
    ----------
    fleet
        The deployment and its hours.
    most
        Replicas with which every window holds.
    """
    starts = np.array([start for start, _ in fleet.hours])
    least = _least_constant(fleet, most)
    course = _mended(fleet, Course(starts_s=starts, counts=least), most)
    return _mended(fleet, _lowered(fleet, course), most)


def _least_constant(fleet: Fleet, most: int) -> Ints:
    """Return for each hour the fewest replicas of a constant fleet with which it holds."""
    least = np.full(len(fleet.hours), most, dtype=np.int64)
    alive = np.ones(len(fleet.hours), dtype=bool)
    for count in range(most - 1, 0, -1):
        left = [hour for hour, lives in zip(fleet.hours, alive, strict=True) if lives]
        missed = fleet.missed(constant(count), left, look=True)
        alive &= ~np.array([overlaps(hour, missed) for hour in fleet.hours])
        least[alive] = count
        if not alive.any():
            break
    return least


def _mended(fleet: Fleet, course: Course, most: int) -> Course:
    """Return a course with replicas added until every window holds."""
    counts, asked = course.counts, EVER
    for round_ in range(ROUNDS):
        now = Course(starts_s=course.starts_s, counts=counts)
        missed = fleet.missed(now, asked)
        if not missed:
            return now
        before = 2 * LEAD_S if round_ else 0.0  # the hour before only where one more did not do
        reached = [(max(0.0, a - before), b) for a, b in missed]
        more = np.array([overlaps(hour, reached) for hour in fleet.hours], dtype=np.int64)
        counts = np.minimum(counts + more, most)
        asked = [(a, b + LEAD_S) for (a, b), n in zip(fleet.hours, more, strict=True) if n]
    return Course(starts_s=course.starts_s, counts=np.full_like(counts, most))


def _lowered(fleet: Fleet, course: Course) -> Course:
    """Return the course with every hour lowered that holds with one replica less.

    Every other hour at once, then those between: an hour stays lowered unless a window is missed
    that it shares or that its backlog reaches.
    """
    counts = course.counts.copy()
    needed = np.zeros(len(counts), dtype=bool)  # hours that are known to break with one less
    for first in (0, 1, 0, 1):
        tried = ~needed & (counts > 1)
        tried[1 - first :: 2] = False
        missed = fleet.missed(Course(starts_s=course.starts_s, counts=counts - tried), look=True)
        reached = np.array([overlaps((a, b + LEAD_S), missed) for a, b in fleet.hours])
        broke = tried & reached
        met = np.concatenate(([False, False], broke[:-2]))  # perhaps only the queue of that one
        needed |= broke & ~met[: len(broke)]
        counts = counts - (tried & ~broke)
    return Course(starts_s=course.starts_s, counts=counts)


def overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Return whether a span shares time with any other.

    >>> overlaps((0.0, 1.0), [(1.0, 2.0)]), overlaps((0.0, 1.5), [(1.0, 2.0)])
    (False, True)
    """
    return any(span[0] < end and span[1] > start for start, end in others)
