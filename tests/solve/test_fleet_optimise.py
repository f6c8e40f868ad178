"""The optimiser against brute force, and what it says when no fleet fits."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.solve.fleet_plan.infeasible import no_fleet
from planner.solve.fleet_plan.optimise import optimise
from planner.solve.fleet_plan.question import (
    Need,
    Question,
    Unit,
    one_off_usd,
    usd,
    usd_per_month,
)
from planner.spec.fleet import Stock

QUARTER_HOURS = 3 * 730.0
MOST = 3  # replicas of one unit in one region that brute force tries


def stock(gpu, region="r", **changes):
    base = {
        "held": 0,
        "committed": 0,
        "available": (MOST * 2,),
        "usd_per_hour": 1.0,
        "price_source": "fleet.yaml",
        "term_quarters": 1,
    }
    return Stock(gpu=gpu, region=region, **{**base, **changes})


def enough(question, counts):
    """Whether replicas by (unit, region, quarter) meet every need, redundancy included."""
    for index, need in enumerate(question.needs):
        for quarter, demand in enumerate(need.demand):
            mine = {
                (unit, region): n
                for (unit, region, at), n in counts.items()
                if at == quarter and question.units[unit].service == index and n
            }
            carried = {key: question.units[key[0]].capacity * n for key, n in mine.items()}
            total = sum(carried.values())
            losses = [0.0]
            losses += [need.spares * question.units[unit].capacity for unit, _ in mine]
            if need.survives_region:
                losses += [
                    sum(c for (_, at), c in carried.items() if at == region)
                    for region in {region for _, region in mine}
                ]
            if demand > 0 and total - max(losses) < demand - 1e-6:
                return False
    return True


def paths(question, index, used):
    """Every course of one stock's GPUs over the quarters that is allowed, with its cost."""
    held = question.stocks[index]
    for course in itertools.product(*(range(n + 1) for n in held.available)):
        before, cost, fine, bought = held.held, 0.0, True, []
        for quarter, now in enumerate(course):
            buy = max(0, now - before)
            bought.append(buy)
            running = sum(bought[max(0, quarter - held.term_quarters + 1) :])
            fine = fine and now >= used[quarter] and now >= held.committed + running
            cost += held.usd_per_hour * (now * QUARTER_HOURS + abs(now - before))
            cost += held.buy_usd * buy + held.release_usd * max(0, before - now)
            before = now
        if fine:
            yield cost, course


def brute_force(question):
    """The least objective over all fleets, None where none is allowed."""
    keys = [
        (unit, one.region, quarter)
        for unit, each in enumerate(question.units)
        for one in question.stocks
        for quarter in range(question.quarters)
        if one.gpu == each.gpu and one.region in question.needs[each.service].regions
    ]
    best = math.inf
    for chosen in itertools.product(range(MOST + 1), repeat=len(keys)):
        counts = dict(zip(keys, chosen, strict=True))
        if not enough(question, counts):
            continue
        starts = sum(
            question.change_cost_hours
            * next(s for s in question.stocks if (s.gpu, s.region) == place).usd_per_hour
            * question.units[unit].gpus
            * max(0, n - counts[unit, region, quarter - 1])
            for (unit, region, quarter), n in counts.items()
            if quarter and (place := (question.units[unit].gpu, region))
        )
        options = []
        for index, one in enumerate(question.stocks):
            used = [
                sum(
                    n * question.units[unit].gpus
                    for (unit, region, at), n in counts.items()
                    if at == q and (question.units[unit].gpu, region) == (one.gpu, one.region)
                )
                for q in range(question.quarters)
            ]
            options.append(sorted(paths(question, index, used)))
        for combination in itertools.product(*options):
            cost = sum(cost for cost, _ in combination) + starts
            if cost >= best:
                if question.budget_usd_per_month is None:
                    break  # sorted: the first combination is the cheapest
                continue
            if within_budget(question, [course for _, course in combination]):
                best = cost
    return None if math.isinf(best) else best


def within_budget(question, courses):
    if question.budget_usd_per_month is None:
        return True
    return all(
        sum(
            one.usd_per_hour * 730.0 * course[quarter]
            for one, course in zip(question.stocks, courses, strict=True)
        )
        <= limit + 1e-6
        for quarter, limit in enumerate(question.budget_usd_per_month)
    )


def agree(question):
    expected, found = brute_force(question), optimise(question)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found.objective == pytest.approx(expected, rel=1e-5)
    assert enough(question, {**found.replicas})
    for (index, quarter), held in found.held.items():
        assert held <= question.stocks[index].available[quarter]


PRICES = st.sampled_from([0.5, 1.0, 1.7, 2.6])
CAPACITIES = st.sampled_from([0.3, 0.45, 0.7, 1.0])


