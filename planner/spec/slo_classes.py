"""The classes and targets of an slo.yaml as declared, with their places, and what contradicts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from planner.errors import Problem
from planner.spec.document import Document, dotted
from planner.spec.slo import METRICS, Target, WorkloadClass
from planner.spec.words import number

Path = tuple[str | int, ...]
_PERCENTILE = re.compile(r"p[5-9][0-9](\.[0-9]{1,2})?")  # the schema's own pattern
ALL = "all"  # name of the one class of a file that declares `slo:` and no `classes:`


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTarget:
    """One target and where it stands."""

    metric: str
    percentile: float
    limit_s: float
    label: str  # "p99" or "attainment 0.99"
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredClass:
    """One class and where it stands; only what is well-formed in it."""

    name: str
    path: Path
    match: Mapping[str, object]
    targets: tuple[DeclaredTarget, ...]
    priority: int

    def built(self) -> WorkloadClass:
        """Return the class as the rest of the planner sees it, targets in a fixed order."""
        order = {metric: index for index, metric in enumerate(METRICS)}
        ordered = sorted(self.targets, key=lambda t: (order[t.metric], t.percentile))
        targets = tuple(
            Target(metric=t.metric, percentile=t.percentile, limit_s=t.limit_s) for t in ordered
        )
        return WorkloadClass(
            name=self.name, targets=targets, match=self.match, priority=self.priority
        )


def declared_classes(data: Mapping[str, object]) -> tuple[DeclaredClass, ...]:
    """Return the classes of a file, in order; malformed parts are left out, not guessed."""
    if "classes" not in data:
        return (_declared(ALL, (), data),)
    classes = data["classes"]
    entries: list[tuple[object, str | int, object]] = []
    if isinstance(classes, Mapping):
        entries = [(name, name, entry) for name, entry in classes.items()]
    elif isinstance(classes, list):
        entries = [
            (entry.get("name", ""), index, entry)
            for index, entry in enumerate(classes)
            if isinstance(entry, Mapping)
        ]
    return tuple(
        _declared(str(name), ("classes", step), entry)
        for name, step, entry in entries
        if isinstance(entry, Mapping)
    )


def _declared(name: str, path: Path, entry: Mapping[str, object]) -> DeclaredClass:
    match = entry.get("match", {})
    priority = entry.get("priority", 0)
    return DeclaredClass(
        name=name,
        path=path,
        match=dict(match) if isinstance(match, Mapping) else {},
        targets=tuple(_targets(entry.get("slo"), (*path, "slo"))),
        priority=priority if isinstance(priority, int) else 0,
    )


def _targets(slo: object, path: Path) -> Iterator[DeclaredTarget]:
    for metric in METRICS:
        entry = slo.get(metric) if isinstance(slo, Mapping) else None
        if not isinstance(entry, Mapping):
            continue
        for key, value in entry.items():
            found = _target(key, value, entry)
            if found is not None:
                label, percentile, limit = found
                yield DeclaredTarget(
                    metric=metric,
                    percentile=percentile,
                    limit_s=limit,
                    label=label,
                    path=(*path, metric, key),
                )


def _target(
    key: str, value: object, entry: Mapping[str, object]
) -> tuple[str, float, float] | None:
    """Return (label, percentile, limit) of one entry of a metric, or None if it declares none."""
    amount = _number(value)
    if _PERCENTILE.fullmatch(key) and amount is not None:
        return key, float(key[1:]), amount
    limit = _number(entry.get("limit_s"))
    if key == "attainment" and amount is not None and limit is not None:
        # Percentiles have at most two decimals; 0.999 × 100 is 99.9 only after rounding.
        return f"attainment {number(amount)}", round(amount * 100, 6), limit
    return None


def _number(value: object) -> float | None:
    """Return a finite positive number, or None: what else is wrong is reported elsewhere."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value > 0 else None


def class_problems(
    document: Document, classes: tuple[DeclaredClass, ...], broken: frozenset[str]
) -> Iterator[Problem]:
    """Yield duplicate names, contradictory targets, empty ranges, unreachable classes.

    `broken` holds the dotted paths with problems already: nothing is concluded from those.
    """
    for index, declared in enumerate(classes):
        yield from _contradictions(document, declared, broken)
        yield from _empty_ranges(document, declared)
        twin = next((c for c in classes[:index] if c.name == declared.name and c.name), None)
        if twin is not None and isinstance(
            declared.path[-1], int
        ):  # a mapping's are duplicate keys
            line = document.place((*twin.path, "name"))[0]
            hint = f"first at line {line}; rename or merge"
            path = (*declared.path, "name")
            yield document.problem(path, f"class {declared.name!r} is declared twice", hint)
        earlier = tuple(c for c in classes[:index] if not _match_broken(c, broken))
        if not _match_broken(declared, broken):
            yield from _unreachable(document, declared, earlier)


