"""make_fleet_plan(): from a fleet.yaml to a FleetPlan. Decides, then says it quarter by quarter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from planner.solve.fleet_plan.decide import Decided, decide
from planner.solve.fleet_plan.demand import too_short
from planner.solve.fleet_plan.optimise import MONTHS
from planner.solve.fleet_plan.plan import (
    BackTestRow,
    Configuration,
    FleetPlan,
    LeftOut,
    Placement,
    Quarter,
    ServiceForecast,
    ServiceQuarter,
    StockQuarter,
)
from planner.solve.fleet_plan.question import usd_per_month
from planner.solve.fleet_plan.traffic import quarters_from
from planner.spec.fleet import Fleet, Service, quarter_name, quarter_start
from planner.units import HOURS_PER_MONTH

SCHEMA_VERSION = "1"
Progress = Callable[[str], None]
Placed = Mapping[tuple[int, str], int]  # replicas by (unit, region)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the plan carries along: its name, warnings, and where it comes from."""

    name: str
    warnings: tuple[str, ...]
    command: str
    planner_version: str
    inputs_sha256: Mapping[str, str]
    library_versions: Mapping[str, str]


def make_fleet_plan(fleet: Fleet, origin: Origin, progress: Progress = lambda _: None) -> FleetPlan:
    """Return the plan of a fleet.

    Parameters
    ----------
    fleet
        What is declared.
    origin
        What the plan carries along.
    progress
        Called with what is being done.

    Raises
    ------
    InputError
        Some traffic cannot be read.
    InfeasibleError
        A service holds on none of its GPU types, or no fleet fits inventory and budget.
    """
    found = decide(fleet, progress)
    quarters = tuple(_quarter(fleet, found, index) for index in range(fleet.quarters))
    return FleetPlan(
        schema_version=SCHEMA_VERSION,
        name=origin.name,
        start=fleet.start.isoformat(),
        confidence=fleet.confidence,
        provision_for=fleet.provision_for,
        usd=sum(quarter.usd for quarter in quarters),
        gap=found.answer.gap,
        replayed=found.replayed,
        rounds=found.rounds,
        quarters=quarters,
        forecasts=tuple(_forecast(service, found) for service in fleet.services),
        configurations=tuple(
            _configuration(fleet, found, unit) for unit in range(len(found.question.units))
        ),
        left_out=tuple(LeftOut(service=s, gpu=g, reason=why) for s, g, why in found.left_out),
        assumptions=_assumptions(fleet, found),
        warnings=(*origin.warnings, *_past_launches(fleet, found)),
        command=origin.command,
        planner_version=origin.planner_version,
        inputs_sha256=origin.inputs_sha256,
        library_versions=origin.library_versions,
    )


def _past_launches(fleet: Fleet, found: Decided) -> tuple[str, ...]:
    """Return which launches change nothing, because the traffic was measured after them."""
    return tuple(
        f"services.{service.name}.launches: {launch.name} on {launch.date.isoformat()} is not after"
        " the day its traffic was measured, so it is taken to be in it and adds nothing"
        for service in fleet.services
        for launch in service.launches
        if quarters_from(fleet.start, launch.date) <= found.traffic[service.name].measured
    )


def _quarter(fleet: Fleet, found: Decided, quarter: int) -> Quarter:
    placed = _placed(found, quarter)
    monthly = usd_per_month(found.question, found.answer, quarter)
    budget = fleet.budget_usd_per_month
    return Quarter(
        name=quarter_name(fleet.start, quarter),
        start=quarter_start(fleet.start, quarter).isoformat(),
        usd_per_month=monthly,
        usd=monthly * MONTHS,
        budget_usd_per_month=None if budget is None else budget[quarter],
        stocks=tuple(
            _stock(found, index, quarter, placed) for index in range(len(found.question.stocks))
        ),
        placements=_placements(found, quarter, placed),
        services=tuple(
            _service(fleet, found, index, quarter, placed) for index in range(len(fleet.services))
        ),
    )


def _placed(found: Decided, quarter: int) -> Placed:
    return {
        (unit, region): count
        for (unit, region, at), count in sorted(found.answer.replicas.items())
        if at == quarter
    }


def _stock(found: Decided, index: int, quarter: int, placed: Placed) -> StockQuarter:
    stock, answer = found.question.stocks[index], found.answer
    held = answer.held[index, quarter]
    before = answer.held[index, quarter - 1] if quarter else stock.held
    used = sum(
        count * found.question.units[unit].gpus
        for (unit, region), count in placed.items()
        if (found.question.units[unit].gpu, region) == (stock.gpu, stock.region)
    )
    return StockQuarter(
        gpu=stock.gpu,
        region=stock.region,
        held=held,
        keep=min(held, before),
        buy=max(0, held - before),
        release=max(0, before - held),
        used=used,
        available=stock.available[quarter],
        usd_per_month=held * stock.usd_per_hour * HOURS_PER_MONTH,
    )


