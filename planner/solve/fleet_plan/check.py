"""The optimiser's fleet replayed: every pool of every service, in every quarter, at its share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.solve.fleet_plan.question import Answer, Question
from planner.solve.fleet_plan.sizing import Sized
from planner.solve.verify import carried

SHRINK = 0.98  # a refuted capacity shrinks by at least this
ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Replicas of one unit in one quarter, all regions together, and the load of each.

    `load` is in multiples of the service's trace, headroom added. `replicas` are those that are
    left once the spares are lost.
    """

    unit: int
    quarter: int
    replicas: int
    load: float


def pools(question: Question, answer: Answer, sized: Sequence[Sized]) -> tuple[Pool, ...]:
    """Return what must be replayed: requests are shared out by capacity, spares lost.

    Parameters
    ----------
    question, answer
        The problem and its fleet.
    sized
        The unit of the same index, with its trial.
    """
    found = []
    for index, need in enumerate(question.needs):
        for quarter in range(question.quarters):
            counts = _counts(question, answer, index, quarter)
            if not counts:
                continue
            # The pool whose replicas carry most loses the spares: the worst case planned for.
            strongest = max(counts, key=lambda u: question.units[u].capacity)
            counts[strongest] -= need.spares
            total = sum(question.units[u].capacity * n for u, n in counts.items())
            for unit, count in sorted(counts.items()):
                if count > 0:
                    share = question.units[unit].capacity / total
                    load = need.demand[quarter] * share / _sampled(sized[unit])
                    found.append(Pool(unit=unit, quarter=quarter, replicas=count, load=load))
    return tuple(found)


def _counts(question: Question, answer: Answer, service: int, quarter: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for (unit, _, at), count in answer.replicas.items():
        if at == quarter and question.units[unit].service == service:
            counts[unit] = counts.get(unit, 0) + count
    return counts


def _sampled(sized: Sized) -> float:
    """Return what turns a share of the service's demand into a load of its trace."""
    if sized.trial is None:
        return 1.0
    return sized.sample_rate * (1.0 - sized.headroom)


def corrected(
    question: Question, found: Sequence[Pool], sized: Sequence[Sized]
) -> dict[int, float]:
    """Return the capacities that replay lowers: of units of which some pool misses a target.

    A capacity was measured on a fleet of today's size; where a pool of another size does not
    confirm it, it is measured again on that pool, in the windows that decide.
    """
    lower: dict[int, float] = {}
    for pool in sorted(found, key=lambda each: -each.load * each.replicas):
        unit = sized[pool.unit]
        if unit.trial is None or pool.unit in lower:
            continue
        if not unit.trial.holds(pool.load, pool.replicas, unit.spans):
            fleet_load = pool.load * pool.replicas
            factor = carried(unit.trial, pool.load, fleet_load, unit.spans)
            measured = factor * _sampled(unit)
            lower[pool.unit] = min(measured, question.units[pool.unit].capacity * SHRINK)
    return lower
