"""The decision: forecast and size every service, optimise, replay, and repeat until it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planner.errors import InfeasibleError
from planner.solve.fleet_plan.check import ROUNDS, Pool, Refuted, corrected, pools
from planner.solve.fleet_plan.demand import Forecast, forecast
from planner.solve.fleet_plan.infeasible import no_fleet
from planner.solve.fleet_plan.optimise import optimise
from planner.solve.fleet_plan.question import Answer, Need, Question, Unit
from planner.solve.fleet_plan.sizing import Sized, size
from planner.solve.fleet_plan.traffic import Today, today
from planner.spec import catalog
from planner.spec.fleet import Fleet, Service, quarter_name

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A fleet that replay supports, with everything it was decided on.

    `sized[i]` stands behind `question.units[i]`; `first` are the units' capacities before replays
    of the fleet lowered any, `refuted` the pools that did, the last of each unit. `left_out` are
    (service, GPU, reason), `replayed` the pools that were replayed and hold.
    """

    traffic: Mapping[str, Today]
    forecasts: Mapping[str, Forecast]
    sized: tuple[Sized, ...]
    first: tuple[float, ...]
    refuted: Mapping[int, Pool]
    left_out: tuple[tuple[str, str, str], ...]
    question: Question
    answer: Answer
    replayed: tuple[Pool, ...]
    rounds: int


def decide(fleet: Fleet, progress: Progress) -> Decided:
    """Return the cheapest fleet whose every pool holds by replay.

    Raises
    ------
    InputError
        Some traffic cannot be read.
    InfeasibleError
        A service holds on none of its GPU types, or no fleet fits inventory and budget.
    """
    traffic = {service.name: today(fleet, service) for service in fleet.services}
    forecasts = {
        service.name: forecast(fleet, service, traffic[service.name]) for service in fleet.services
    }
    sized, left_out = _sized(fleet, traffic, progress)
    question = _question(fleet, traffic, forecasts, sized)
    first = tuple(unit.capacity for unit in question.units)
    refuted: dict[int, Pool] = {}
    for rounds in range(1, ROUNDS + 1):
        progress("optimising")
        answer = optimise(question)
        if answer is None:
            names = tuple(quarter_name(fleet.start, q) for q in range(fleet.quarters))
            raise no_fleet(question, names)
        progress("replaying the fleet")
        found = pools(question, answer, sized)
        lower = corrected(question, found, sized)
        if not lower:
            return Decided(
                traffic=traffic,
                forecasts=forecasts,
                sized=sized,
                first=first,
                refuted=refuted,
                left_out=left_out,
                question=question,
                answer=answer,
                replayed=tuple(p for p in found if sized[p.unit].trial is not None),
                rounds=rounds,
            )
        refuted.update({unit: each.pool for unit, each in lower.items()})
        question = _with_capacities(question, lower)
    names_wrong = ", ".join(sorted({sized[unit].service for unit in lower}))
    raise InfeasibleError(
        f"no fleet was found whose replay holds: {names_wrong} misses a target in every one tried",
        nearest="Raise the headroom of its slo.yaml.",
    )


def _with_capacities(question: Question, lower: Mapping[int, Refuted]) -> Question:
    units = tuple(
        replace(unit, capacity=lower[index].capacity if index in lower else unit.capacity)
        for index, unit in enumerate(question.units)
    )
    return replace(question, units=units)


def _sized(
    fleet: Fleet, traffic: Mapping[str, Today], progress: Progress
) -> tuple[tuple[Sized, ...], tuple[tuple[str, str, str], ...]]:
    """Size every service on every GPU type it may use.

    Raises
    ------
    InfeasibleError
        A service runs on none of them.
    """
    sized: list[Sized] = []
    left_out: list[tuple[str, str, str]] = []
    for service in fleet.services:
        now = traffic[service.name]
        for gpu in _possible(fleet, service):
            progress(f"sizing {service.name} on {gpu}")
            found = size(service.name, service.slo, now.requests, now.profile, gpu, lambda _: None)
            if isinstance(found, str):
                left_out.append((service.name, gpu, found))
            else:
                sized.append(found)
        if not any(each.service == service.name for each in sized):
            reasons = "; ".join(
                f"{gpu}: {why}" for name, gpu, why in left_out if name == service.name
            )
            raise InfeasibleError(f"{service.name} holds on none of its GPU types: {reasons}")
    return tuple(sized), tuple(left_out)


def _possible(fleet: Fleet, service: Service) -> tuple[str, ...]:
    """Return the GPU types that a service (and its slo.yaml) allows and that its regions have."""
    there = {stock.gpu for stock in fleet.stocks if stock.region in service.regions}
    allowed = {catalog.gpu(name).id for name in service.slo.gpus} or there
    return tuple(gpu for gpu in service.gpus if gpu in there & allowed)


def in_shares(made: Forecast, now: Today, end: str) -> tuple[float, ...]:
    """Return every quarter's demand, "expected" or "high", in shares of today's."""
    return tuple(getattr(quarter, end) / now.requests_per_s for quarter in made.quarters)


def _question(
    fleet: Fleet,
    traffic: Mapping[str, Today],
    forecasts: Mapping[str, Forecast],
    sized: tuple[Sized, ...],
) -> Question:
    names = [service.name for service in fleet.services]
    needs = tuple(
        Need(
            name=service.name,
            demand=in_shares(forecasts[service.name], traffic[service.name], fleet.provision_for),
            regions=service.regions,
            spares=service.slo.spare_replicas,
            survives_region=service.survives == "region",
        )
        for service in fleet.services
    )
    units = tuple(
        Unit(
            service=names.index(each.service),
            gpu=each.deployment.gpu,
            gpus=each.gpus,
            capacity=each.capacity,
        )
        for each in sized
    )
    return Question(
        units=units,
        needs=needs,
        stocks=fleet.stocks,
        quarters=fleet.quarters,
        budget_usd_per_month=fleet.budget_usd_per_month,
        change_cost_hours=fleet.change_cost_hours,
    )
