"""The one place that talks to DuckDB: connection settings, literals, errors in the user's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection
from numpy.typing import NDArray

from planner.errors import InputError, Problem

# Rows must come back in file order, which breaks ties in arrival time. With more threads DuckDB 2.0
# returns a large file's chunks in an order that changes from run to run, preserve_insertion_order
# or not, and is hardly faster here: one core reads a million rows of CSV in a second.
THREADS = 1
MAX_LINE_BYTES = 16 << 20  # one JSON line: a benchmark run with all its arrays

_FAULTS = (  # what DuckDB says, what it means, what helps
    (
        "maximum line size",
        f"the line is longer than {MAX_LINE_BYTES >> 20} MiB",
        "export the log without prompts and answers, and look for a quote that is never closed",
    ),
    (
        "unicode",
        "holds bytes that are not UTF-8 text",
        "convert it: iconv -f LATIN1 -t UTF-8",
    ),
    (
        "state machine reached an invalid state",
        "line ends are mixed, some CRLF and some LF",
        r"unify them: sed -i 's/\r$//'",
    ),
)

# Text timestamps without an offset count as UTC because the session's zone is UTC.
_MACROS = """
CREATE TEMP MACRO epoch_s(x) AS epoch_us(try_cast(x AS TIMESTAMPTZ)) / 1e6;
CREATE TEMP MACRO num(x) AS try_cast(x AS DOUBLE);
CREATE TEMP MACRO otlp_value(attribute) AS coalesce(
    attribute->>'$.value.intValue', attribute->>'$.value.doubleValue',
    attribute->>'$.value.stringValue');
CREATE TEMP MACRO otlp(attributes, wanted) AS otlp_value(
    list_filter(json_extract(attributes, '$[*]'), lambda a: a->>'$.key' = wanted)[1]);
"""


def connect() -> DuckDBPyConnection:
    """Open a private in-memory database that reads local files and fetches no extension."""
    connection = duckdb.connect(
        config={
            "threads": THREADS,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "true",
        }
    )
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    connection.execute(_MACROS)
    return connection


def rows(connection: DuckDBPyConnection, sql: str, path: str) -> list[tuple[Any, ...]]:
    """Run `sql` over the file `path` and return its rows."""
    with _about(path):
        return connection.execute(sql).fetchall()


def arrays(connection: DuckDBPyConnection, sql: str, path: str) -> dict[str, NDArray[Any]]:
    """Run `sql` over the file `path` and return its columns."""
    with _about(path):
        return connection.execute(sql).fetchnumpy()


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Turn what DuckDB says about a file into an InputError.

    Results are streamed, so that a fault deep in the file shows only as they are fetched.
    """
    try:
        yield
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
        raise  # the query is wrong, not the file
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise InputError(file_problem(path, error)) from None


def file_problem(path: str, error: Exception) -> Problem:
    """Describe a file that DuckDB cannot read to its end."""
    text = str(error)
    first_line = text.splitlines()[0] if text else type(error).__name__
    message, hint = f"the file is damaged or cut: {first_line}", "copy or export it again"
    line = re.search(r"on Line: (\d+)", text)
    for sign, meaning, remedy in _FAULTS:
        if sign in text.casefold():
            message, hint = meaning, remedy
            break
    else:
        line = None
    place = int(line.group(1)) if line else 0
    return Problem(message=message, file=path, line=place, column=min(place, 1), hint=hint)


def literal(value: object) -> str:
    """Write a scalar as an SQL literal; text cannot leave its quotes.

    >>> literal("O'Brien'; DROP TABLE x --")
    "'O''Brien''; DROP TABLE x --'"
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Quote a column name."""
    return '"' + name.replace('"', '""') + '"'


def file_literal(path: str) -> str:
    """Quote a path for a table function, with DuckDB's own glob characters switched off.

    >>> file_literal("a[1]*.csv")
    "'a[[]1][*].csv'"
    """
    return literal("".join(f"[{char}]" if char in "*?[" else char for char in path))
