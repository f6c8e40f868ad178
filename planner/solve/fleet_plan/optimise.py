"""The cheapest fleet over all quarters as a mixed-integer programme (scipy's HiGHS).

Variables: replicas n of every unit in every region and quarter, and u that are started; a switch y
whether a unit is used in a quarter; GPUs held H, bought B and released R of every stock and quarter
(what each costs once, and an hour's price, so that none is without reason). With c a unit's
capacity, k its GPUs, d a demand and s the spares:

    minimise   Σ price·(hours of a quarter)·H + (once + price)·B + (once + price)·R
                 + price·k·(hours of a change)·u
    load       Σ c·n ≥ d + s·cᵤ·yᵤ           with s replicas of any used unit u lost
    switch     n ≤ N·y                        N is what could ever be needed of it alone
    region     Σ c·n outside a region ≥ d     where the service survives a region
    stock      Σ k·n ≤ H ≤ available
    start      u ≥ n − n of the quarter before  replicas started after the first quarter
    account    H − H of the quarter before = B − R
    term       H ≥ committed + B of the quarters whose term still runs
    budget     Σ price·730·H ≤ budget
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from planner.solve.fleet_plan.question import MONTHS, Answer, Need, Question, Unit
from planner.units import HOURS_PER_MONTH

GAP = 1e-6  # relative, at which an optimum counts as proven
NODE_LIMIT = 2_000  # of the search tree, not seconds: the same answer on any machine
INFEASIBLE = 2  # scipy's status of a problem without a solution
TOLERANCE = 1e-7  # of a load, against rounding in the solver

K = TypeVar("K")
RELAXABLE = ("inventory", "budget", "redundancy", "demand")


@dataclass(slots=True)
class _Model:
    """Variables and rows while they are put together."""

    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def variable(self, cost: float = 0.0, upper: float = math.inf, *, whole: bool = True) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(int(whole))
        return len(self.cost) - 1

    def row(
        self, terms: Iterable[tuple[int, float]], *, low: float = -math.inf, high: float = math.inf
    ) -> None:
        self.entries += [(len(self.low), column, value) for column, value in terms]
        self.low.append(low)
        self.high.append(high)


class _Columns:
    """Where every variable stands, and the rows that tie them together."""

    def __init__(self, question: Question, relaxed: frozenset[str]) -> None:
        self.question = question
        self.relaxed = relaxed
        self.model = _Model()
        # Where something is relaxed, how much is all that counts.
        self.priced = 1.0 if relaxed <= {"redundancy"} else 0.0
        self.quarters = range(question.quarters)
        self.held: dict[tuple[int, int], int] = {}
        self.bought: dict[tuple[int, int], int] = {}
        self.released: dict[tuple[int, int], int] = {}
        self.extra: dict[tuple[int, int], int] = {}
        self.over: dict[int, int] = {}
        self.replicas: dict[tuple[int, str, int], int] = {}
        self.share = self._share()
        self._stocks()
        self._budget()
        self._replicas()
        for index, need in enumerate(question.needs):
            for quarter in self.quarters:
                self._need(index, need, quarter)

    def _share(self) -> int | None:
        if "demand" not in self.relaxed:
            return None
        return self.model.variable(cost=-1.0, upper=1.0, whole=False)

    def _stocks(self) -> None:
        model = self.model
        both = {"inventory", "budget"} <= self.relaxed
        for index, stock in enumerate(self.question.stocks):
            hours = HOURS_PER_MONTH * MONTHS
            for quarter in self.quarters:
                price = self.priced * stock.usd_per_hour
                key = (index, quarter)
                self.held[key] = model.variable(price * hours)
                self.bought[key] = model.variable(price + self.priced * stock.buy_usd)
                self.released[key] = model.variable(price + self.priced * stock.release_usd)
                terms = [(self.held[key], 1.0)]
                if "inventory" in self.relaxed:
                    # Beside dollars of the budget, a GPU counts as what it costs a month.
                    weight = stock.usd_per_hour * HOURS_PER_MONTH if both else 1.0
                    self.extra[key] = model.variable(weight)
                    terms.append((self.extra[key], -1.0))
                model.row(terms, high=float(stock.available[quarter]))
                self._account(index, quarter)

    def _account(self, index: int, quarter: int) -> None:
        """Tie what is held to the quarter before, and to contracts that still run."""
        stock, key = self.question.stocks[index], (index, quarter)
        change = [(self.held[key], 1.0), (self.bought[key], -1.0), (self.released[key], 1.0)]
        before = float(stock.held)
        if quarter:
            change.append((self.held[index, quarter - 1], -1.0))
            before = 0.0
        self.model.row(change, low=before, high=before)
        first = max(0, quarter - stock.term_quarters + 1)
        running = [(self.bought[index, q], -1.0) for q in range(first, quarter + 1)]
        self.model.row([(self.held[key], 1.0), *running], low=float(stock.committed))

    def _budget(self) -> None:
        budget = self.question.budget_usd_per_month
        if budget is None:
            return
        for quarter in self.quarters:
            terms = [
                (self.held[index, quarter], stock.usd_per_hour * HOURS_PER_MONTH)
                for index, stock in enumerate(self.question.stocks)
            ]
            if "budget" in self.relaxed:
                self.over[quarter] = self.model.variable(1.0, whole=False)
                terms.append((self.over[quarter], -1.0))
            self.model.row(terms, high=budget[quarter])

    def _replicas(self) -> None:
        """Add replicas wherever their GPUs are, and keep them within what is held."""
        for index, stock in enumerate(self.question.stocks):
            for quarter in self.quarters:
                used = [(self.held[index, quarter], -1.0)]
                for number, unit in self._units_on(stock.gpu, stock.region):
                    key = (number, stock.region, quarter)
                    self.replicas[key] = self.model.variable()
                    self._start(key, stock.usd_per_hour * unit.gpus)
                    used.append((self.replicas[key], float(unit.gpus)))
                self.model.row(used, high=0.0)

    def _start(self, key: tuple[int, str, int], usd_per_hour: float) -> None:
        """Charge for replicas that were not there in the quarter before."""
        unit, region, quarter = key
        before = self.replicas.get((unit, region, quarter - 1))
        if before is None or not self.question.change_cost_hours:
            return
        cost = self.priced * usd_per_hour * self.question.change_cost_hours
        started = self.model.variable(cost, whole=False)
        terms = [(started, 1.0), (self.replicas[key], -1.0), (before, 1.0)]
        self.model.row(terms, low=0.0)

    def _units_on(self, gpu: str, region: str) -> Iterator[tuple[int, Unit]]:
        for number, unit in enumerate(self.question.units):
            if unit.gpu == gpu and region in self.question.needs[unit.service].regions:
                yield number, unit

    def _need(self, index: int, need: Need, quarter: int) -> None:
        demand = need.demand[quarter]
        if demand <= 0.0:
            return
        mine = [
            (key, column)
            for key, column in self.replicas.items()
            if key[2] == quarter and self.question.units[key[0]].service == index
        ]
        self._at_least([(column, self._capacity(key)) for key, column in mine], demand)
        if "redundancy" in self.relaxed:
            return
        if need.spares:
            self._spares(need, mine, demand)
        if need.survives_region:
            for region in sorted({key[1] for key, _ in mine}):
                left = [(column, self._capacity(key)) for key, column in mine if key[1] != region]
                self._at_least(left, demand)

    def _capacity(self, key: tuple[int, str, int]) -> float:
        return self.question.units[key[0]].capacity

    def _at_least(self, terms: list[tuple[int, float]], demand: float) -> None:
        if self.share is None:
            self.model.row(terms, low=demand * (1.0 - TOLERANCE))
        else:
            self.model.row([*terms, (self.share, -demand)], low=-demand * TOLERANCE)

    def _spares(
        self, need: Need, mine: list[tuple[tuple[int, str, int], int]], demand: float
    ) -> None:
        """Carry the demand with `spares` replicas of any used unit lost."""
        terms = [(column, self._capacity(key)) for key, column in mine]
        for number in sorted({key[0] for key, _ in mine}):
            unit = self.question.units[number]
            own = [column for key, column in mine if key[0] == number]
            most = math.ceil(demand / unit.capacity) + need.spares
            most *= 2 if need.survives_region else 1
            used = self.model.variable(upper=1.0)
            self.model.row([*((column, 1.0) for column in own), (used, -float(most))], high=0.0)
            self._at_least([*terms, (used, -need.spares * unit.capacity)], demand)


def optimise(question: Question, relaxed: Iterable[str] = ()) -> Answer | None:
    """Return the cheapest fleet that meets every need, None where none does.

    Small problems are solved to the proven optimum. Beyond NODE_LIMIT the best fleet found stands,
    and `Answer.gap` says how far from the optimum it can be at most.

    Parameters
    ----------
    question
        Needs, units, stocks and budget.
    relaxed
        Constraints that may be broken, of RELAXABLE: then the fleet that breaks them least is
        returned, whatever it costs ("redundancy" is dropped instead and the cost counts).

    Raises
    ------
    RuntimeError
        The solver fails, or finds nothing within its limit.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    columns = _Columns(question, frozenset(relaxed))
    model = columns.model
    rows, cols, values = (np.array(part) for part in zip(*model.entries, strict=True))
    shape = (len(model.low), len(model.cost))
    matrix = coo_array((values, (rows, cols)), shape=shape).tocsr()
    with _silent_stdout():
        result = milp(
            c=np.array(model.cost),
            integrality=np.array(model.integer),
            bounds=Bounds(0.0, np.array(model.upper)),
            constraints=LinearConstraint(matrix, np.array(model.low), np.array(model.high)),
            options={"mip_rel_gap": GAP, "node_limit": NODE_LIMIT},
        )
    if result.status == INFEASIBLE:
        return None
    if result.x is None:
        raise RuntimeError(f"the optimiser found nothing: {result.message}")
    return _answer(columns, result.x, float(result.fun), float(result.mip_gap or 0.0))


@contextmanager
def _silent_stdout() -> Iterator[None]:
    """Keep what the solver's own code prints, whatever its options say, out of our output."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _answer(
    columns: _Columns, x: np.ndarray[tuple[int, ...], np.dtype[np.float64]], cost: float, gap: float
) -> Answer:
    def whole(places: dict[K, int]) -> dict[K, int]:
        return {key: round(float(x[column])) for key, column in places.items()}

    return Answer(
        replicas={key: n for key, n in whole(columns.replicas).items() if n},
        held=whole(columns.held),
        bought=whole(columns.bought),
        released=whole(columns.released),
        extra={key: n for key, n in whole(columns.extra).items() if n},
        over={q: float(x[column]) for q, column in columns.over.items()},
        share=1.0 if columns.share is None else float(x[columns.share]),
        objective=cost,
        gap=gap,
    )
