"""What every requirement costs: the fleet chosen again without it.

Capacities stay those that replay confirmed for the fleet with all requirements; the fleets without
one are priced, not replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.solve.fleet_plan.decide import Decided, in_shares
from planner.solve.fleet_plan.optimise import optimise
from planner.solve.fleet_plan.plan import Requirements
from planner.solve.fleet_plan.question import Question, usd
from planner.spec.fleet import Fleet, Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Every service's requirements with their prices, and fleets that have fewer of them.

    `bare_usd` is the fleet without any spare, region to survive or headroom, `expected_usd` the one
    for the expected demand; None where that is what was planned for.
    """

    requirements: tuple[Requirements, ...]
    bare_usd: float
    expected_usd: float | None


def price_requirements(fleet: Fleet, found: Decided) -> Priced:
    """Return what each service requires, with what the fleet would cost less without it.

    Parameters
    ----------
    fleet
        What is declared.
    found
        The fleet decided on.
    """
    question, headrooms = found.question, [service.slo.headroom for service in fleet.services]
    bare = question
    for index, headroom in enumerate(headrooms):
        bare = without_headroom(without_spares(without_region(bare, index), index), index, headroom)
    expected = None
    if fleet.provision_for != "expected":
        needs = tuple(
            replace(
                need,
                demand=in_shares(found.forecasts[need.name], found.traffic[need.name], "expected"),
            )
            for need in question.needs
        )
        expected = _cost(replace(question, needs=needs))
    return Priced(
        requirements=tuple(
            _requirements(service, index, found) for index, service in enumerate(fleet.services)
        ),
        bare_usd=_cost(bare),
        expected_usd=expected,
    )


def _requirements(service: Service, index: int, found: Decided) -> Requirements:
    question, paid = found.question, usd(found.question, found.answer)
    spares, headroom = service.slo.spare_replicas, service.slo.headroom
    region = service.survives == "region"
    return Requirements(
        service=service.name,
        survives=service.survives,
        spare_replicas=spares,
        headroom=headroom,
        regions=service.regions,
        region_usd=paid - _cost(without_region(question, index)) if region else None,
        spares_usd=paid - _cost(without_spares(question, index)) if spares else None,
        headroom_usd=(
            paid - _cost(without_headroom(question, index, headroom)) if headroom else None
        ),
    )


def without_region(question: Question, service: int) -> Question:
    """Return the question with a service that need not survive the loss of a region."""
    needs = list(question.needs)
    needs[service] = replace(needs[service], survives_region=False)
    return replace(question, needs=tuple(needs))


def without_spares(question: Question, service: int) -> Question:
    """Return the question with a service that has no spare replicas."""
    needs = list(question.needs)
    needs[service] = replace(needs[service], spares=0)
    return replace(question, needs=tuple(needs))


def without_headroom(question: Question, service: int, headroom: float) -> Question:
    """Return the question with a service whose replicas may be filled: headroom is a share."""
    units = tuple(
        replace(unit, capacity=unit.capacity / (1.0 - headroom))
        if unit.service == service
        else unit
        for unit in question.units
    )
    return replace(question, units=units)


def _cost(question: Question) -> float:
    answer = optimise(question)
    assert answer is not None  # less is asked than of the fleet that was found
    return usd(question, answer)
