"""A stray quote in a CSV swallows the lines after it: how many requests are gone is unknown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from duckdb import DuckDBPyConnection
from numpy.typing import NDArray

from planner.errors import InputError, Problem
from planner.ingest import duck, reasons
from planner.ingest.examples import line_of
from planner.ingest.format import Format
from planner.ingest.sniff import Source
from planner.ingest.sql import mapped_rows

# What a number becomes when a line end has slipped into it.
SUSPECT = (
    reasons.TIME_UNPARSABLE,
    reasons.INPUT_BASE + reasons.NOT_A_NUMBER,
    reasons.OUTPUT_BASE + reasons.NOT_A_NUMBER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A line that never became a row."""

    line: int
    code: int
    text: str


def refuse_swallowed_lines(
    connection: DuckDBPyConnection,
    source: Source,
    fmt: Format,
    reject: NDArray[np.uint8],
    unreadable: tuple[Unreadable, ...],
) -> None:
    """Refuse a CSV in which a quote joins several lines to one row that cannot be read.

    A quoted prompt may span lines; a time or a token count may not. Such a row stands for an
    unknown number of requests, so that no count of rejected rows would be true.

    Raises
    ------
    InputError
        Naming the first line of each such row.
    """
    lines = [item.line for item in unreadable if "\n" in item.text or "\r" in item.text]
    if np.isin(reject, SUSPECT).any():
        bad = frozenset(item.line for item in unreadable)
        rows = _rows_over_several_lines(connection, source, fmt)
        lines += [line_of(source, row, bad) or 0 for row in rows]
    if lines:
        raise InputError([_problem(source, line) for line in sorted(set(lines))])


def _rows_over_several_lines(
    connection: DuckDBPyConnection, source: Source, fmt: Format, most: int = 10
) -> list[int]:
    numbers = " || ".join(
        f"coalesce(trim(f_{name}::VARCHAR, ' \r\n'), '')"
        for name in ("time", "input_tokens", "output_tokens")
    )
    sql = (
        f"SELECT row FROM (SELECT row_number() OVER () - 1 AS row, {numbers} AS numbers "
        f"FROM ({mapped_rows(source, fmt)})) WHERE contains(numbers, chr(10)) LIMIT {most}"
    )
    return [int(row[0]) for row in duck.rows(connection, sql, source.path)]


def _problem(source: Source, line: int) -> Problem:
    return Problem(
        message="a quote opens here and the lines after it are swallowed",
        file=source.path,
        line=line,
        column=min(line, 1),
        hint='close the quote, or write it twice ("") if it is part of the text',
    )