@settings(max_examples=60)
@given(
    demand=st.tuples(st.floats(0.0, 1.6), st.floats(0.0, 1.2)),
    capacity=st.tuples(CAPACITIES, CAPACITIES, CAPACITIES),
    gpus=st.tuples(*[st.sampled_from([1, 2])] * 3),
    price=st.tuples(PRICES, PRICES),
    available=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    spares=st.integers(0, 1),
    budget=st.one_of(st.none(), st.floats(500.0, 5000.0)),
)
def test_one_quarter_equals_brute_force(demand, capacity, gpus, price, available, spares, budget):
    """Two services, the first on two GPU types, sharing what there is of them."""
    places = [(0, "a"), (0, "b"), (1, "b")]
    question = Question(
        units=tuple(
            Unit(service=service, gpu=gpu, gpus=g, capacity=c)
            for (service, gpu), g, c in zip(places, gpus, capacity, strict=True)
        ),
        needs=(
            Need(name="x", demand=(demand[0],), regions=("r",), spares=spares),
            Need(name="y", demand=(demand[1],), regions=("r",)),
        ),
        stocks=(
            stock("a", usd_per_hour=price[0], available=(available[0],), held=1),
            stock("b", usd_per_hour=price[1], available=(available[1],)),
        ),
        quarters=1,
        budget_usd_per_month=None if budget is None else (budget,),
    )
    agree(question)


@settings(max_examples=30)
@given(
    demand=st.tuples(st.floats(0.1, 1.4), st.floats(0.1, 1.4)),
    price=st.tuples(PRICES, PRICES),
    available=st.tuples(*[st.integers(0, 3)] * 4),
    held=st.integers(0, 2),
    committed=st.integers(0, 1),
    term=st.integers(1, 2),
    change=st.sampled_from([0.0, 168.0, 1500.0]),
    budget=st.one_of(st.none(), st.floats(700.0, 4000.0)),
    once=st.tuples(st.sampled_from([0.0, 500.0]), st.sampled_from([0.0, 3000.0])),
)
def test_two_quarters_equal_brute_force(
    demand, price, available, held, committed, term, change, budget, once
):
    """Contracts, commitments and what changes cost tie the quarters together."""
    question = Question(
        units=(
            Unit(service=0, gpu="a", gpus=1, capacity=0.6),
            Unit(service=0, gpu="b", gpus=1, capacity=0.4),
        ),
        needs=(Need(name="x", demand=demand, regions=("r",)),),
        stocks=(
            stock(
                "a",
                usd_per_hour=price[0],
                available=available[:2],
                held=min(held, available[0]),
                committed=min(committed, *available[:2]),
                term_quarters=term,
                buy_usd=once[0],
                release_usd=once[1],
            ),
            stock("b", usd_per_hour=price[1], available=available[2:]),
        ),
        quarters=2,
        budget_usd_per_month=None if budget is None else (budget, budget),
        change_cost_hours=change,
    )
    agree(question)


@settings(max_examples=30)
@given(
    demand=st.floats(0.1, 1.3),
    prices=st.tuples(PRICES, PRICES, PRICES),
    available=st.tuples(*[st.integers(0, 4)] * 3),
    spares=st.integers(0, 1),
)
def test_the_loss_of_a_region_equals_brute_force(demand, prices, available, spares):
    places = [("a", "east"), ("a", "west"), ("b", "west")]
    question = Question(
        units=(
            Unit(service=0, gpu="a", gpus=1, capacity=0.6),
            Unit(service=0, gpu="b", gpus=2, capacity=1.0),
        ),
        needs=(
            Need(
                name="x",
                demand=(demand,),
                regions=("east", "west"),
                spares=spares,
                survives_region=True,
            ),
        ),
        stocks=tuple(
            stock(gpu, region, usd_per_hour=p, available=(n,))
            for (gpu, region), p, n in zip(places, prices, available, strict=True)
        ),
        quarters=1,
    )
    agree(question)


@pytest.fixture
def tight():
    """Needs 4 of 3 GPUs, and $2,920 of a budget of $2,000 a month."""
    return Question(
        units=(Unit(service=0, gpu="a", gpus=1, capacity=0.5),),
        needs=(Need(name="x", demand=(1.0, 1.5), regions=("r",), spares=1),),
        stocks=(stock("a", available=(4, 3)),),
        quarters=2,
    )


def test_what_is_missing_from_the_inventory_is_said_exactly(tight):
    assert optimise(tight) is None
    error = no_fleet(tight, ("2027 Q1", "2027 Q2"))
    assert error.exit_code == 3
    assert "1 more a in r by 2027 Q2" in error.nearest
    assert "without spare replicas and regions it would fit" in error.nearest
    # Three replicas, one of them spare, carry 1.0 of 1.5.
    assert "66.7% of every service" in error.nearest
    # With that one GPU it is feasible, with none it is not.
    roomier = replace(tight, stocks=(stock("a", available=(4, 4)),))
    assert optimise(roomier) is not None


