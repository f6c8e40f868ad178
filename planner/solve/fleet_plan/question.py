"""What the optimiser is asked and what it answers: numbers only, no traces and no forecasts."""

from __future__ import annotations

from dataclasses import dataclass

from planner.spec.fleet import Stock
from planner.units import HOURS_PER_MONTH

MONTHS = 3  # of a quarter


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One replica of one service in one configuration: what it takes and what it carries.

    `capacity` is in shares of the service's demand today, headroom already taken off.
    """

    service: int
    gpu: str
    gpus: int
    capacity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one service must be able to carry in every quarter, in shares of its demand today.

    Still with `spares` replicas of any one configuration lost, and, where `survives_region`, with
    any one region lost.
    """

    name: str
    demand: tuple[float, ...]
    regions: tuple[str, ...]
    spares: int = 0
    survives_region: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The whole problem. `budget_usd_per_month` has one entry a quarter; None: no limit.

    Starting a replica after the first quarter counts as `change_cost_hours` of its GPUs' price.
    """

    units: tuple[Unit, ...]
    needs: tuple[Need, ...]
    stocks: tuple[Stock, ...]
    quarters: int
    budget_usd_per_month: tuple[float, ...] | None = None
    change_cost_hours: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An optimal fleet. Replicas by (unit, region, quarter), GPUs by (stock, quarter).

    `extra` and `over` are what had to be relaxed, where that was allowed: GPUs beyond the
    inventory by (stock, quarter), dollars a month beyond the budget by quarter; `share` is the part
    of every demand that is met. `gap` is the proven distance from the optimum.
    """

    replicas: dict[tuple[int, str, int], int]
    held: dict[tuple[int, int], int]
    bought: dict[tuple[int, int], int]
    released: dict[tuple[int, int], int]
    extra: dict[tuple[int, int], int]
    over: dict[int, float]
    share: float
    objective: float
    gap: float


def usd_per_month(question: Question, answer: Answer, quarter: int) -> float:
    """Return what the held GPUs cost a month in one quarter."""
    return HOURS_PER_MONTH * sum(
        stock.usd_per_hour * answer.held[index, quarter]
        for index, stock in enumerate(question.stocks)
    )


def one_off_usd(question: Question, answer: Answer, quarter: int) -> float:
    """Return what buying and releasing GPUs costs once in one quarter."""
    return sum(
        stock.buy_usd * answer.bought[index, quarter]
        + stock.release_usd * answer.released[index, quarter]
        for index, stock in enumerate(question.stocks)
    )


def usd(question: Question, answer: Answer) -> float:
    """Return what a fleet costs over all quarters, one-off costs included."""
    return sum(
        MONTHS * usd_per_month(question, answer, quarter) + one_off_usd(question, answer, quarter)
        for quarter in range(question.quarters)
    )
