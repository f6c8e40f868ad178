"""The replicas that a plan needs where one thing is not as expected: the ends of its band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.solve.candidates import Candidate
from planner.solve.case import Case
from planner.solve.counts import fewest_that_hold
from planner.solve.finalists import Finalist, MakeTrial, cheapest_by_replay
from planner.solve.fleet import fleet_load, replica_factor
from planner.solve.misses import as_declared, missed
from planner.solve.plan import Miss, Unheld
from planner.solve.search import Priced, option
from planner.solve.steps import stretched
from planner.solve.verify import Span, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Least and most replicas for load under each named doubt; None: no count tried holds.

    `unheld` says of those what is missed, and which configuration would hold.
    """

    counts: dict[str, tuple[int, int | None]]
    unheld: tuple[Unheld, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    """One thing that is not as expected: what it does to a trial, and to the time of a step."""

    name: str
    moved: Callable[[Trial], Trial]
    step_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The plan's configuration, what else could be asked, and the windows that decide."""

    case: Case
    best: Finalist
    all_priced: Sequence[Priced]
    make_trial: MakeTrial
    spans: tuple[Span, ...]


def doubts(asking: Asking, band: float) -> Doubts:
    """Return the replicas for load under each doubt alone.

    Steps faster and slower by the calibration's band, another draw of which requests meet, and,
    where the load is above the trace's own, burstier copies. Where no count of the plan's
    configuration holds, the whole search is asked again under that doubt.
    """
    case, count = asking.case, asking.best.replicas_for_load
    found: dict[str, list[int | None]] = {}
    unheld: list[Unheld] = []
    for doubt in _doubted(case, count, band):
        fewest, fails = _fewest(asking, doubt)
        found.setdefault(doubt.name, []).append(fewest)
        if fewest is None:
            unheld.append(_unheld(asking, doubt, fails))
    counts = {name: _ends(count, each) for name, each in found.items()}
    return Doubts(counts=counts, unheld=tuple(unheld))


def _ends(count: int, found: Sequence[int | None]) -> tuple[int, int | None]:
    """Return the least and the most of a plan's count and others.

    >>> _ends(4, [2, 7]), _ends(4, [2, None])
    ((2, 7), (2, None))
    """
    known = [count, *(each for each in found if each is not None)]
    return min(known), None if None in found else max(known)


def _doubted(case: Case, count: int, band: float) -> list[_Doubt]:
    def steps(factor: float) -> _Doubt:
        return _Doubt(
            name="step_time",
            moved=lambda trial: replace(trial, cost=stretched(trial.cost, factor)),
            step_factor=factor,
        )

    listed = [
        steps(1.0 - band),
        steps(1.0 + band),
        _Doubt(name="draw", moved=lambda trial: replace(trial, seed=trial.seed + 1)),
    ]
    if replica_factor(case.needs, count) > 1.0:
        listed.append(_Doubt(name="bursts_of_the_sample", moved=lambda trial: trial.burstier))
    return listed


def _fewest(asking: Asking, doubt: _Doubt) -> tuple[int | None, int]:
    """Return the least count that holds under a doubt, and a count that fails."""
    other, fleet = doubt.moved(asking.best.trial), fleet_load(asking.case.needs)
    return fewest_that_hold(
        lambda n: other.holds(fleet / n, n, asking.spans), asking.best.replicas_for_load
    )


def _unheld(asking: Asking, doubt: _Doubt, tried: int) -> Unheld:
    """Return what even `tried` replicas miss, and the cheapest configuration that would hold."""
    found = _instead(asking, doubt, tried)
    held = found is not None and found.option.replicas is not None
    return Unheld(
        doubt=doubt.name,
        step_factor=doubt.step_factor,
        tried=tried,
        miss=_worst_miss(asking, doubt, tried),
        deployment=found.trial.candidate.deployment if held and found else None,
        replicas=found.option.replicas if held and found else None,
        gpus=found.option.gpus if held and found else None,
    )


def _worst_miss(asking: Asking, doubt: _Doubt, tried: int) -> Miss:
    """Return the target that is furthest above its limit."""
    other, load = doubt.moved(asking.best.trial), fleet_load(asking.case.needs) / tried
    misses = [
        miss
        for span in asking.spans
        for miss in missed(
            other.probed(load, tried, span, to_the_end=True),
            as_declared,
            asking.case.requests.origin,
        )
    ]
    return max(misses, key=lambda miss: miss.value_s / miss.limit_s)


def _instead(asking: Asking, doubt: _Doubt, tried: int) -> Finalist | None:
    """Return the cheapest configuration that holds under a doubt, None where none does."""
    case, best = asking.case, asking.best
    original = {id(each.family): each for each in asking.all_priced}

    def moved_trial(priced: Priced, candidate: Candidate) -> Trial | None:
        made = asking.make_trial(original[id(priced.family)], candidate)
        return None if made is None else doubt.moved(made)

    priced = [
        replace(each, cost=stretched(each.cost, doubt.step_factor)) for each in asking.all_priced
    ]
    lost = option(best.trial.candidate, best.option.priced, 0.0, case.needs)
    start = Finalist(option=lost, trial=best.trial, spare=best.spare)
    found = cheapest_by_replay(case, priced, start, moved_trial, asking.spans, guess=tried)
    return None if found.option.replicas is None else found