def test_what_is_missing_from_the_budget_is_said_exactly(tight):
    poor = replace(
        tight,
        stocks=(stock("a", available=(4, 4)),),
        budget_usd_per_month=(2500.0, 2500.0),
    )
    error = no_fleet(poor, ("2027 Q1", "2027 Q2"))
    # Four GPUs at $1 for 730 hours are $2,920.
    assert "budget: $420 more a month in 2027 Q2 would be enough" in error.nearest
    assert "inventory:" not in error.nearest
    richer = replace(poor, budget_usd_per_month=(2500.0, 2920.0))
    found = optimise(richer)
    assert found is not None
    assert usd_per_month(richer, found, 1) == pytest.approx(2920.0)


def test_what_every_quarter_lacks_is_said_and_is_enough(tight):
    """Each sentence applied as it stands makes the question solvable; less in a quarter not."""
    poor = replace(
        tight, stocks=(stock("a", available=(4, 4)),), budget_usd_per_month=(100.0, 100.0)
    )
    names = ("2027 Q1", "2027 Q2")
    told = dict(re.findall(r"\$([\d,]+) more a month in (2027 Q\d)", no_fleet(poor, names).nearest))
    more = {name: float(usd.replace(",", "")) for usd, name in told.items()}
    assert set(more) == set(names)
    enough = tuple(100.0 + more[name] for name in names)
    assert optimise(replace(poor, budget_usd_per_month=enough)) is not None
    for index in range(2):
        less = tuple(usd - 2.0 * (index == each) for each, usd in enumerate(enough))
        assert optimise(replace(poor, budget_usd_per_month=less)) is None
    bare = replace(tight, stocks=(stock("a", available=(1, 2)),))
    assert "3 more a in r by 2027 Q1" not in no_fleet(bare, names).nearest
    assert "2 more a in r by 2027 Q1 would be enough" in no_fleet(bare, names).nearest
    assert optimise(replace(bare, stocks=(stock("a", available=(3, 4)),))) is not None


def test_both_together_where_neither_alone_is_enough(tight):
    both = replace(tight, budget_usd_per_month=(2500.0, 2500.0))
    error = no_fleet(both, ("2027 Q1", "2027 Q2"))
    assert "inventory and budget together: 1 more a in r by 2027 Q2" in error.nearest
    assert "$420 more a month in 2027 Q2" in error.nearest


def test_a_service_stays_unless_moving_saves_more_than_the_change():
    """GPU b becomes available in the second quarter at 90 % of the price of a."""
    question = Question(
        units=tuple(Unit(service=0, gpu=gpu, gpus=1, capacity=0.5) for gpu in "ab"),
        needs=(Need(name="x", demand=(1.0, 1.0), regions=("r",)),),
        stocks=(
            stock("a", available=(4, 4), held=2),
            stock("b", available=(0, 4), usd_per_hour=0.9),
        ),
        quarters=2,
    )
    # Moving saves 0.1·2190 h a GPU and costs 0.9 h·k, and a few hours of buying and releasing.
    for hours, stays in ((100.0, False), (200.0, False), (260.0, True)):
        found = optimise(replace(question, change_cost_hours=hours))
        assert (found.held[0, 1] == 2) is stays, hours


@pytest.mark.parametrize(("term", "held"), [(1, 1), (2, 2)])
def test_what_is_bought_stays_for_its_term(term, held):
    question = Question(
        units=(Unit(service=0, gpu="a", gpus=1, capacity=0.5),),
        needs=(Need(name="x", demand=(1.0, 0.4), regions=("r",)),),
        stocks=(stock("a", available=(4, 4), term_quarters=term),),
        quarters=2,
    )
    agree(question)
    assert optimise(question).held[0, 1] == held


@pytest.mark.parametrize(("once", "held"), [(0.0, 1), (1000.0, 1), (1200.0, 2)])
def test_what_is_needed_again_is_kept_once_changing_costs_more(once, held):
    """A quarter of one GPU is 2,190 $; giving it back and buying it again costs twice `once`."""
    question = Question(
        units=(Unit(service=0, gpu="a", gpus=1, capacity=0.5),),
        needs=(Need(name="x", demand=(1.0, 0.4, 1.0), regions=("r",)),),
        stocks=(stock("a", available=(4, 4, 4), held=2, buy_usd=once, release_usd=once),),
        quarters=3,
    )
    found = optimise(question)
    assert found.held[0, 1] == held
    paid = [one_off_usd(question, found, quarter) for quarter in range(3)]
    assert paid == ([0.0, once, once] if held == 1 else [0.0, 0.0, 0.0])
    assert usd(question, found) == pytest.approx((4 + held) * QUARTER_HOURS + sum(paid))