def _match_broken(declared: DeclaredClass, broken: frozenset[str]) -> bool:
    match = dotted((*declared.path, "match"))
    return any(path == match or path.startswith((f"{match}.", f"{match}[")) for path in broken)


def _contradictions(
    document: Document, declared: DeclaredClass, broken: frozenset[str]
) -> Iterator[Problem]:
    sound = [target for target in declared.targets if dotted(target.path) not in broken]
    for metric in METRICS:
        targets = sorted((t for t in sound if t.metric == metric), key=lambda t: t.percentile)
        for low, high in pairwise(targets):
            if low.percentile == high.percentile:
                message = f"{high.label} and {low.label} are the same target"
                yield document.problem(high.path, message, "remove one", key=True)
            elif high.limit_s < low.limit_s:
                message = (
                    f"{high.label} {number(high.limit_s)} s is below "
                    f"{low.label} {number(low.limit_s)} s"
                )
                hint = "a higher percentile cannot be smaller; swap them or drop one"
                yield document.problem(high.path, message, hint)


def _empty_ranges(document: Document, declared: DeclaredClass) -> Iterator[Problem]:
    for column, condition in declared.match.items():
        if not isinstance(condition, Mapping):
            continue
        low, high = condition.get("min"), condition.get("max")
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
            path = (*declared.path, "match", column)
            message = f"no number is at least {number(low)} and at most {number(high)}"
            yield document.problem(path, message, "swap min and max")


def _unreachable(
    document: Document, declared: DeclaredClass, earlier: tuple[DeclaredClass, ...]
) -> Iterator[Problem]:
    for other in earlier:
        if other.name == declared.name or not covers(other.match, declared.match):
            continue
        reason = "takes every request" if not other.match else "takes all of its requests"
        message = f"class {declared.name!r} gets no request: {other.name!r} above it {reason}"
        hint = "the first match wins; put the narrower class first"
        yield document.problem(declared.path, message, hint, key=True)
        return


def covers(wide: Mapping[str, object], narrow: Mapping[str, object]) -> bool:
    """Tell whether every request that fits `narrow` surely fits `wide`.

    >>> covers({}, {"class": "chat"}), covers({"class": ["chat", "rag"]}, {"class": "chat"})
    (True, True)
    >>> covers({"input_tokens": {"max": 100}}, {"input_tokens": {"min": 10, "max": 50}})
    True
    """
    return all(
        column in narrow and _within(narrow[column], condition)
        for column, condition in wide.items()
    )


def _within(inner: object, outer: object) -> bool:
    if isinstance(outer, Mapping):
        low, high = _bounds(outer)
        if isinstance(inner, Mapping):
            inner_low, inner_high = _bounds(inner)
            return low <= inner_low and inner_high <= high
        return all(isinstance(v, (int, float)) and low <= v <= high for v in _values(inner))
    if isinstance(inner, Mapping):
        return False  # a range has more values than a list; a one-value range is not worth a rule
    return all(value in _values(outer) for value in _values(inner))


def _values(condition: object) -> list[object]:
    return condition if isinstance(condition, list) else [condition]


def _bounds(condition: Mapping[str, object]) -> tuple[float, float]:
    low, high = condition.get("min", -math.inf), condition.get("max", math.inf)
    return (
        float(low) if isinstance(low, (int, float)) else math.nan,  # NaN compares false: no claim
        float(high) if isinstance(high, (int, float)) else math.nan,
    )


def class_warnings(
    document: Document, classes: tuple[DeclaredClass, ...], min_requests: int
) -> Iterator[Problem]:
    """Yield targets that can never bind, and percentiles that too few requests would decide."""
    for declared in classes:
        for target in declared.targets:
            yield from _too_few(document, target, min_requests)
            if target.metric == "ttft_s":
                yield from _never_binds(document, target, declared.targets)


def _too_few(document: Document, target: DeclaredTarget, min_requests: int) -> Iterator[Problem]:
    beyond = min_requests * (100 - target.percentile) / 100
    if target.metric != "itl_s" and beyond < 5 - 1e-9:  # ITL counts tokens, of which there are many
        needed = math.ceil(1000 / (100 - target.percentile) - 1e-6)
        message = (
            f"{target.label} of {min_requests} requests (min_requests_per_window) rests on the "
            f"{number(round(beyond, 2))} slowest"
        )
        hint = f"min_requests_per_window: {needed} rests it on 10"
        yield document.problem(target.path, message, hint, key=True)


def _never_binds(
    document: Document, ttft: DeclaredTarget, targets: tuple[DeclaredTarget, ...]
) -> Iterator[Problem]:
    for other in targets:
        tighter = other.percentile >= ttft.percentile and other.limit_s <= ttft.limit_s
        if other.metric == "e2e_s" and tighter:
            message = (
                f"{ttft.metric} {ttft.label} {number(ttft.limit_s)} s can never bind: "
                f"{other.metric} {other.label} is {number(other.limit_s)} s"
            )
            yield document.problem(ttft.path, message, "E2E includes TTFT")
            return