def _placements(found: Decided, quarter: int, placed: Placed) -> tuple[Placement, ...]:
    """Return every pool that runs, or ran in the quarter before."""
    before = _placed(found, quarter - 1) if quarter else placed
    rows = []
    for unit, region in sorted({*placed, *before}):
        replicas = placed.get((unit, region), 0)
        each = found.question.units[unit]
        rows.append(
            Placement(
                service=found.question.needs[each.service].name,
                gpu=each.gpu,
                region=region,
                replicas=replicas,
                gpus=replicas * each.gpus,
                change=replicas - before.get((unit, region), 0),
            )
        )
    return tuple(rows)


def _service(
    fleet: Fleet, found: Decided, index: int, quarter: int, placed: Placed
) -> ServiceQuarter:
    service = fleet.services[index]
    demand = found.forecasts[service.name].quarters[quarter]
    rate = found.traffic[service.name].requests_per_s
    units = found.question.units
    mine = {key: n for key, n in placed.items() if units[key[0]].service == index}
    # Headroom was taken off the capacities; what the replicas carry includes it.
    whole = rate / (1.0 - service.slo.headroom)
    carried = {key: units[key[0]].capacity * n * whole for key, n in mine.items()}
    lost = _largest_loss(service, found, mine, carried, whole)
    capacity = math.fsum(carried.values())
    return ServiceQuarter(
        service=service.name,
        live=demand.live,
        expected_requests_per_s=demand.expected,
        low_requests_per_s=demand.low,
        high_requests_per_s=demand.high,
        provisioned_requests_per_s=found.question.needs[index].demand[quarter] * rate,
        capacity_requests_per_s=capacity,
        capacity_after_loss_requests_per_s=capacity - lost,
        risk=demand.exceeds(capacity),
        risk_after_loss=demand.exceeds(capacity - lost),
        gpus=sum(units[unit].gpus * n for (unit, _), n in mine.items()),
        usd_per_month=math.fsum(
            units[unit].gpus * n * _price(found, units[unit].gpu, region) * HOURS_PER_MONTH
            for (unit, region), n in mine.items()
        ),
        launches=demand.launches,
    )


def _largest_loss(
    service: Service,
    found: Decided,
    mine: Placed,
    carried: Mapping[tuple[int, str], float],
    whole: float,
) -> float:
    """Return the capacity that goes with the spares, or with a region where that is survived."""
    units = found.question.units
    spares = service.slo.spare_replicas
    largest = 0.0
    for unit in {unit for unit, _ in mine}:
        there = sum(n for (other, _), n in mine.items() if other == unit)
        largest = max(largest, units[unit].capacity * min(spares, there) * whole)
    if service.survives == "region":
        for region in {region for _, region in mine}:
            largest = max(largest, math.fsum(c for (_, at), c in carried.items() if at == region))
    return largest


def _price(found: Decided, gpu: str, region: str) -> float:
    return next(
        stock.usd_per_hour
        for stock in found.question.stocks
        if (stock.gpu, stock.region) == (gpu, region)
    )


def _configuration(fleet: Fleet, found: Decided, index: int) -> Configuration:
    unit, sized = found.question.units[index], found.sized[index]
    need = found.question.needs[unit.service]
    rate = found.traffic[need.name].requests_per_s
    prices = [
        stock.usd_per_hour
        for stock in fleet.stocks
        if stock.gpu == unit.gpu and stock.region in need.regions
    ]
    return Configuration(
        service=need.name,
        gpu=unit.gpu,
        deployment=sized.deployment,
        gpus=unit.gpus,
        capacity_requests_per_s=unit.capacity * rate,
        shrunk_share=1.0 - unit.capacity / found.first[index],
        band=sized.band,
        verified="closed_form" if sized.trial is None else "replay",
        usd_per_month=min(prices) * unit.gpus * HOURS_PER_MONTH if prices else None,
        used=any(number == index for number, _, _ in found.answer.replicas),
    )


def _forecast(service: Service, found: Decided) -> ServiceForecast:
    made, now = found.forecasts[service.name], found.traffic[service.name]
    return ServiceForecast(
        service=service.name,
        model=service.slo.model,
        method=made.method,
        growth_per_quarter=made.growth_per_quarter,
        measurements=made.measurements,
        requests_per_s=now.requests_per_s,
        requests=len(now.requests),
        tests=tuple(BackTestRow(**asdict(test)) for test in made.tests),
    )


def _assumptions(fleet: Fleet, found: Decided) -> tuple[str, ...]:
    """Return what the plan takes for granted, the general first, then each service's own."""
    general = (
        "Traffic keeps its shape and lengths: only its rate grows.",
        "A service on several GPU types shares its requests out by their capacity.",
        "Starting a replica counts as a change when the fleet is chosen, but is not in the cost.",
        "Changes of a quarter are complete on its first day.",
        "GPUs of one type and region are alike; packing replicas into nodes is not modelled.",
    )
    own = []
    for service in fleet.services:
        now, made = found.traffic[service.name], found.forecasts[service.name]
        if not now.dated:
            own.append(f"{service.name}: the traffic has no dates and is taken as of the start.")
        if too_short(service, made):
            own.append(
                f"{service.name}: {made.measurements} measurements give no band; the expected"
                " demand stands for both ends."
            )
        elif made.method == "declared" and made.quarters[-1].outlook.scale <= 0.0:
            own.append(f"{service.name}: growth is declared without a band, so risk is unknown.")
    return (*general, *own)
