"""The one place that talks to DuckDB: connection settings, literals, errors in the user's terms."""

from __future__ import annotations

import re

import duckdb
from duckdb import DuckDBPyConnection

from planner.errors import InputError, Problem

# Rows must come back in file order, which breaks ties in arrival time. With more threads DuckDB 2.0
# returns a large file's chunks in an order that changes from run to run, preserve_insertion_order
# or not, and is hardly faster here: one core reads a million rows of CSV in a second.
THREADS = 1
MAX_LINE_BYTES = 16 << 20  # one JSON line: a benchmark run with all its arrays

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


def query(connection: DuckDBPyConnection, sql: str, path: str) -> DuckDBPyConnection:
    """Run `sql` over the file `path`; turn what DuckDB says about the file into an InputError."""
    try:
        return connection.execute(sql)
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
        raise  # the query is wrong, not the file
    except duckdb.Error as error:
        raise InputError(file_problem(path, error)) from None


def file_problem(path: str, error: duckdb.Error) -> Problem:
    """Describe a file that DuckDB cannot read to its end."""
    text = str(error)
    first_line = text.splitlines()[0] if text else type(error).__name__
    line = re.search(r"on Line: (\d+)", text)
    if "maximum line size" in text.casefold() and line:
        return Problem(
            message=f"the line is longer than {MAX_LINE_BYTES >> 20} MiB",
            file=path,
            line=int(line.group(1)),
            column=1,
            hint="export the log without prompts and answers",
        )
    return Problem(
        message=f"the file is damaged or cut: {first_line}",
        file=path,
        hint="copy or export it again",
    )


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
