"""A fleet plan as fleet.json and report.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.json_data import decode, encode
from planner.report import format as fmt
from planner.report.codec import dumps, rounded
from planner.report.environment import markdown_environment
from planner.report.fleet_remarks import remarks
from planner.report.fleet_words import (
    demand_day,
    headline,
    largest_risk,
    loss_words,
    sentence,
    survives,
)
from planner.report.render import tidy, write_files
from planner.solve.fleet_plan.plan import FleetPlan, Quarter
from planner.spec.kinds import refuse_other_kind
from planner.spec.load import raise_for, read_document
from planner.spec.validate import validate
from planner.text import counted

CENTS_FROM = 10_000.0
OWN_FILES = ("fleet.json", "report.md")
METHODS = {
    "trend": "constant growth fitted to the history",
    "flat": "the last measurement",
    "declared": "declared growth",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """One quarter over all GPU types."""

    held: int
    buy: int
    release: int
    risk: str


def fleet_to_dict(plan: FleetPlan) -> dict[str, Any]:
    """Return the plan as JSON data, numbers rounded to six significant digits or the cent."""
    data = encode(plan, _rounded)
    assert isinstance(data, dict)
    return data


def _rounded(number: float) -> float:
    """Round as everywhere, but amounts no coarser than to the cent: their sums must come out."""
    return round(number, 2) if abs(number) >= CENTS_FROM else rounded(number)


def read_fleet_plan(path: Path) -> FleetPlan:
    """Return the plan in a fleet.json, checked against its schema.

    Raises
    ------
    InputError
        The file cannot be read, is not JSON or is not a fleet plan.
    """
    document = read_document(path)
    refuse_other_kind(document, "fleet-plan")
    raise_for(validate(document, "fleet-plan"))
    plan = decode(FleetPlan, document.data)
    assert isinstance(plan, FleetPlan)
    return plan


def render_fleet(plan: FleetPlan) -> dict[str, str]:
    """Return file name → text of the whole report, as rendered from fleet.json alone."""
    data = fleet_to_dict(plan)
    plan = decode(FleetPlan, data)  # what the reader of fleet.json has: rounded
    template = markdown_environment().get_template("fleet.md.j2")
    libraries = ", ".join(f"{name} {v}" for name, v in sorted(plan.library_versions.items()))
    report = template.render(
        plan=plan,
        headline=headline(plan),
        anchors=[quarter.name.lower().replace(" ", "-") for quarter in plan.quarters],
        totals=[_totals(quarter) for quarter in plan.quarters],
        sentences=[sentence(quarter) for quarter in plan.quarters],
        remarks=remarks(plan),
        survives=survives,
        loss_words=loss_words,
        demand_days=[demand_day(quarter) for quarter in plan.quarters],
        each={(c.service, c.gpu): c.capacity_requests_per_s for c in plan.configurations},
        by_service={forecast.service: forecast for forecast in plan.forecasts},
        methods=METHODS,
        tested=any(forecast.tests for forecast in plan.forecasts),
        libraries=libraries,
    )
    return {"fleet.json": dumps(data), "report.md": tidy(report)}


def write_fleet(plan: FleetPlan, directory: Path) -> list[Path]:
    """Write the report into `directory`, all of it or nothing, and return its files.

    Raises
    ------
    InputError
        The directory cannot be created or written to.
    """
    return write_files(render_fleet(plan), directory, OWN_FILES)


def _totals(quarter: Quarter) -> Totals:
    return Totals(
        held=sum(stock.held for stock in quarter.stocks),
        buy=sum(stock.buy for stock in quarter.stocks),
        release=sum(stock.release for stock in quarter.stocks),
        risk=largest_risk(quarter),
    )


def summary(plan: FleetPlan, directory: Path | None = None) -> str:
    """Return the plan for a terminal."""
    plan = decode(FleetPlan, fleet_to_dict(plan))  # the figures of the report, digit by digit
    return "\n".join(line.rstrip() for line in _lines(plan, directory)) + "\n"


def _lines(plan: FleetPlan, directory: Path | None) -> Iterator[str]:
    yield headline(plan)
    yield ""
    for quarter in plan.quarters:
        budget = quarter.budget_usd_per_month
        of = f" of {fmt.usd_exact(budget)}" if budget is not None else ""
        total = _totals(quarter)
        cost = f"{fmt.usd_exact(quarter.usd_per_month)}{of} a month"
        yield f"{quarter.name:<12}{counted(total.held, 'GPU'):>9}  {cost}; risk {total.risk}"
        yield f"{'':<12}{sentence(quarter)}"
    yield ""
    tests = [
        f"{each.service} {fmt.percent(each.growth_per_quarter, 2)} a quarter"
        for each in plan.forecasts
    ]
    yield f"Growth: {', '.join(tests)}"
    yield "Risk: by the forecast's error alone; the report says what that leaves out"
    yield f"Replayed: {plan.replayed} pools hold after every loss planned for"
    if directory is not None:
        yield f"report: {(directory / 'report.md').as_posix()}"
