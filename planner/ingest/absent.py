"""Why does a declared class have no requests? Look at what the trace holds instead."""

from __future__ import annotations

from collections.abc import Sequence

from duckdb import DuckDBPyConnection

from planner.errors import InputError, Problem
from planner.ingest import duck
from planner.ingest.classes import NUMBER_COLUMNS, condition, describe
from planner.ingest.judge import parsed_rows
from planner.ingest.read import load_document
from planner.ingest.sql import mapped_rows
from planner.ingest.table import Table
from planner.spec.slo import WorkloadClass

SHOWN_VALUES = 8


def check_every_class(
    connection: DuckDBPyConnection,
    table: Table,
    classes: Sequence[WorkloadClass],
    per_class: Sequence[int],
) -> None:
    """Refuse declared classes that no usable request belongs to.

    Raises
    ------
    InputError
        Naming every empty class, its conditions, and what the trace holds in those columns.
    """
    empty = [index for index, count in enumerate(per_class) if not count and index < len(classes)]
    problems = []
    for index in empty:
        workload = classes[index]
        wanted = describe(workload.match) or "everything that earlier classes leave"
        problems.append(
            Problem(
                message=f"no request matches {wanted}; {_instead(connection, table, workload)}",
                path=f"class {workload.name}",
                hint="correct its match, put it before the class that takes its requests, or "
                "remove it",
            )
        )
    if problems:
        raise InputError(problems)


def _instead(connection: DuckDBPyConnection, table: Table, workload: WorkloadClass) -> str:
    present = frozenset.intersection(*(frozenset(own) for own in table.types))
    shadowed = _count(connection, table, condition(workload, present))
    if shadowed:
        return f"{shadowed:,} rows would, but they are unusable or belong to an earlier class"
    return "; ".join(_holds(connection, table, column) for column in workload.match)


def _count(connection: DuckDBPyConnection, table: Table, where: str) -> int:
    return sum(int(str(row[0])) for row in _select(connection, table, "count(*)", f"WHERE {where}"))


def _holds(connection: DuckDBPyConnection, table: Table, column: str) -> str:
    if column in NUMBER_COLUMNS:
        value = NUMBER_COLUMNS[column]
        rows = _select(connection, table, f"min({value}), max({value})", "")
        low = min((row[0] for row in rows if row[0] is not None), default=None)
        high = max((row[1] for row in rows if row[1] is not None), default=None)
        if low is None:
            return f"{column} is empty in this trace"
        return f"{column} runs from {low:,.6g} to {high:,.6g}"
    counts: dict[str, int] = {}
    for text, count in _select(connection, table, f'"{column}", count(*)', "GROUP BY 1"):
        name = "(none)" if text is None else str(text)
        counts[name] = counts.get(name, 0) + int(str(count))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({count:,})" for name, count in ranked[:SHOWN_VALUES])
    more = f" and {len(ranked) - SHOWN_VALUES} more" if len(ranked) > SHOWN_VALUES else ""
    return f"{column} has {shown}{more}"


def _select(
    connection: DuckDBPyConnection, table: Table, columns: str, rest: str
) -> list[tuple[float | str | None, ...]]:
    rows: list[tuple[float | str | None, ...]] = []
    for source, fmt, types in zip(table.sources, table.formats, table.types, strict=True):
        if source.sample.container == "json":
            load_document(connection, source)
        parsed = parsed_rows(mapped_rows(source, fmt), types, table.judgement)
        sql = f"SELECT {columns} FROM ({parsed}) {rest}"
        rows += duck.rows(connection, sql, source.path)
    return rows
