"""Warn about values that are legal and still probably a slip: 200 seconds to the first token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from planner.errors import Problem
from planner.spec.document import Document, in_order
from planner.spec.schema import Schema, below, load_schema
from planner.spec.validate import Path, declared_hint, magnitude_hint
from planner.spec.words import number


def implausible(document: Document, schema_name: str) -> list[Problem]:
    """Return warnings: values that are legal but outside their schema's `x-plausible` range."""
    schema = load_schema(schema_name)
    return list(in_order(list(_implausible(document, document.data, schema, schema, ()))))


def _implausible(
    document: Document, data: object, schema: Schema, root: Schema, path: Path
) -> Iterator[Problem]:
    plausible = schema.get("x-plausible")
    if plausible and isinstance(data, (int, float)) and not isinstance(data, bool):
        low, high = plausible.get("min", -math.inf), plausible.get("max", math.inf)
        if not low <= data <= high:
            side = f"above {number(high)}" if data > high else f"below {number(low)}"
            hint = magnitude_hint(data, schema, "maximum") if data > high else ""
            hint = hint or declared_hint(schema, "*") or declared_hint(schema, "maximum")
            yield document.problem(path, f"{number(data)} is unusual ({side})", hint)
    steps: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(data, Mapping):
        steps = iter(data.items())
    elif isinstance(data, list):
        steps = iter(enumerate(data))
    for step, item in steps:
        for sub in below(schema, root, step):
            yield from _implausible(document, item, sub, root, (*path, step))
            break
