"""The optimiser's fleet replayed: every pool of every service, in every quarter, at its share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.solve.fleet_plan.question import Answer, Question
from planner.solve.fleet_plan.sizing import Sized
from planner.solve.verify import carried

SHRINK = 0.98  # a refuted capacity shrinks by at least this
ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Replicas of one unit that are left in one quarter after a loss, and the load of each.

    `load` is in multiples of the service's trace, headroom added.
    """

    unit: int
    quarter: int
    replicas: int
    load: float


def pools(question: Question, answer: Answer, sized: Sequence[Sized]) -> tuple[Pool, ...]:
    """Return what must be replayed: requests are shared out by capacity over what a loss leaves.

    Lost are the spares, and each region in turn where a service survives one.

    Parameters
    ----------
    question, answer
        The problem and its fleet.
    sized
        The unit of the same index, with its trial.
    """
    found: dict[Pool, None] = {}
    for index, need in enumerate(question.needs):
        for quarter in range(question.quarters):
            for counts in _survivors(question, answer, index, quarter):
                total = sum(question.units[u].capacity * n for u, n in counts.items())
                for unit, count in sorted(counts.items()):
                    share = question.units[unit].capacity / total
                    load = need.demand[quarter] * share / _sampled(sized[unit])
                    found[Pool(unit=unit, quarter=quarter, replicas=count, load=load)] = None
    return tuple(found)


def _survivors(
    question: Question, answer: Answer, service: int, quarter: int
) -> Iterator[dict[int, int]]:
    """Yield what is left of a service's replicas, by unit, after each loss it is planned for."""
    need, placed = question.needs[service], _placed(question, answer, service, quarter)
    counts = _by_unit(placed, "")
    if not counts:
        return
    # The pool whose replicas carry most loses the spares: the worst case planned for.
    strongest = max(counts, key=lambda unit: question.units[unit].capacity)
    counts[strongest] -= need.spares
    yield {unit: count for unit, count in counts.items() if count > 0}
    if need.survives_region:
        for region in sorted({region for _, region in placed}):
            yield _by_unit(placed, region)


def _placed(
    question: Question, answer: Answer, service: int, quarter: int
) -> dict[tuple[int, str], int]:
    return {
        (unit, region): count
        for (unit, region, at), count in answer.replicas.items()
        if at == quarter and question.units[unit].service == service
    }


def _by_unit(placed: Mapping[tuple[int, str], int], lost_region: str) -> dict[int, int]:
    counts: dict[int, int] = {}
    for (unit, region), count in placed.items():
        if region != lost_region:
            counts[unit] = counts.get(unit, 0) + count
    return counts


def _sampled(sized: Sized) -> float:
    """Return what turns a share of the service's demand into a load of its trace."""
    if sized.trial is None:
        return 1.0
    return sized.sample_rate * (1.0 - sized.headroom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuted:
    """A capacity that a pool's replay did not confirm, and what it is by that pool."""

    pool: Pool
    capacity: float


def corrected(
    question: Question, found: Sequence[Pool], sized: Sequence[Sized]
) -> dict[int, Refuted]:
    """Return the capacities that replay lowers: of units of which some pool misses a target.

    A capacity was measured on a fleet of today's size; where a pool of another size does not
    confirm it, it is measured again on that pool, in the windows that decide.
    """
    lower: dict[int, Refuted] = {}
    for pool in sorted(found, key=lambda each: -each.load * each.replicas):
        unit = sized[pool.unit]
        if unit.trial is None or pool.unit in lower:
            continue
        if not unit.trial.holds(pool.load, pool.replicas, unit.spans):
            fleet_load = pool.load * pool.replicas
            factor = carried(unit.trial, pool.load, fleet_load, unit.spans)
            measured = factor * _sampled(unit)
            most = question.units[pool.unit].capacity * SHRINK
            lower[pool.unit] = Refuted(pool=pool, capacity=min(measured, most))
    return lower
