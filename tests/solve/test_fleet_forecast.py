"""Forecasts against closed forms, scipy's own regression, and their own promises."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from scipy import stats

from planner.ingest.requests import Requests
from planner.profile.profile import profile_requests
from planner.solve.fleet_plan.demand import forecast
from planner.solve.fleet_plan.forecast import back_test, best_method, declared, flat, trend
from planner.solve.fleet_plan.traffic import Today, quarters_from
from planner.spec.fleet import Fleet, Growth, Launch, Service, quarter_start
from planner.spec.slo import Slo


def test_the_trend_is_least_squares_on_logarithms():
    rng = np.random.default_rng(1)
    times = np.array([-5.0, -4.1, -3.3, -2.0, -0.9, 0.0])
    rates = np.exp(0.2 * times + 0.1 * rng.standard_normal(6))
    fit = stats.linregress(times, np.log(rates))
    outlook = trend(list(zip(times, rates, strict=True)), 3.0)
    assert outlook.log_mean == pytest.approx(fit.intercept + 3.0 * fit.slope, rel=1e-12)
    # The prediction error from the textbook, with the residual error computed apart.
    residual = np.log(rates) - fit.intercept - fit.slope * times
    error = math.sqrt(residual @ residual / 4)
    sxx = ((times - times.mean()) ** 2).sum()
    wide = math.sqrt(1 + 1 / 6 + (3.0 - times.mean()) ** 2 / sxx)
    assert outlook.scale == pytest.approx(error * wide, rel=1e-12)
    assert outlook.at(0.9) == pytest.approx(
        math.exp(outlook.log_mean + stats.t.ppf(0.9, 4) * outlook.scale)
    )
    assert outlook.exceeds(outlook.at(0.9)) == pytest.approx(0.1)


def test_the_band_holds_as_often_as_it_promises():
    """400 histories with true growth: 80 % bands hold 80 % of what comes, ± 3 standard errors."""
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(400):
        times = np.arange(-6.0, 0.5)
        logs = 0.1 * times + 0.05 * rng.standard_normal(7)
        actual = math.exp(0.4 + 0.05 * rng.standard_normal())
        outlook = trend(list(zip(times, np.exp(logs), strict=True)), 4.0)
        inside += outlook.at(0.1) <= actual <= outlook.at(0.9)
    assert inside / 400 == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / 400))


def test_the_flat_band_widens_with_the_root_of_time():
    points = [(-2.0, 1.0), (-1.0, 1.2), (0.0, 1.1)]
    near, far = flat(points, 1.0), flat(points, 4.0)
    assert near.log_mean == far.log_mean == pytest.approx(math.log(1.1))
    assert far.scale == pytest.approx(2.0 * near.scale)
    steps = [math.log(1.2), math.log(1.1 / 1.2)]
    assert near.scale == pytest.approx(math.sqrt(sum(s * s for s in steps) / 2))


def test_two_measurements_and_declared_growth_without_a_band_have_none():
    assert trend([(-1.0, 1.0), (0.0, 2.0)], 1.0).exceeds(3.0) is None
    growth = Growth(expected=0.1, low=None, high=None)
    assert declared(growth, 0.0, 1.0, 0.8)([], 2.0).exceeds(3.0) is None


def test_declared_growth_meets_its_upper_end():
    method = declared(Growth(expected=0.2, low=0.1, high=0.5), -1.0, 10.0, 0.8)
    assert method([], 1.0).at(0.5) == pytest.approx(10.0 * 1.2**2)
    assert method([], 1.0).at(0.9) == pytest.approx(10.0 * 1.5**2)


def test_the_back_test_sees_what_each_method_would_have_said():
    growing = [(float(t), 2.0**t) for t in range(5)]
    by_trend, by_flat = (back_test(growing, name, 0.8) for name in ("trend", "flat"))
    # From prefixes of 3 and 4 the later 2 and 1 are forecast.
    assert by_trend.forecasts == by_flat.forecasts == 3
    assert by_trend.mean_error_share == pytest.approx(0.0, abs=1e-9)
    # One step ahead the last value is half, two steps a quarter: errors 1, 3 and 1.
    assert by_flat.mean_error_share == pytest.approx((1 + 3 + 1) / 3)
    assert by_flat.bias_share == by_flat.mean_error_share
    assert best_method(growing, 0.8)[0] == "trend"
    wobbling = [(0.0, 1.0), (1.0, 1.3), (2.0, 1.0), (3.0, 1.3), (4.0, 1.0), (5.0, 1.0)]
    assert best_method(wobbling, 0.8)[0] == "flat"
    assert back_test(growing[:3], "trend", 0.8) is None


def service(**changes):
    base = {
        "name": "s",
        "slo": Slo(model="m", classes=()),
        "slo_file": "",
        "traffic": (),
        "gpus": (),
        "regions": (),
        "survives": "replica",
        "growth": Growth(expected=0.0, low=None, high=None),
        "history": (),
        "launches": (),
        "starts": None,
    }
    return Service(**{**base, **changes})


FLEET = Fleet(
    start=date(2027, 1, 1),
    quarters=4,
    confidence=0.8,
    provision_for="high",
    budget_usd_per_month=None,
    change_cost_hours=0.0,
    stocks=(),
    services=(),
    file="fleet.yaml",
)


@pytest.fixture(scope="module")
def now():
    whole = np.ones(10, dtype=np.int64)
    requests = Requests(
        arrival_s=np.arange(10.0),
        input_tokens=whole,
        output_tokens=whole,
        class_id=whole * 0,
        class_names=("all",),
        cached_tokens=whole * 0,
        session_id=whole * 0 - 1,
    )
    return Today(
        requests=requests,
        profile=profile_requests(requests),
        requests_per_s=10.0,
        history=((0.0, 10.0),),
        measured=0.0,
        dated=False,
    )


def test_launches_multiply_and_add_from_their_quarter_on(now):
    launches = (
        Launch(name="added", date=date(2027, 5, 1), factor=1.0, requests_per_s=3.0),
        Launch(name="doubled", date=date(2027, 8, 1), factor=2.0, requests_per_s=0.0),
        Launch(name="long ago", date=date(2026, 1, 1), factor=9.0, requests_per_s=0.0),
    )
    made = forecast(FLEET, service(launches=launches), now)
    # 10, then + 3, then all of it doubled; what came before the measurement is in it.
    assert [q.expected for q in made.quarters] == pytest.approx([10.0, 13.0, 26.0, 26.0])
    assert [q.launches for q in made.quarters] == [(), ("added",), ("doubled",), ()]
    assert made.quarters[2].exceeds(20.0) is None


def test_the_risk_counts_launches(now):
    growth = Growth(expected=0.0, low=-0.2, high=0.25)
    launches = (Launch(name="x", date=date(2027, 1, 5), factor=2.0, requests_per_s=5.0),)
    (first, *_) = forecast(FLEET, service(growth=growth, launches=launches), now).quarters
    assert first.high == pytest.approx(
        5.0 + 2.0 * 10.0 * 1.25 ** quarters_from(FLEET.start, quarter_start(FLEET.start, 1))
    )
    assert first.exceeds(first.high) == pytest.approx(0.1)
    assert first.exceeds(first.expected) == pytest.approx(0.5)


def test_a_service_that_is_not_live_asks_nothing(now):
    made = forecast(FLEET, service(starts=date(2027, 7, 1)), now)
    assert [q.live for q in made.quarters] == [False, False, True, True]
    assert [q.expected for q in made.quarters][:2] == [0.0, 0.0]


def test_a_shrinking_service_is_planned_at_the_start_of_the_quarter(now):
    shrinking = service(growth=Growth(expected=-0.5, low=None, high=None))
    made = forecast(replace(FLEET, quarters=2), shrinking, now)
    halves = quarters_from(FLEET.start, quarter_start(FLEET.start, 1))
    assert [q.expected for q in made.quarters] == pytest.approx([10.0, 10.0 * 0.5**halves])


def test_declared_growth_of_what_is_not_live_yet_counts_from_its_first_day(now):
    growth = Growth(expected=0.25, low=0.05, high=0.45)
    live = date(2027, 4, 1)
    made = forecast(FLEET, service(growth=growth, starts=live), now)
    after = quarters_from(live, date(2027, 7, 1))
    assert made.quarters[1].expected == pytest.approx(10.0 * 1.25**after)
    assert made.quarters[1].high == pytest.approx(10.0 * 1.45**after)
    assert made.growth_per_quarter == pytest.approx(0.25)
    # One that went live before the traffic was measured has grown into it.
    early = forecast(FLEET, service(growth=growth, starts=date(2026, 4, 1)), now)
    whole = forecast(FLEET, service(growth=growth), now)
    assert [q.expected for q in early.quarters] == [q.expected for q in whole.quarters]


@pytest.mark.parametrize("how", ["trend", "flat", "declared", "live later"])
def test_every_quarter_comes_about_as_the_report_says(now, how):
    """base·(1 + growth)^elapsed·factor + added, for each way to forecast."""
    launches = (
        Launch(name="x", date=date(2027, 5, 1), factor=1.3, requests_per_s=0.0),
        Launch(name="y", date=date(2027, 8, 1), factor=1.0, requests_per_s=2.0),
    )
    history = {
        "trend": ((-4.0, 5.0), (-3.0, 6.1), (-2.0, 7.0), (-1.0, 8.6), (0.0, 10.0)),
        "flat": ((-4.0, 10.0), (-3.0, 13.0), (-2.0, 10.0), (-1.0, 13.0), (-0.5, 10.0), (0.0, 10.0)),
    }.get(how, now.history)
    growth = None if how in ("trend", "flat") else Growth(expected=-0.1, low=-0.2, high=0.3)
    asked = service(
        launches=launches, growth=growth, starts=date(2027, 5, 15) if how == "live later" else None
    )
    made = forecast(FLEET, asked, replace(now, history=history))
    assert made.method == (how if growth is None else "declared")
    assert made.measurements == (1 if growth else len(history))
    for quarter in made.quarters:
        if quarter.live:
            grown = made.base * (1.0 + made.growth_per_quarter) ** quarter.elapsed
            assert quarter.expected == pytest.approx(grown * quarter.factor + quarter.added)
            assert quarter.on in [quarter_start(FLEET.start, q) for q in range(5)]
