"""Point at a row: file, line and the values that matter, never the prompt beside them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from planner.ingest import duck
from planner.ingest.format import Format
from planner.ingest.sniff import Source, open_bytes
from planner.ingest.sql import mapped_rows

MAX_WALK = 2_000_000  # lines; beyond, a row number must do
MAX_TEXT = 48
SHOWN = ("time", "input_tokens", "output_tokens", "status", "class", "cached_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A row of a file, counted from 0 among the rows that could be read."""

    file: int
    row: int


def show(
    connection: DuckDBPyConnection,
    source: Source,
    fmt: Format,
    row: int,
    bad_lines: frozenset[int] = frozenset(),
) -> str:
    """Write `file:line: time=…, input_tokens=…` for one row."""
    place = where(source, fmt, row, bad_lines)
    return f"{place}: {values(connection, source, fmt, row)}"


def where(source: Source, fmt: Format, row: int, bad_lines: frozenset[int]) -> str:
    """Name a row's place: `file:line`, or `file row n` for Parquet, JSON documents and far rows."""
    line = None
    if source.sample.container in ("csv", "jsonl") and not fmt.records and row < MAX_WALK:
        line = line_of(source, row, bad_lines)
    return f"{source.path}:{line}" if line else f"{source.path} row {row + 1}"


def line_of(source: Source, row: int, bad_lines: frozenset[int]) -> int | None:
    """Find the physical line of a row: blank and unreadable lines are no rows."""
    with open_bytes(source.path, source.gzipped) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        lines = _csv_lines(text, source) if source.delimiter else _lines(text)
        seen = -1
        for line in lines:
            seen += line not in bad_lines
            if seen == row:
                return line
    return None


def _lines(text: io.TextIOWrapper) -> Iterator[int]:
    for number, line in enumerate(text, start=1):
        if line.strip():
            yield number


def _csv_lines(text: io.TextIOWrapper, source: Source) -> Iterator[int]:
    csv.field_size_limit(duck.MAX_LINE_BYTES)
    rows = csv.reader(text, delimiter=source.delimiter)
    start, header = 1, True
    for row in rows:
        if row and not header:
            yield start
        if row:
            header = False
        start = rows.line_num + 1


def values(connection: DuckDBPyConnection, source: Source, fmt: Format, row: int) -> str:
    """Show the canonical values of one row as the log wrote them."""
    names = [name for name in SHOWN if name in fmt.fields]
    columns = ", ".join(f"{duck.identifier('f_' + name)}::VARCHAR" for name in names)
    sql = f"SELECT {columns} FROM ({mapped_rows(source, fmt)}) LIMIT 1 OFFSET {row}"
    found = duck.rows(connection, sql, source.path)
    return render(dict(zip(names, found[0], strict=True))) if found else "cannot be shown"


def render(row: Mapping[str, object]) -> str:
    """Write values as `name=value`; null shows as `none`.

    >>> render({"time": "5", "output_tokens": None})
    'time=5, output_tokens=none'
    """
    return ", ".join(
        f"{name}={'none' if value is None else shorten(str(value))}" for name, value in row.items()
    )


def shorten(text: str) -> str:
    """Cut long text and make control characters visible."""
    clean = "".join(char if char.isprintable() else "·" for char in text)
    return clean if len(clean) <= MAX_TEXT else clean[: MAX_TEXT - 1] + "…"
