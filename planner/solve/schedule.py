"""One fleet over a week, three ways: sized for the peak, by a timetable, by an autoscaler.

All three carry the plan's load (growth and headroom included) and are replayed hour by hour with
the number of replicas that each has at every moment; a replica that leaves finishes its work, one
that is started serves after its boot time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.errors import InfeasibleError
from planner.ingest.requests import Requests
from planner.profile.types import TraceProfile
from planner.solve.course import Course, ahead, asked_for, behind, constant
from planner.solve.fleet import fleet_load
from planner.solve.plan import Plan
from planner.solve.redo import case_of, trial_at
from planner.solve.schedule_types import Hour, Mode, Schedule, Thresholds
from planner.solve.stretch import LEAD_S
from planner.solve.verify import Span, Trial
from planner.solve.windows import window_edges, window_label
from planner.spec.slo import Slo
from planner.text import counted
from planner.units import HOUR_S, WEEK_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[str], None]

STABILIZATION_S = 300.0  # of a horizontal pod autoscaler that nobody configured
MOST = 4096  # replicas at which a search gives up
ROUNDS = 8  # times a timetable is mended
SHARES = (0.9, 0.75, 0.6, 0.45, 0.3)  # of the busiest replica's running requests, tried as targets


@dataclass(slots=True, kw_only=True)
class _Fleet:
    """The deployment under its whole load, and what was replayed of it."""

    trial: Trial
    load: float  # of the fleet, in multiples of the trace
    hours: tuple[Span, ...]
    spans: tuple[Span, ...]  # every window that some target is judged in
    replays: int = 0

    def missed(self, course: Course, spans: Sequence[Span]) -> list[Span]:
        """Return the windows among `spans` in which some target is missed."""
        self.replays += len(spans)
        return [
            span
            for span in spans
            if not self.trial.varying(self.load, course.at, span, stop_when_lost=True).holds
        ]

    def holds(self, course: Course) -> bool:
        """Return whether every window holds; one that fails is asked first the next time."""
        for span in self.spans:
            if self.missed(course, [span]):
                self.spans = (span, *(other for other in self.spans if other != span))
                return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the engine's metrics show minute by minute, all replicas together."""

    ends_s: Floats
    running: Floats
    waiting: Floats
    kv_use: Floats  # of one replica


def schedule(
    plan: Plan,
    slo: Slo,
    requests: Requests,
    profile: TraceProfile,
    *,
    boot_s: float,
    progress: Progress = lambda _: None,
) -> Schedule:
    """Return the three ways to run a plan's deployment over a trace.

    Parameters
    ----------
    plan
        Its deployment, price and spares.
    slo
        Targets, windows, growth and headroom.
    requests, profile
        The trace, a week of it if possible.
    boot_s
        From asking for a replica to its first request.
    progress
        Called with what is being done.

    Raises
    ------
    InputError
        Replay does not know the deployment.
    InfeasibleError
        Some hour holds with no number of replicas.
    """
    case = case_of(plan.deployment, slo, requests, profile)
    load = fleet_load(case.needs)
    trial, demand, _ = trial_at(case, plan.deployment, load / plan.replica_terms.for_load)
    edges = window_edges(demand.traffic.span_s, slo.evaluation_window_s)
    hours = tuple((float(a), float(b)) for a, b in pairwise(edges))
    spans = tuple(sorted({*hours, *((w.start_s, w.end_s) for w in demand.windows)}))
    fleet = _Fleet(trial=trial, load=load, hours=hours, spans=spans)
    progress("finding the replicas of every hour")
    timetable = _timetable(fleet, plan.replica_terms.for_load)
    static = _static(fleet, int(timetable.counts.max()))
    progress("trying autoscalers")
    seen = _seen(fleet, timetable)
    reactive, thresholds = _reactive(fleet, seen, timetable, static, boot_s)
    end, origin = demand.traffic.span_s, requests.origin
    modes = [
        _mode("static", constant(static), constant(static), plan, end),
        _mode("scheduled", timetable, ahead(timetable, boot_s), plan, end),
    ]
    if reactive is not None:
        modes.append(_mode("reactive", behind(reactive, boot_s), reactive, plan, end))
    return Schedule(
        plan_name=plan.name,
        gpu=plan.deployment.gpu,
        gpus_per_replica=plan.deployment.gpus,
        boot_s=boot_s,
        spares=slo.spare_replicas,
        span_s=end,
        modes=tuple(modes),
        timetable=tuple(
            Hour(label=window_label(*hour, origin), start_s=hour[0], replicas=int(count))
            for hour, count in zip(hours, timetable.counts, strict=True)
        ),
        thresholds=thresholds,
        replays=fleet.replays,
    )


