"""Demand of one service in every quarter: the forecast with launches on top, in shares of today."""

from __future__ import annotations

from dataclasses import dataclass

from planner.solve.fleet_plan.forecast import (
    LEAST_FOR_BAND,
    METHODS,
    BackTest,
    Method,
    Outlook,
    best_method,
    declared,
)
from planner.solve.fleet_plan.traffic import Today, quarters_from
from planner.spec.fleet import Fleet, Launch, Service, quarter_start


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarterly:
    """Demand of one service in one quarter, in requests/s of the whole service.

    `outlook` is of the demand without launches, which multiply it by `factor` and add `added`.
    """

    expected: float
    low: float
    high: float
    outlook: Outlook
    factor: float
    added: float
    launches: tuple[str, ...]
    live: bool

    def exceeds(self, requests_per_s: float) -> float | None:
        """Return the probability that demand is above a rate, None without a band."""
        if not self.live:
            return 0.0
        return self.outlook.exceeds((requests_per_s - self.added) / self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How one service's demand will go, and the evidence for it."""

    method: str  # "trend", "flat" or "declared"
    growth_per_quarter: float  # expected, launches not counted
    measurements: int
    tests: tuple[BackTest, ...]
    quarters: tuple[Quarterly, ...]


def forecast(fleet: Fleet, service: Service, now: Today) -> Forecast:
    """Return a service's demand in every quarter of the plan.

    Declared growth wins over the history; each quarter is taken at the end at which its upper
    band is higher, since the fleet must carry its worst week.
    """
    points = now.history
    tests: tuple[BackTest, ...] = ()
    if service.growth is not None:
        name = "declared"
        method: Method = declared(
            service.growth, now.measured, now.requests_per_s, fleet.confidence
        )
    else:
        name, tests = best_method(points, fleet.confidence)
        method = METHODS[name]
    quarters = tuple(
        _quarter(fleet, service, method, now, quarter) for quarter in range(fleet.quarters)
    )
    first, second = method(points, 0.0), method(points, 1.0)
    return Forecast(
        method=name,
        growth_per_quarter=second.at(0.5) / first.at(0.5) - 1.0,
        measurements=len(points),
        tests=tests,
        quarters=quarters,
    )


def has_band(made: Forecast) -> bool:
    """Return whether anything is known about the forecast's error."""
    return any(quarter.outlook.scale > 0.0 for quarter in made.quarters)


def too_short(service: Service, made: Forecast) -> bool:
    """Return whether a history was too short to give the forecast a band."""
    return service.growth is None and made.measurements < LEAST_FOR_BAND


def _quarter(fleet: Fleet, service: Service, method: Method, now: Today, q: int) -> Quarterly:
    begin, end = quarter_start(fleet.start, q), quarter_start(fleet.start, q + 1)
    upper = 0.5 + fleet.confidence / 2.0
    edges = [method(now.history, quarters_from(fleet.start, day)) for day in (begin, end)]
    outlook = max(edges, key=lambda edge: edge.at(upper))
    # A launch before the traffic was measured is in the traffic.
    ahead = [x for x in service.launches if quarters_from(fleet.start, x.date) > now.measured]
    counted = [launch for launch in ahead if launch.date < end]
    factor, added = _effect(counted)
    live = service.starts is None or service.starts < end

    def demand(probability: float) -> float:
        return outlook.at(probability) * factor + added if live else 0.0

    return Quarterly(
        expected=demand(0.5),
        low=demand(1.0 - upper),
        high=demand(upper),
        outlook=outlook,
        factor=factor,
        added=added,
        launches=tuple(launch.name for launch in counted if q == 0 or launch.date >= begin),
        live=live,
    )


def _effect(launches: list[Launch]) -> tuple[float, float]:
    """Return what launches multiply demand by, and what they add, in the order of their dates."""
    factor, added = 1.0, 0.0
    for launch in sorted(launches, key=lambda each: each.date):
        factor *= launch.factor
        added = added * launch.factor + launch.requests_per_s
    return factor, added
