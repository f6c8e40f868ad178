"""Read a recipe file and report everything wrong with it, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from planner.errors import Problem
from planner.spec.kinds import refuse_other_kind
from planner.spec.load import Document, raise_for, scan_document
from planner.spec.validate import validate
from planner.synth.generate import MAX_ROWS, MAX_SESSIONS, expected_size
from planner.synth.recipe import Recipe, recipe_from_dict

FIRST_YEAR, LAST_YEAR = 2000, 2098  # what the planner takes for a date of a log


def load_recipe(path: Path) -> Recipe:
    """Return the recipe in `path`.

    Raises
    ------
    InputError
        The file cannot be read, breaks `schemas/synth.schema.json`, or contradicts itself.
    """
    document = scan_document(path)
    refuse_other_kind(document, "synth")
    problems = validate(document, "synth")
    if not problems:
        problems = list(_contradictions(document))
    raise_for(problems)
    data = document.data
    assert isinstance(data, Mapping)  # the schema says so
    recipe = recipe_from_dict(data)
    raise_for(list(_too_large(document, recipe)))
    return recipe


def _too_large(document: Document, recipe: Recipe) -> Iterator[Problem]:
    """Yield what would not fit into memory, before anything is drawn."""
    sessions, rows = expected_size(recipe)
    for amount, most, what, hint in (
        (
            sessions,
            MAX_SESSIONS,
            "sessions before the sample is taken",
            "lower requests_per_s and raise sample_rate by the same factor",
        ),
        (rows, MAX_ROWS, "rows", "lower sample_rate or requests_per_s"),
    ):
        if amount > most:
            message = f"the recipe asks for {amount:,.3g} {what}, at most {most:,.0f} are possible"
            yield document.problem(("duration_s",), message, hint)


def _contradictions(document: Document) -> Iterator[Problem]:
    """Yield what the schema cannot say."""
    data = document.data
    assert isinstance(data, Mapping)
    start = _instant(data["start"])
    if start is None:
        yield document.problem(("start",), "no such date or time")
    elif not FIRST_YEAR <= start.year <= LAST_YEAR:
        yield document.problem(("start",), f"lies outside the years {FIRST_YEAR} to {LAST_YEAR}")
    for name, item in data["classes"].items():
        yield from _class_problems(document, name, item)
    for index, incident in enumerate(data.get("incidents", ())):
        yield from _incident_problems(document, index, incident, start)


def _class_problems(document: Document, name: str, item: Mapping[str, Any]) -> Iterator[Problem]:
    at = ("classes", name)
    for weights in ("hour_of_day_weights", "day_of_week_weights"):
        if not any(item["arrivals"][weights]):
            yield document.problem((*at, "arrivals", weights), "every weight is zero")
    laws = ((("sessions", "think"), "s"), (("prompt", "turn"), "tokens"), (("output",), "tokens"))
    for where, unit in laws:
        law = item
        for step in where:
            law = law[step]
        low, high = law.get(f"min_{unit}", 0), law.get(f"max_{unit}", float("inf"))
        if low > high:
            yield document.problem(
                (*at, *where, f"max_{unit}"), f"{high} is below min_{unit}, {low}"
            )
    turns_mean, turns_max = item["sessions"]["turns_mean"], item["sessions"]["turns_max"]
    if turns_mean > turns_max:
        message = f"{turns_mean} on average is more than the longest session, {turns_max}"
        yield document.problem(
            (*at, "sessions", "turns_mean"), message, "lower it or raise turns_max"
        )
    prompt = item["prompt"]
    if prompt["fixed_tokens"] >= prompt["context_max_tokens"]:
        yield document.problem(
            (*at, "prompt", "context_max_tokens"),
            f"leaves no room beside fixed_tokens, {prompt['fixed_tokens']}",
        )


def _incident_problems(
    document: Document, index: int, incident: Mapping[str, Any], start: datetime | None
) -> Iterator[Problem]:
    at = ("incidents", index)
    begins = _instant(incident["start"])
    if begins is None:
        yield document.problem((*at, "start"), "no such date or time")
    elif start is not None:
        data = document.data
        assert isinstance(data, Mapping)
        offset = (begins - start).total_seconds()
        if not 0.0 <= offset < float(data["duration_s"]):
            yield document.problem((*at, "start"), "lies outside the log")
    for k, name in enumerate(incident.get("classes", ())):
        data = document.data
        assert isinstance(data, Mapping)
        if name not in data["classes"]:
            known = ", ".join(data["classes"])
            yield document.problem((*at, "classes", k), f"no class {name!r}", f"one of {known}")


def _instant(text: object) -> datetime | None:
    """Return the instant in ISO 8601, None where the calendar has no such day or time.

    Examples
    --------
    >>> _instant("2026-02-30T00:00:00Z") is None
    True
    """
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
