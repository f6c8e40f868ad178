"""Prices of requirements, stock that runs out, GPUs bought back: against sums done by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from planner.solve.fleet_plan.decide import Decided
from planner.solve.fleet_plan.optimise import optimise
from planner.solve.fleet_plan.plan import Quarter, StockQuarter
from planner.solve.fleet_plan.question import Need, Question, Unit
from planner.solve.fleet_plan.requirements import price_requirements
from planner.solve.fleet_plan.stocks import bought_back, exhausted
from planner.spec.fleet import Fleet, Service, Stock
from planner.spec.slo import Slo

QUARTER_HOURS = 3 * 730.0


def stock(region="r", **changes):
    base = {
        "held": 0,
        "committed": 0,
        "available": (20,),
        "usd_per_hour": 1.0,
        "price_source": "fleet.yaml",
        "term_quarters": 1,
    }
    return Stock(gpu="a", region=region, **{**base, **changes})


def service(*, survives, spares, headroom):
    slo = Slo(model="m", classes=(), spare_replicas=spares, headroom=headroom)
    return Service(
        name="x",
        slo=slo,
        slo_file="",
        traffic=(),
        gpus=("a",),
        regions=("east", "west"),
        survives=survives,
        growth=None,
        history=(),
        launches=(),
        starts=None,
    )


def priced(one):
    """One service that asks 3.8 replicas with every replica full, in two regions at 1 $ an hour."""
    stocks = (stock("east"), stock("west"))
    fleet = Fleet(
        start=date(2027, 1, 1),
        quarters=1,
        confidence=0.8,
        provision_for="expected",
        budget_usd_per_month=None,
        change_cost_hours=0.0,
        stocks=stocks,
        services=(one,),
        file="fleet.yaml",
    )
    question = Question(
        units=(Unit(service=0, gpu="a", gpus=1, capacity=1.0 - one.slo.headroom),),
        needs=(
            Need(
                name="x",
                demand=(3.8,),
                regions=("east", "west"),
                spares=one.slo.spare_replicas,
                survives_region=one.survives == "region",
            ),
        ),
        stocks=stocks,
        quarters=1,
    )
    found = Decided(
        traffic={},
        forecasts={},
        sized=(),
        first=(),
        refuted={},
        left_out=(),
        question=question,
        answer=optimise(question),
        replayed=(),
        rounds=1,
    )
    return price_requirements(fleet, found)


def test_each_price_is_the_fleet_without_that_requirement():
    """Full: ⌈3.8⌉ = 4 replicas. Headroom of a fifth: ⌈4.75⌉ = 5. A region lost: twice as many."""
    found = priced(service(survives="region", spares=1, headroom=0.2))
    (row,) = found.requirements
    # 10 with everything; 6 without the region, 10 without the spare, 8 without the headroom.
    assert row.region_usd == pytest.approx(4 * QUARTER_HOURS)
    assert row.spares_usd == pytest.approx(0.0)
    assert row.headroom_usd == pytest.approx(2 * QUARTER_HOURS)
    assert found.bare_usd == pytest.approx(4 * QUARTER_HOURS)
    assert found.expected_usd is None


def test_what_is_not_required_has_no_price():
    (row,) = priced(service(survives="replica", spares=2, headroom=0.0)).requirements
    assert (row.region_usd, row.headroom_usd) == (None, None)
    assert row.spares_usd == pytest.approx(2 * QUARTER_HOURS)


def quarters(*held, available=9, before=0):
    """One stock's course as quarters of a plan."""
    rows = []
    for index, now in enumerate(held):
        previous = held[index - 1] if index else before
        rows.append(
            Quarter(
                name=f"Q{index + 1}",
                start="2027-01-01",
                usd_per_month=0.0,
                one_off_usd=0.0,
                usd=0.0,
                budget_usd_per_month=None,
                stocks=(
                    StockQuarter(
                        gpu="a",
                        region="r",
                        held=now,
                        keep=min(now, previous),
                        buy=max(0, now - previous),
                        release=max(0, previous - now),
                        used=now,
                        committed=0,
                        available=available,
                        usd_per_gpu_month=730.0,
                        usd_per_month=730.0 * now,
                        one_off_usd=0.0,
                    ),
                ),
                placements=(),
                services=(),
            )
        )
    return rows


def test_the_last_released_are_the_first_bought_back():
    rows = bought_back(quarters(5, 3, 6, before=8), (stock(buy_usd=100.0, release_usd=50.0),))
    # 3 go in Q1 and 2 in Q2; of 3 bought in Q3, 2 went a quarter ago and 1 two quarters ago.
    assert [(r.released_in, r.bought_in, r.gpus) for r in rows] == [
        ("Q2", "Q3", 2),
        ("Q1", "Q3", 1),
    ]
    assert [r.usd_to_keep for r in rows] == pytest.approx([2 * QUARTER_HOURS, 2 * QUARTER_HOURS])
    assert [r.usd_saved for r in rows] == pytest.approx([300.0, 150.0])
    assert bought_back(quarters(5, 5, 9, before=5), (stock(),)) == ()


def test_stock_runs_out_where_all_that_can_be_had_is_held():
    (row,) = exhausted(quarters(8, 9, 7, 9))
    assert row.quarters == ("Q2", "Q4")
    assert exhausted(quarters(8, 7)) == ()
    none_to_have = [replace(q, stocks=(replace(q.stocks[0], available=0),)) for q in quarters(0, 0)]
    assert exhausted(none_to_have) == ()
