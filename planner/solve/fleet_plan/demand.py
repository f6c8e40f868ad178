"""Demand of one service in every quarter: the forecast with launches on top, in shares of today."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

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

    It is the demand of the day `on`, `elapsed` quarters after the one that the forecast starts
    from. `outlook` is of the demand without launches, which multiply it by `factor` and add
    `added`.
    """

    on: date
    elapsed: float
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
    """How one service's demand will go, and the evidence for it.

    Without launches, demand is expected to be base·(1 + growth_per_quarter)^elapsed, where `base`
    is the method's own figure of the day that lies `since` quarters from the start.
    """

    method: str  # "trend", "flat" or "declared"
    growth_per_quarter: float  # expected, launches not counted
    base: float
    since: float
    measurements: int  # that it rests on
    tests: tuple[BackTest, ...]
    quarters: tuple[Quarterly, ...]


def forecast(fleet: Fleet, service: Service, now: Today) -> Forecast:
    """Return a service's demand in every quarter of the plan.

    Declared growth wins over the history, and counts from the day the traffic was measured or, of a
    service not yet live then, from the day it goes live: nobody is there to grow before. Each
    quarter is taken at the end at which its upper band is higher, since the fleet must carry its
    worst week.
    """
    points = now.history
    since = now.measured
    tests: tuple[BackTest, ...] = ()
    if service.growth is not None:
        name, points = "declared", now.history[-1:]
        if service.starts is not None:
            since = max(since, quarters_from(fleet.start, service.starts))
        method: Method = declared(service.growth, since, now.requests_per_s, fleet.confidence)
    else:
        name, tests = best_method(points, fleet.confidence)
        method = METHODS[name]
    quarters = tuple(
        _quarter(fleet, service, method, now, since, quarter) for quarter in range(fleet.quarters)
    )
    base, next_quarter = method(points, since).at(0.5), method(points, since + 1.0).at(0.5)
    return Forecast(
        method=name,
        growth_per_quarter=next_quarter / base - 1.0,
        base=base,
        since=since,
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


def _quarter(
    fleet: Fleet, service: Service, method: Method, now: Today, since: float, q: int
) -> Quarterly:
    begin, end = quarter_start(fleet.start, q), quarter_start(fleet.start, q + 1)
    upper = 0.5 + fleet.confidence / 2.0
    edges = [
        (day, method(now.history, quarters_from(fleet.start, day)))
        # Among equals the later: a flat forecast's error, if any, is no smaller there.
        for day in (end, begin)
    ]
    on, outlook = max(edges, key=lambda edge: edge[1].at(upper))
    # A launch before the traffic was measured is in the traffic.
    ahead = [x for x in service.launches if quarters_from(fleet.start, x.date) > now.measured]
    counted = [launch for launch in ahead if launch.date < end]
    factor, added = _effect(counted)
    live = service.starts is None or service.starts < end

    def demand(probability: float) -> float:
        return outlook.at(probability) * factor + added if live else 0.0

    elapsed = quarters_from(fleet.start, on) - since
    return Quarterly(
        on=on,
        elapsed=max(0.0, elapsed) if service.growth is not None else elapsed,
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