def _timetable(fleet: _Fleet, guess: int) -> Course:
    """Return the fewest replicas of every hour, mended until every longer window holds too.

    Hour by hour in the order of time: each enters with what the hours before it left behind.
    """
    starts = np.array([start for start, _ in fleet.hours])
    counts: list[int] = []
    for hour in fleet.hours:
        guess = _least(fleet, hour, Course(starts_s=starts, counts=_filled(counts, starts)), guess)
        counts.append(guess)
    course = Course(starts_s=starts, counts=np.array(counts, dtype=np.int64))
    asked = [span for span in fleet.spans if span not in fleet.hours]  # hours hold already
    for _ in range(ROUNDS):
        missed = fleet.missed(course, asked)
        if not missed:
            return course
        more = np.array([_overlaps(hour, missed) for hour in fleet.hours], dtype=np.int64)
        course = Course(starts_s=starts, counts=course.counts + more)
        # Other replicas serve these hours now, and what enters the next ones has changed.
        changed = [(a, b + LEAD_S) for (a, b), n in zip(fleet.hours, more, strict=True) if n]
        asked = [span for span in fleet.spans if _overlaps(span, changed)]
    short = counted(len(missed), "window")
    raise InfeasibleError(f"no timetable was found: {short} miss a target with more replicas too")


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    """Return whether a span shares time with any other.

    >>> _overlaps((0.0, 1.0), [(1.0, 2.0)]), _overlaps((0.0, 1.5), [(1.0, 2.0)])
    (False, True)
    """
    return any(span[0] < end and span[1] > start for start, end in others)


def _filled(counts: Sequence[int], starts: Floats) -> Ints:
    """Return the counts so far, and one replica for every hour still to come."""
    filled = np.ones(len(starts), dtype=np.int64)
    filled[: len(counts)] = counts
    return filled


def _least(fleet: _Fleet, hour: Span, so_far: Course, guess: int) -> int:
    """Return the fewest replicas with which one hour holds, after the hours so far."""
    index = fleet.hours.index(hour)

    def holds(count: int) -> bool:
        fleet.replays += 1
        counts = so_far.counts.copy()
        counts[index] = count
        if not index:
            counts[:] = count
        course = replace(so_far, counts=counts)
        return fleet.trial.varying(fleet.load, course.at, hour, stop_when_lost=True).holds

    low, high = 0, max(1, guess)  # low fails, high is to be found
    while not holds(high):
        low, high = high, 2 * high
        if high > MOST:
            raise InfeasibleError(f"no number of replicas up to {MOST} holds in {hour}")
    while high - low > 1:
        # The neighbour below the guess first: hours resemble each other.
        middle = high - 1 if high == guess else (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _static(fleet: _Fleet, count: int) -> int:
    """Return the fewest replicas, from `count` on, with which every window holds."""
    while not fleet.holds(constant(count)):
        count += 1
        if count > MOST:
            raise InfeasibleError(f"no number of replicas up to {MOST} holds in every window")
    return count


def _seen(fleet: _Fleet, course: Course) -> _Seen:
    """Return what a monitor would see of a course, one hour after the other."""
    parts = []
    for span in fleet.hours:
        fleet.replays += 1
        done = fleet.trial.varying(fleet.load, course.at, span)
        bins = done.series
        inside = (bins.start_s >= span[0]) & (bins.end_s <= span[1] + 1e-9)
        there = max(1, done.replicas)
        ends = bins.end_s[inside]
        queued = np.nan_to_num(done.queue_s, nan=0.0)
        place = np.searchsorted(ends, done.arrival_s)
        waited = np.bincount(place, queued, len(ends) + 1)[: len(ends)]
        length = np.maximum(bins.end_s[inside] - bins.start_s[inside], 1e-9)
        parts.append((ends, bins.running[inside] * there, waited / length, bins.kv_use[inside]))
    ends, running, waiting, kv = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _Seen(ends_s=ends, running=running, waiting=waiting, kv_use=kv)


def _reactive(
    fleet: _Fleet, seen: _Seen, timetable: Course, static: int, boot_s: float
) -> tuple[Course | None, Thresholds | None]:
    """Return the cheapest autoscaler that holds: the highest target first, then a higher floor.

    The load that it sees is the timetable's, then its own: what is returned holds on its own.
    """
    there = timetable.at(seen.ends_s - 1e-6)
    busiest = float(np.quantile(seen.running / there, 0.99))
    tried = [(share * busiest, 1) for share in SHARES]
    tried += [(SHARES[-1] * busiest, round(share * static)) for share in (0.25, 0.5, 0.75)]
    for target, least in tried:
        now = seen
        for _ in range(2):
            asked = asked_for(
                now.ends_s,
                now.running,
                target=target,
                least=least,
                stabilization_s=STABILIZATION_S,
            )
            serving = behind(asked, boot_s)
            if not fleet.holds(serving):
                break
            if now is not seen:
                return asked, _thresholds(now, serving, target, least)
            now = _seen(fleet, serving)
    return None, None


def _thresholds(seen: _Seen, serving: Course, target: float, least: int) -> Thresholds:
    there = serving.at(seen.ends_s - 1e-6)
    return Thresholds(
        running=target,
        waiting=float((seen.waiting / there).max(initial=0.0)),
        kv_use=float((seen.kv_use * int(there.max(initial=1)) / there).max(initial=0.0)),
        min_replicas=least,
        max_replicas=int(serving.counts.max()),
        stabilization_s=STABILIZATION_S,
    )


def _mode(name: str, serving: Course, paid: Course, plan: Plan, end_s: float) -> Mode:
    spares = plan.replica_terms.spare
    hours = paid.replica_hours(end_s) + spares * end_s / HOUR_S
    price = plan.cost.usd_per_gpu_hour
    week = None if price is None else hours * plan.deployment.gpus * price * WEEK_S / end_s
    return Mode(
        name=name,
        least=int(serving.counts.min()),
        most=int(serving.counts.max()),
        replica_hours=hours,
        usd_per_week=week,
        holds=True,
    )
