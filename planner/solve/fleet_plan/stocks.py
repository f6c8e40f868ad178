"""What stands out in a plan's stocks: GPUs that run out, and GPUs bought back after a release."""

from __future__ import annotations

from collections.abc import Sequence

from planner.solve.fleet_plan.plan import BoughtBack, Exhausted, Quarter
from planner.solve.fleet_plan.question import MONTHS
from planner.spec.fleet import Stock
from planner.units import HOURS_PER_MONTH


def exhausted(quarters: Sequence[Quarter]) -> tuple[Exhausted, ...]:
    """Return the stocks of which some quarter holds all that can be had."""
    rows = []
    for course in zip(*(quarter.stocks for quarter in quarters), strict=True):
        names = tuple(
            quarter.name
            for quarter, stock in zip(quarters, course, strict=True)
            if stock.held and stock.held >= stock.available
        )
        if names:
            rows.append(Exhausted(gpu=course[0].gpu, region=course[0].region, quarters=names))
    return tuple(rows)


def bought_back(quarters: Sequence[Quarter], stocks: Sequence[Stock]) -> tuple[BoughtBack, ...]:
    """Return what is released in one quarter and bought again later, the last released first.

    Parameters
    ----------
    quarters
        Of the plan, in order.
    stocks
        Declared, in the order of every quarter's.
    """
    rows = []
    for index, stock in enumerate(stocks):
        released: list[tuple[int, int]] = []  # (quarter, GPUs not bought back yet)
        for at, quarter in enumerate(quarters):
            wanted = quarter.stocks[index].buy
            while wanted and released:
                since, there = released.pop()
                count = min(wanted, there)
                wanted -= count
                if there > count:
                    released.append((since, there - count))
                rows.append(_bought_back(quarters, stock, since, at, count))
            if quarter.stocks[index].release:
                released.append((at, quarter.stocks[index].release))
    return tuple(rows)


def _bought_back(
    quarters: Sequence[Quarter], stock: Stock, since: int, at: int, count: int
) -> BoughtBack:
    return BoughtBack(
        gpu=stock.gpu,
        region=stock.region,
        released_in=quarters[since].name,
        bought_in=quarters[at].name,
        gpus=count,
        usd_to_keep=count * stock.usd_per_hour * HOURS_PER_MONTH * MONTHS * (at - since),
        usd_saved=count * (stock.buy_usd + stock.release_usd),
    )
