"""make_fleet_plan(): from a fleet.yaml to a FleetPlan. Decides, then says it quarter by quarter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta

from planner.solve.fleet_plan.decide import Decided, decide
from planner.solve.fleet_plan.demand import too_short
from planner.solve.fleet_plan.plan import (
    BackTestRow,
    Configuration,
    FleetPlan,
    LeftOut,
    Lowered,
    Measurement,
    RegionPrice,
    ServiceForecast,
)
from planner.solve.fleet_plan.quarters import carries, quarter_of
from planner.solve.fleet_plan.redraw import redrawn
from planner.solve.fleet_plan.requirements import price_requirements
from planner.solve.fleet_plan.stocks import bought_back, exhausted
from planner.solve.fleet_plan.traffic import DAYS_PER_QUARTER, Today, quarters_from
from planner.spec.fleet import Fleet, Service, quarter_name
from planner.units import HOURS_PER_MONTH

SCHEMA_VERSION = "1"
Progress = Callable[[str], None]


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
    progress("pricing what is required")
    priced = price_requirements(fleet, found)
    progress("replaying the fullest pools with other draws")
    quarters = tuple(quarter_of(fleet, found, index) for index in range(fleet.quarters))
    return FleetPlan(
        schema_version=SCHEMA_VERSION,
        name=origin.name,
        start=fleet.start.isoformat(),
        confidence=fleet.confidence,
        provision_for=fleet.provision_for,
        usd=sum(quarter.usd for quarter in quarters),
        requirements=priced.requirements,
        usd_without_requirements=priced.bare_usd,
        usd_for_expected=priced.expected_usd,
        exhausted=exhausted(quarters),
        bought_back=bought_back(quarters, fleet.stocks),
        gap=found.answer.gap,
        replayed=len(found.replayed),
        rounds=found.rounds,
        quarters=quarters,
        forecasts=tuple(_forecast(fleet, service, found) for service in fleet.services),
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


def _configuration(fleet: Fleet, found: Decided, index: int) -> Configuration:
    unit, sized = found.question.units[index], found.sized[index]
    need = found.question.needs[unit.service]
    return Configuration(
        service=need.name,
        gpu=unit.gpu,
        deployment=sized.deployment,
        gpus=unit.gpus,
        capacity_requests_per_s=carries(fleet, found, index),
        lowered=_lowered(fleet, found, index),
        redrawn=redrawn(index, found.replayed, found.sized),
        band=sized.band,
        verified="closed_form" if sized.trial is None else "replay",
        prices=tuple(
            RegionPrice(
                region=stock.region,
                usd_per_month=stock.usd_per_hour * unit.gpus * HOURS_PER_MONTH,
            )
            for stock in fleet.stocks
            if stock.gpu == unit.gpu and stock.region in need.regions
        ),
        used=any(number == index for number, _, _ in found.answer.replicas),
    )


def _lowered(fleet: Fleet, found: Decided, index: int) -> Lowered | None:
    pool = found.refuted.get(index)
    if pool is None:
        return None
    sized = found.sized[index]
    today = found.traffic[sized.service].requests_per_s
    return Lowered(
        quarter=quarter_name(fleet.start, pool.quarter),
        replicas=pool.replicas,
        # A pool's load counts requests of the trace, which keeps a sample of the service's.
        requests_per_s=pool.load * pool.replicas * sized.sample_rate * today,
        first_replicas=sized.replicas_today,
        first_requests_per_s=carries(fleet, found, index, found.first[index]),
    )


def _forecast(fleet: Fleet, service: Service, found: Decided) -> ServiceForecast:
    made, now = found.forecasts[service.name], found.traffic[service.name]
    return ServiceForecast(
        service=service.name,
        model=service.slo.model,
        method=made.method,
        growth_per_quarter=made.growth_per_quarter,
        base_date=_day(fleet, made.since),
        base_requests_per_s=made.base,
        measurements=made.measurements,
        history=tuple(
            Measurement(date=_day(fleet, at), requests_per_s=rate) for at, rate in now.history
        ),
        last_growth_per_quarter=_last_growth(now),
        requests_per_s=now.requests_per_s,
        requests=len(now.requests),
        tests=tuple(BackTestRow(**asdict(test)) for test in made.tests),
    )


def _day(fleet: Fleet, quarters: float) -> str:
    """Return the day that lies so many quarters from the start."""
    return (fleet.start + timedelta(days=round(quarters * DAYS_PER_QUARTER))).isoformat()


def _last_growth(now: Today) -> float | None:
    """Return the growth a quarter between the last two measurements."""
    if len(now.history) < 2:
        return None
    (before, then), (at, rate) = now.history[-2:]
    return float((rate / then) ** (1.0 / (at - before)) - 1.0)


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
        if service.starts is not None and made.since > now.measured:
            own.append(
                f"{service.name}: goes live on {service.starts.isoformat()} with the traffic given;"
                " its declared growth counts from that day."
            )
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
