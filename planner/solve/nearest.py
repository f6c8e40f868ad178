"""The nearest limits that would hold, found by the rule that makes a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from planner.errors import InfeasibleError
from planner.solve.case import Case, Decision
from planner.solve.chunk import target_name
from planner.text import counted

Choose = Callable[[Case], Decision]
Place = tuple[int, int]  # of a target: index of its class, index in that class
Limits = Mapping[Place, float]

UNLIMITED_S = 1e5  # a limit that no request which is served at all comes near
GROWTH = 4.0  # first bracket of a limit: widened by this until it holds
SCREENED = 1.02  # bisection by the equations ends at this ratio of limits
PRECISION = 1.05  # what is promised of a limit that replay has confirmed
FACTORS = (1.0, 1.05, 1.1, 1.2, 1.5, 2.0)  # on the equations' limit, asked of replay in turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """Limits in s that hold where those asked for do not, with the plan that they give."""

    limits: Limits
    decision: Decision


def nearest_limits(case: Case, screen: Choose, confirm: Choose) -> Nearest | None:
    """Return limits that give a plan while 5 % less does not; None where none is found.

    One target alone is moved where that is enough, the one that must move least; else every target
    that no fleet can keep even if the others were dropped.

    Parameters
    ----------
    case
        The case that nothing holds for.
    screen
        The equations' choice for a case; raises InfeasibleError where there is none.
    confirm
        The same with the replay's consent: what a plan is made of.
    """
    for limits in _candidates(case, _places(case), screen):
        found = _confirmed(case, limits, confirm)
        if found is not None:
            return found
    return None


def keeps_no_limit(case: Case, screen: Choose) -> bool:
    """Return whether nothing holds even with targets that only a rejected request misses."""
    return not _holds(case, dict.fromkeys(_places(case), UNLIMITED_S), screen)


def nearest_sentence(case: Case, nearest: Nearest) -> str:
    """Say which limits hold, on what, and how close to the least they are."""
    decision = nearest.decision
    deployment = decision.deployment
    count = decision.replicas + case.slo.spare_replicas
    fleet = (
        f"{counted(count, 'replica')} of {deployment.gpus} × {deployment.gpu}, "
        f"max_num_batched_tokens {deployment.max_num_batched_tokens}"
    )
    less = f"{PRECISION - 1.0:.0%}".replace("%", " %")
    names = [_named(case, place) for place in nearest.limits]
    values = list(nearest.limits.values())
    if len(values) == 1:
        return (
            f"The nearest feasible limit is {values[0]:g} s for {names[0]} ({fleet}); "
            f"{less} less does not hold"
        )
    listed = ", ".join(f"{name} ≤ {v:g} s" for name, v in zip(names, values, strict=True))
    return f"The nearest feasible limits are {listed} ({fleet}); {less} less of all does not hold"


def _named(case: Case, place: Place) -> str:
    declared = case.slo.classes[place[0]]
    return target_name(declared.name, declared.targets[place[1]]).split(" ≤")[0]


def _places(case: Case) -> tuple[Place, ...]:
    return tuple(
        (i, j) for i, each in enumerate(case.slo.classes) for j in range(len(each.targets))
    )


def _asked(case: Case, place: Place) -> float:
    return case.slo.classes[place[0]].targets[place[1]].limit_s


def with_limits(case: Case, limits: Limits) -> Case:
    """Return the case with other limits, in s, on some targets."""
    classes = tuple(
        replace(
            declared,
            targets=tuple(
                replace(target, limit_s=limits.get((i, j), target.limit_s))
                for j, target in enumerate(declared.targets)
            ),
        )
        for i, declared in enumerate(case.slo.classes)
    )
    return replace(case, slo=replace(case.slo, classes=classes))


def _plan(case: Case, limits: Limits, choose: Choose) -> Decision | None:
    try:
        return choose(with_limits(case, limits))
    except InfeasibleError:
        return None


def _holds(case: Case, limits: Limits, choose: Choose) -> bool:
    return _plan(case, limits, choose) is not None


def _candidates(case: Case, places: Sequence[Place], screen: Choose) -> list[Limits]:
    """Return limits that hold by the equations, those nearest to what was asked first."""
    alone = [each for each in places if _holds(case, {each: UNLIMITED_S}, screen)]
    if alone:
        found: list[Limits] = [{p: _smallest(case, p, {}, screen)} for p in alone]
        return sorted(found, key=lambda limits: _ratio(case, limits))
    loose = dict.fromkeys(places, UNLIMITED_S)
    stuck = [p for p in places if not _holds(case, _without(loose, p), screen)] or list(places)
    loose = dict.fromkeys(stuck, UNLIMITED_S)
    return [{p: _smallest(case, p, _without(loose, p), screen) for p in stuck}]


def _without(limits: Limits, place: Place) -> dict[Place, float]:
    return {key: value for key, value in limits.items() if key != place}


def _ratio(case: Case, limits: Limits) -> float:
    return max(value / _asked(case, place) for place, value in limits.items())


def _smallest(case: Case, place: Place, others: Limits, screen: Choose) -> float:
    """Return the least limit of a target that holds by the equations, others as given.

    It holds at UNLIMITED_S; the result is at most SCREENED times one that does not hold.
    """
    low = _asked(case, place)
    if _holds(case, {**others, place: low}, screen):
        return low
    high = low * GROWTH
    while high < UNLIMITED_S and not _holds(case, {**others, place: high}, screen):
        low, high = high, high * GROWTH
    while high > low * SCREENED:
        middle = math.sqrt(low * high)
        if _holds(case, {**others, place: middle}, screen):
            high = middle
        else:
            low = middle
    return high


def _confirmed(case: Case, limits: Limits, confirm: Choose) -> Nearest | None:
    """Return the limits, scaled up together as little as replay asks for; None: not by 2."""
    for before, factor in pairwise((FACTORS[0], *FACTORS)):
        found = _scaled(case, limits, factor, confirm)
        if found is not None:
            return _closer(case, limits, (before, factor), found, confirm)
    return None


def _closer(
    case: Case, limits: Limits, bracket: tuple[float, float], found: Nearest, confirm: Choose
) -> Nearest:
    """Return what holds at a factor at most PRECISION times one that does not."""
    low, high = bracket
    while high > low * PRECISION * (1.0 + 1e-9):
        middle = math.sqrt(low * high)
        closer = _scaled(case, limits, middle, confirm)
        if closer is None:
            low = middle
        else:
            high, found = middle, closer
    return found


def _scaled(case: Case, limits: Limits, factor: float, confirm: Choose) -> Nearest | None:
    """Return the plan at the limits as they will be printed: three digits, rounded up."""
    printed = {place: rounded_up(value * factor) for place, value in limits.items()}
    decision = _plan(case, printed, confirm)
    return None if decision is None else Nearest(limits=printed, decision=decision)


def rounded_up(value: float) -> float:
    """Return the least number of three significant digits that is not below a positive value.

    >>> rounded_up(0.08471), rounded_up(1.7), rounded_up(1234.0)
    (0.0848, 1.7, 1240.0)
    """
    digits = 2 - math.floor(math.log10(value))
    return round(math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits, max(0, digits))
