"""What `planner fleet` is asked: `fleet.yaml` after validation (`schemas/fleet.schema.json`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from planner.spec.slo import Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """One GPU type in one region: what is there, what can be had, at which price.

    `available` has one entry for each quarter and includes what is held. `committed` are paid for
    through all quarters; what is bought must be kept for `term_quarters`. Getting or giving back
    one GPU costs `buy_usd` or `release_usd` once.
    """

    gpu: str  # catalogue id
    region: str
    held: int
    committed: int
    available: tuple[int, ...]
    usd_per_hour: float
    price_source: str  # "fleet.yaml", or the catalogue's source and date
    term_quarters: int
    buy_usd: float = 0.0
    release_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Declared growth of demand in a quarter: 0.15 is 15 %; the band is None where not declared."""

    expected: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One earlier measurement: a rate at a date, or a log to take both from."""

    date: date | None
    requests_per_s: float | None
    trace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A change of demand from a date on: a factor, or requests/s that are added."""

    name: str
    date: date
    factor: float
    requests_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service: what it promises, what it is asked today, how that will grow."""

    name: str
    slo: Slo
    slo_file: str
    traffic: tuple[str, ...]
    gpus: tuple[str, ...]  # catalogue ids
    regions: tuple[str, ...]
    survives: str  # "replica" or "region"
    growth: Growth | None
    history: tuple[Past, ...]
    launches: tuple[Launch, ...]
    starts: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A whole fleet.yaml. `budget_usd_per_month` has one entry a quarter; None: no limit.

    `change_cost_hours` is what starting a replica counts as, in hours of its GPUs' price.
    """

    start: date
    quarters: int
    confidence: float
    provision_for: str  # "high" or "expected"
    budget_usd_per_month: tuple[float, ...] | None
    change_cost_hours: float
    stocks: tuple[Stock, ...]
    services: tuple[Service, ...]
    file: str

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read besides fleet.yaml itself, sorted; folders and globs are not."""
        named = {
            name
            for service in self.services
            for name in (
                service.slo_file,
                *service.traffic,
                *(past.trace for past in service.history if past.trace is not None),
            )
        }
        return tuple(path for path in map(Path, sorted(named)) if path.is_file())


def quarter_start(start: date, quarter: int) -> date:
    """Return the first day of a quarter: three months each from `start`.

    A day that a month does not have becomes its last one.

    >>> quarter_start(date(2027, 1, 1), 4), quarter_start(date(2026, 11, 30), 1)
    (datetime.date(2028, 1, 1), datetime.date(2027, 2, 28))
    """
    month = start.month - 1 + 3 * quarter
    year, month = start.year + month // 12, month % 12 + 1
    for day in range(start.day, 27, -1):
        try:
            return date(year, month, day)
        except ValueError:
            continue
    return date(year, month, min(start.day, 28))


def quarter_name(start: date, quarter: int) -> str:
    """Name a quarter: by the calendar where it is one of the calendar's, else by its first day.

    >>> quarter_name(date(2027, 1, 1), 1), quarter_name(date(2027, 2, 1), 0)
    ('2027 Q2', 'from 2027-02-01')
    """
    first = quarter_start(start, quarter)
    if first.day == 1 and first.month % 3 == 1:
        return f"{first.year} Q{(first.month + 2) // 3}"
    return f"from {first.isoformat()}"
