"""Which workload class does a request belong to? The first class whose conditions hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.errors import InputError, Problem
from planner.ingest.duck import literal
from planner.ingest.judge import TEXT_COLUMNS
from planner.spec.slo import WorkloadClass
from planner.text import visible

NUMBER_COLUMNS = {
    "input_tokens": "input_tokens_v",
    "output_tokens": "output_tokens_v",
    "cached_tokens": "cached_tokens_v",
    "ttft_s": "ttft_s",
    "e2e_s": "e2e_s",
}
MATCHABLE = (*TEXT_COLUMNS, *NUMBER_COLUMNS)
RANGE_KEYS = {"min": ">=", "max": "<="}
MAX_CLASSES = 20  # more values than this in a class column are labels, not classes
UNCLASSIFIED = "unclassified"
ALL = "all"
NOT_IN_TRACE = "the trace has no such column"
SHOWN_COLUMNS = 12
ONE_CLASS = "all requests form one class"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Class names and the SQL that numbers them (-1: none)."""

    names: tuple[str, ...]
    case: str = "0"
    assumptions: tuple[str, ...] = ()


def declared(
    classes: Sequence[WorkloadClass], present: frozenset[str], columns: Sequence[str] = ()
) -> Assignment:
    """Assign numbers to the declared classes.

    Parameters
    ----------
    classes
        As declared.
    present
        The columns that the trace has, by the names that a class can be matched on.
    columns
        The columns of the file under its own names, for messages.

    Raises
    ------
    InputError
        A class is matched on a column that the trace lacks, or by a condition that cannot be read.
    """
    problems: list[Problem] = []
    whens = []
    for index, workload in enumerate(classes):
        try:
            whens.append(f"WHEN {condition(workload, present)} THEN {index}")
        except InputError as error:
            problems.extend(_with_columns(problem, columns) for problem in error.problems)
    if problems:
        raise InputError(problems)
    names = tuple(workload.name for workload in classes)
    if len(classes) == 1 and not classes[0].match:
        return Assignment(names=names)
    return Assignment(names=names, case=f"CASE {' '.join(whens)} ELSE -1 END")


def _with_columns(problem: Problem, columns: Sequence[str]) -> Problem:
    """Return a problem of a missing column with the file's own columns in the hint."""
    if problem.message != NOT_IN_TRACE or not columns:
        return problem
    shown = ", ".join(visible(column) for column in columns[:SHOWN_COLUMNS])
    more = f" and {len(columns) - SHOWN_COLUMNS} more" if len(columns) > SHOWN_COLUMNS else ""
    hint = f"{problem.hint}; the file's own columns are {shown}{more}: rename the one you mean"
    return replace(problem, hint=hint)


def from_column(values: Sequence[str | None]) -> Assignment:
    """Take the values of the trace's own class column as classes, in alphabetical order."""
    names = sorted(value for value in values if value is not None)
    if not names:
        return Assignment(names=(ALL,), assumptions=(ONE_CLASS,))
    if len(names) > MAX_CLASSES:
        note = f"the class column has more than {MAX_CLASSES} values and is ignored"
        return Assignment(names=(ALL,), assumptions=(note, ONE_CLASS))
    whens = " ".join(f'WHEN "class" = {literal(name)} THEN {i}' for i, name in enumerate(names))
    blank = None in values
    names = [visible(name) for name in names]
    notes = [f"classes are the values of the trace's class column: {', '.join(names)}"]
    if blank:
        names.append(UNCLASSIFIED if UNCLASSIFIED not in names else f"{UNCLASSIFIED} (no value)")
        notes.append(f"requests without a class form the class {names[-1]}")
    if len(names) == 1:
        return Assignment(names=tuple(names), assumptions=tuple(notes))
    return Assignment(
        names=tuple(names),
        case=f"CASE {whens} ELSE {len(names) - 1 if blank else -1} END",
        assumptions=tuple(notes),
    )


def condition(workload: WorkloadClass, present: frozenset[str]) -> str:
    """Write a class's conditions as SQL; values are literals and cannot leave their quotes."""
    terms = [_term(workload.name, *item, present) for item in workload.match.items()]
    return " AND ".join(f"coalesce({term}, false)" for term in terms) or "true"


def describe(match: Mapping[str, object]) -> str:
    """Show conditions as the user wrote them.

    >>> describe({"tenant": ["a", "b"], "input_tokens": {"min": 5}})
    'tenant: [a, b], input_tokens: {min: 5}'
    """
    return ", ".join(f"{column}: {_show(value)}" for column, value in match.items())


def _show(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {item}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def _term(name: str, column: str, wanted: object, present: frozenset[str]) -> str:
    if column not in MATCHABLE:
        raise _wrong(name, column, "no such column", f"match on {', '.join(MATCHABLE)}")
    if column not in present:
        here = ", ".join(item for item in MATCHABLE if item in present)
        raise _wrong(name, column, NOT_IN_TRACE, f"classes can be matched on {here} here")
    if isinstance(wanted, Mapping):
        return _range(name, column, wanted)
    values = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    if not values:
        raise _wrong(name, column, "an empty list matches nothing", "list at least one value")
    if column in NUMBER_COLUMNS:
        for value in values:
            _number(name, column, value)
        return f"{NUMBER_COLUMNS[column]} IN ({', '.join(literal(value) for value in values)})"
    return f'"{column}" IN ({", ".join(literal(_as_text(value)) for value in values)})'


def _as_text(value: object) -> str:
    return str(value).casefold() if isinstance(value, bool) else str(value)


def _range(name: str, column: str, wanted: Mapping[str, object]) -> str:
    unknown = [key for key in wanted if key not in RANGE_KEYS]
    if unknown or not wanted:
        raise _wrong(name, column, "a range has min, max or both", "write {min: 100, max: 2000}")
    if column not in NUMBER_COLUMNS:
        raise _wrong(name, column, "is text and has no range", "name one value or a list")
    return " AND ".join(
        f"{NUMBER_COLUMNS[column]} {RANGE_KEYS[key]} {literal(_number(name, column, value))}"
        for key, value in wanted.items()
    )


def _number(name: str, column: str, value: object) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(name, column, f"{value!r} is not a number", "give a finite number")
    return value


def _wrong(name: str, column: str, message: str, hint: str) -> InputError:
    return InputError(Problem(message=message, path=f"class {name}: match.{column}", hint=hint))
