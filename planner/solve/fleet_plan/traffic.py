"""What every service is asked today, and when that was measured."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from planner.errors import InputError, Problem
from planner.ingest.load import load_trace
from planner.ingest.requests import Requests
from planner.profile.profile import profile_requests
from planner.profile.types import TraceProfile
from planner.spec.fleet import Fleet, Service
from planner.synth.load import load_recipe
from planner.synth.write import synth

RECIPE_SUFFIXES = (".yaml", ".yml")
DAYS_PER_QUARTER = 365.25 / 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """One service's traffic. `history` are (quarters from the plan's start, requests/s), sorted.

    Its last entry is the traffic itself; `measured` is when that was, and `dated` whether the trace
    says so or the start of the plan stands in for it.
    """

    requests: Requests
    profile: TraceProfile
    requests_per_s: float  # of the whole service
    history: tuple[tuple[float, float], ...]
    measured: float
    dated: bool


def today(fleet: Fleet, service: Service) -> Today:
    """Read a service's traffic and history.

    Raises
    ------
    InputError
        A file cannot be read, a log of the history has no dates, or a measurement of the history
        is of the day of another or not before the traffic itself.
    """
    requests = read_traffic(service)
    rate = mean_rate(requests, service.slo.sample_rate)
    day = _day(requests)
    measured = 0.0 if day is None else quarters_from(fleet.start, day)
    points = [_past(fleet, service, index) for index in range(len(service.history))]
    _refuse_disorder(fleet, service, points, measured, dated=day is not None)
    return Today(
        requests=requests,
        profile=profile_requests(requests),
        requests_per_s=rate,
        history=(*sorted(points), (measured, rate)),
        measured=measured,
        dated=day is not None,
    )


def _refuse_disorder(
    fleet: Fleet,
    service: Service,
    points: list[tuple[float, float]],
    measured: float,
    *,
    dated: bool,
) -> None:
    """Refuse measurements that no trend can take; days of logs are known only here."""
    at = f"services.{service.name}.history"
    last = "the day of the traffic" if dated else "the start of the plan"
    problems = []
    for index, (when, _) in enumerate(points):
        if when >= measured:
            hint = "leave it out, or name the later log under traffic"
            message = f"the measurement is not before {last}"
        elif when in [other for other, _ in points[:index]]:
            hint = "keep one: a trend needs different days"
            message = "there is another measurement of the same day"
        else:
            continue
        problems.append(Problem(message=message, file=fleet.file, path=f"{at}[{index}]", hint=hint))
    if problems:
        raise InputError(problems)


def read_traffic(service: Service) -> Requests:
    """Return a service's requests: of its log, or played from its recipe."""
    classes = service.slo.classes
    if len(service.traffic) == 1 and service.traffic[0].endswith(RECIPE_SUFFIXES):
        recipe = load_recipe(Path(service.traffic[0]))
        if recipe.sample_rate != service.slo.sample_rate:
            raise InputError(
                Problem(
                    message=f"the recipe keeps {recipe.sample_rate:g} of the requests, "
                    f"{service.slo_file} says {service.slo.sample_rate:g}",
                    file=service.traffic[0],
                    path="sample_rate",
                )
            )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "played.parquet"
            synth(recipe, file)
            return load_trace([str(file)], classes=classes).requests
    return load_trace(list(service.traffic), classes=classes).requests


def mean_rate(requests: Requests, sample_rate: float) -> float:
    """Return the mean requests/s of the whole service.

    Raises
    ------
    InputError
        The trace has no length.
    """
    if requests.span_s <= 0.0:
        raise InputError(Problem(message="all requests arrive at once, so there is no rate"))
    return len(requests) / requests.span_s / sample_rate


def quarters_from(start: date, day: date) -> float:
    """Return how many quarters lie between two days; negative before the start.

    >>> quarters_from(date(2027, 1, 1), date(2026, 1, 1))
    -3.997262149212868
    """
    return (day - start).days / DAYS_PER_QUARTER


def _past(fleet: Fleet, service: Service, index: int) -> tuple[float, float]:
    past = service.history[index]
    if past.trace is None:
        assert past.date is not None
        assert past.requests_per_s is not None
        return quarters_from(fleet.start, past.date), past.requests_per_s
    requests = load_trace([past.trace]).requests
    day = past.date or _day(requests)
    if day is None:
        message = "the log has no dates"
        raise InputError(
            Problem(
                message=message,
                file=past.trace,
                path=f"services.{service.name}.history[{index}]",
                hint="add its date",
            )
        )
    rate = mean_rate(requests, service.slo.sample_rate)
    return quarters_from(fleet.start, day), rate


def _day(requests: Requests) -> date | None:
    return datetime.fromisoformat(requests.origin).date() if requests.origin else None
