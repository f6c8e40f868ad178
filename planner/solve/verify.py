"""Hold a configuration against the trace by replay: the targets, windows and physics of the screen.

A fleet behind a random router is replayed as some of its replicas: `Trial.replayed` lays as much of
the traffic over itself, or thins it, as those replicas see, and routes it among them. With the
whole fleet in the budget and no sampling, every request of the trace is replayed exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.sim.copying import Copying
from planner.sim.laid import rows_between
from planner.sim.load import scale, subset
from planner.sim.metrics import TargetResult
from planner.sim.replay import Replay, replay
from planner.sim.routing import ROUTE, uniforms
from planner.sim.settings import SchedulerSettings
from planner.sim.targets import edges_of
from planner.solve.candidates import Candidate
from planner.solve.case import Case
from planner.solve.copies import burstier, copying_of
from planner.solve.stretch import LEAD_S
from planner.solve.traffic import Traffic
from planner.solve.windows import Window
from planner.spec.slo import WorkloadClass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Span = tuple[float, float]

PROBE_REQUESTS = 80_000  # a probe of one span: its percentiles need thousands, its tails more
WHOLE_REQUESTS = 1_600_000  # the final replay of the whole trace
COPIED_REQUESTS = 900_000  # the same of a sampled trace, whose requests are copies
SCOUT_REQUESTS = 500_000  # the whole trace again, to find windows that are worth a probe
STRIDE = 1.12  # steps in which a bracket is sought around a guess
STRIDES = 14  # down to a fifth, up to five times
PRECISION = 1.01  # capacities are found to one percent


@dataclass(slots=True, kw_only=True)
class Tally:
    """Replays of a whole search, counted as they are made."""

    replays: int = 0
    stopped_early: int = 0  # of these: given up when a target was lost
    requests: int = 0  # simulated or given up, all replays together


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a probe ended: given up because a target was lost, or with what every target got."""

    lost: bool
    targets: tuple[TargetResult, ...]

    @property
    def holds(self) -> bool:
        """Whether every target holds in every evaluation window."""
        return not self.lost and all(target.holds for target in self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A configuration with the trace it is held against.

    Prefix caching is replayed block by block where the trace has block ids; otherwise `requests`
    carry the cached tokens that a replica's own cache is taken to serve. `copying` says how
    traffic above the trace's own rate is made. A router that looks at the replicas looks at those
    that are simulated, which is the harder case.
    """

    candidate: Candidate
    requests: Requests
    windows: tuple[Window, ...]
    classes: tuple[WorkloadClass, ...]
    cost: StepCost
    settings: SchedulerSettings
    seed: int
    copying: Copying
    routing: str = "random"
    tally: Tally = field(default_factory=Tally, repr=False, compare=False)
    _verdicts: dict[tuple[float, int, Span], Verdict] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def replayed(
        self,
        load: float,
        replicas: int,
        *,
        span: Span | None = None,
        budget: int = PROBE_REQUESTS,
        stop_when_lost: bool = False,
    ) -> Replay:
        """Replay some or all of `replicas` replicas that each see `load` times the trace.

        Parameters
        ----------
        load
            Requests of one replica over requests of the trace.
        replicas
            Replicas of the fleet: no more than these are simulated.
        span
            Stretch to judge, entered with a lead-in; None judges every window of the trace.
        budget
            Requests to simulate at most, as long as one replica allows it.
        stop_when_lost
            Give up as soon as a target is lost.
        """
        count, judged = self._stretch(span)
        expected = max(1.0, load * count)
        simulated = max(1, min(replicas, int(budget / expected)))
        part = self._scaled(load * simulated, span)
        return self._run(part, judged, simulated, stop_when_lost=stop_when_lost)

    def varying(
        self,
        fleet_load: float,
        replicas_at: Callable[[Floats], Ints],
        span: Span,
        *,
        stop_when_lost: bool = False,
        followed: int | None = None,
        part: Requests | None = None,
    ) -> Replay:
        """Replay a stretch on a fleet whose size changes; a replica that leaves finishes its work.

        Parameters
        ----------
        fleet_load
            Requests of the fleet over requests of the trace.
        replicas_at
            Replicas that take requests at given times.
        span
            Stretch to judge, entered with a lead-in.
        stop_when_lost
            Give up as soon as a target is lost.
        followed
            Replicas that are simulated, the first so many; by default all of them.
        part
            The stretch's requests under that load (`grown`), where the caller keeps them.
        """
        _, judged = self._stretch(span)
        if part is None:
            part = self._scaled(fleet_load, span)
        there = replicas_at(part.arrival_s)
        draws = uniforms(np.arange(len(part), dtype=np.int64), self.seed, ROUTE)
        owners = (draws * there).astype(np.int32)
        count = int(there.max(initial=1))
        if followed is not None and followed < count:
            mine = owners < followed
            part, owners, count = subset(part, mine), owners[mine], followed
        return self._run(part, judged, count, owners=owners, stop_when_lost=stop_when_lost)

    def grown(self, fleet_load: float, span: Span) -> Requests:
        """Return the requests of a whole fleet in a stretch with its lead-in."""
        return scale(
            self.requests, fleet_load, seed=self.seed, copying=self.copying, span=_entered(span)
        )

    def _stretch(self, span: Span | None) -> tuple[int, tuple[Window, ...]]:
        """Return the requests of a stretch with its lead-in, and the windows that lie inside it.

        None is everything.
        """
        if span is None:
            return len(self.requests), self.windows
        inside = (w for w in self.windows if w.start_s >= span[0] and w.end_s <= span[1])
        rows = rows_between(self.requests.arrival_s, *_entered(span))
        return rows.stop - rows.start, tuple(inside)

    def _scaled(self, factor: float, span: Span | None) -> Requests:
        """Return `factor` times the trace, or a stretch of it with its lead-in."""
        if span is None:
            return scale(self.requests, factor, seed=self.seed, copying=self.copying)
        return _probed(self.requests, factor, self.seed, self.copying, _entered(span))

    def _run(
        self,
        part: Requests,
        judged: Sequence[Window],
        replicas: int,
        *,
        owners: NDArray[np.int32] | None = None,
        stop_when_lost: bool,
    ) -> Replay:
        names = {part.class_names[window.class_id] for window in judged}
        found = replay(
            part,
            self.cost,
            self.settings,
            replicas=replicas,
            routing=self.routing if owners is None else "random",
            owners=owners,
            seed=self.seed,
            classes=_judged_classes(self.classes, names, part.class_names),
            windows=edges_of(judged, len(part.class_names)),
            stop_when_lost=stop_when_lost,
            use_cached_tokens=not len(part.block_ids) and bool(part.cached_tokens.any()),
        )
        self.tally.replays += 1
        self.tally.stopped_early += found.lost
        self.tally.requests += len(part)
        return found

    @property
    def burstier(self) -> Trial:
        """The same with the next more cautious reading of bursts above the trace's own rate."""
        return replace(self, copying=burstier(self.copying))

    def whole(self, load: float, replicas: int) -> Replay:
        """Replay the whole trace: every request once where the budget allows and none is copied."""
        budget = WHOLE_REQUESTS if load <= 1.0 else COPIED_REQUESTS
        return self.replayed(load, replicas, budget=budget)

    def scouted(self, load: float, replicas: int) -> Replay:
        """Replay the whole trace on the few replicas that SCOUT_REQUESTS allows."""
        return self.replayed(load, replicas, budget=SCOUT_REQUESTS)

    def holds(self, load: float, replicas: int, spans: Sequence[Span]) -> bool:
        """Return whether every target holds in every span, asked where it failed before first."""
        failed = {span for (_, _, span), verdict in self._verdicts.items() if not verdict.holds}
        hard_first = sorted(spans, key=lambda span: span not in failed)
        return all(self.probed(load, replicas, span).holds for span in hard_first)

    def probed(
        self, load: float, replicas: int, span: Span, *, to_the_end: bool = False
    ) -> Verdict:
        """Return how one span ends; each question is replayed once and remembered.

        A probe stops when a target is lost, unless it is asked `to_the_end`.
        """
        key = (load, replicas, span)
        known = self._verdicts.get(key)
        if known is None or (known.lost and to_the_end):
            found = self.replayed(load, replicas, span=span, stop_when_lost=not to_the_end)
            known = self._verdicts[key] = Verdict(lost=found.lost, targets=found.targets)
        return known

    def knows(self, load: float, replicas: int, span: Span) -> bool:
        """Return whether `probed` has an answer already."""
        return (load, replicas, span) in self._verdicts


def trial_of(
    case: Case,
    traffic: Traffic,
    windows: tuple[Window, ...],
    candidate: Candidate,
    cost: StepCost,
    cached: float,
    *,
    tally: Tally | None = None,
) -> Trial | None:
    """Return the trial of a candidate; None where replay does not know its engine or layout.

    Parameters
    ----------
    case
        Model, engine, targets and the trace.
    traffic
        Arrivals, spread where the log rounds them, and what sampling noise leaves of bursts.
    windows
        Evaluation windows of every class.
    candidate, cost
        The configuration and its physics.
    cached
        Share of the reusable prefix that a replica's cache serves.
    tally
        Where the trial's replays are counted; by default of its own.
    """
    try:
        settings = SchedulerSettings.of(candidate.deployment, case.engine, candidate.memory)
    except InputError:
        return None
    return Trial(
        candidate=candidate,
        requests=_seen(case.requests, traffic, cached),
        windows=windows,
        classes=case.slo.classes,
        cost=cost,
        settings=settings,
        seed=case.slo.seed,
        copying=copying_of(case.requests, traffic),
        routing=case.slo.routing,
        tally=tally or Tally(),
    )


def _judged_classes(
    classes: Sequence[WorkloadClass], judged: set[str], present: Sequence[str]
) -> list[WorkloadClass]:
    """Return the classes of a trace; those without a window to judge keep only their priority."""
    here = [each for each in classes if each.name in present]
    return [each if each.name in judged else replace(each, targets=()) for each in here]


@lru_cache(maxsize=8)
def _seen(requests: Requests, traffic: Traffic, cached: float) -> Requests:
    """Return the trace with the traffic's arrivals, and of each prompt what a cache serves."""
    held = np.floor(requests.cached_tokens * cached).astype(np.int64)
    return replace(requests, arrival_s=traffic.arrival_s, cached_tokens=held)


def carried(
    trial: Trial,
    guess: float,
    fleet_load: float,
    spans: Sequence[Span],
    *,
    precision: float = PRECISION,
) -> float:
    """Return the largest load of one replica that holds in every span; 0 where none near does.

    Bisection to `precision` between the last load that holds and the first that fails, sought in
    strides from `guess`. Smaller loads are parts of larger ones, so the same requests decide. Each
    load is tried in a fleet that `fleet_load` times the trace fills, not in a larger one: more
    replicas than that would see the trace's bursts smoothed.
    """

    def holds(load: float) -> bool:
        return trial.holds(load, max(1, int(fleet_load / load + 1e-9)), spans)

    low = high = guess
    rising = holds(guess)
    for _ in range(STRIDES):
        if rising:
            low, high = high, high * STRIDE
            if not holds(high):
                break
        else:
            low, high = low / STRIDE, low
            if holds(low):
                break
    else:
        return high if rising else 0.0
    while high / low > precision:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _entered(span: Span) -> Span:
    """Return a stretch with its lead-in."""
    return span[0] - LEAD_S, span[1]


# Configurations are asked the same question one after the other: few of their loads differ.
@lru_cache(maxsize=16)
def _probed(requests: Requests, factor: float, seed: int, copying: Copying, span: Span) -> Requests:
    return scale(requests, factor, seed=seed, copying=copying, span=span)
