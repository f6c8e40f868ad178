"""Run the queries over each file and bring the judged rows back as numpy arrays."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
from duckdb import DuckDBPyConnection
from numpy.typing import NDArray

from planner.errors import InputError
from planner.ingest import duck, reasons
from planner.ingest.format import Format
from planner.ingest.judge import Judgement, block_rows, judged_rows, parsed_rows
from planner.ingest.quotes import Unreadable, refuse_swallowed_lines
from planner.ingest.sniff import Source, open_bytes, read_document
from planner.ingest.sql import (
    DOCUMENT_TABLE,
    INTEGERS,
    REJECTS_TABLE,
    SCANS_TABLE,
    mapped_rows,
    raw_rows,
)

KNOWN_TYPES = (*INTEGERS, "DOUBLE", "FLOAT", "DECIMAL", "VARCHAR", "TIMESTAMP", "DATE")
TAIL_BYTES = 1 << 16
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """The judged rows of one file, in file order, and its unreadable lines."""

    arrays: Arrays
    block_keys: NDArray[np.uint64]
    unreadable: tuple[Unreadable, ...]

    def __len__(self) -> int:
        return len(self.arrays["reject"])


def load_document(connection: DuckDBPyConnection, source: Source) -> None:
    """Put the objects of a JSON document into a table, one a row."""
    text = read_document(source)
    objects = (
        "SELECT unnest(json_extract(d, '$[*]'))::VARCHAR AS line"
        if text.lstrip().startswith("[")
        else "SELECT d::VARCHAR AS line"
    )
    try:
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {DOCUMENT_TABLE} AS {objects} "
            "FROM (SELECT ?::JSON AS d)",
            [text],
        )
    except duckdb.Error as error:
        raise InputError(duck.file_problem(source.path, error)) from None


def settle_types(
    connection: DuckDBPyConnection, source: Source, fmt: Format
) -> tuple[Format, dict[str, str]]:
    """Return the SQL type of every mapped column; columns of any unusual type are read as text."""
    described = duck.rows(connection, f"DESCRIBE {mapped_rows(source, fmt)}", source.path)
    types = {str(row[0]).removeprefix("f_"): str(row[1]) for row in described}
    fields = dict(fmt.fields)
    for name, sql_type in types.items():
        if not sql_type.startswith(KNOWN_TYPES) and name not in ("keep", "readable", "hash_ids"):
            fields[name] = f"({fields[name]})::VARCHAR"
            types[name] = "VARCHAR"
    return replace(fmt, fields=fields), types


def sample_times(
    connection: DuckDBPyConnection, source: Source, fmt: Format, limit: int = 2000
) -> list[str]:
    """Return the first arrival times as text."""
    sql = f"SELECT f_time::VARCHAR FROM ({mapped_rows(source, fmt)}) WHERE f_time IS NOT NULL"
    rows = duck.rows(connection, f"{sql} LIMIT {limit}", source.path)
    return [str(row[0]) for row in rows]


def read_file(
    connection: DuckDBPyConnection,
    source: Source,
    fmt: Format,
    types: Mapping[str, str],
    judgement: Judgement,
) -> FileRows:
    """Read one file completely."""
    mapped = mapped_rows(source, fmt, keep_rejects=True)
    parsed = parsed_rows(mapped, types, judgement)
    arrays: Arrays = duck.arrays(connection, judged_rows(parsed, types, judgement), source.path)
    unreadable = _unreadable(connection, source, fmt)
    if source.sample.container == "csv":
        refuse_swallowed_lines(connection, source, fmt, arrays["reject"], unreadable)
    if unreadable and _is_cut(source, unreadable[-1].text):
        unreadable = (*unreadable[:-1], replace(unreadable[-1], code=reasons.CUT_LAST_LINE))
    arrays["reject"] = _with_cut_row(source, arrays["reject"])
    keys = np.zeros(0, np.uint64)
    if "hash_ids" in types:
        parsed = parsed_rows(mapped_rows(source, fmt), types, judgement)
        keys = duck.arrays(connection, block_rows(parsed), source.path)["id"]
    return FileRows(arrays=arrays, block_keys=keys, unreadable=unreadable)


def _with_cut_row(source: Source, reject: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Name the reason for a JSON line that cannot be read because the file ends inside it."""
    if len(reject) and reject[-1] == reasons.INVALID_RECORD and not _tail(source).endswith(b"\n"):
        reject = reject.copy()
        reject[-1] = reasons.CUT_LAST_LINE
    return reject


def _is_cut(source: Source, text: str) -> bool:
    """Say whether the file ends in `text`, with no line end after it."""
    end = text.encode()[-TAIL_BYTES:]
    return bool(end) and _tail(source).endswith(end)


def _tail(source: Source) -> bytes:
    with open_bytes(source.path, source.gzipped) as stream:
        if not source.gzipped:
            stream.seek(max(0, stream.seek(0, io.SEEK_END) - TAIL_BYTES))
            return stream.read()
        tail = b""
        while chunk := stream.read(1 << 20):
            tail = (tail + chunk)[-TAIL_BYTES:]
        return tail


def _unreadable(
    connection: DuckDBPyConnection, source: Source, fmt: Format
) -> tuple[Unreadable, ...]:
    if source.sample.container == "csv":
        return _rejected_csv_lines(connection, source)
    if fmt.records:
        sql = (
            f"SELECT line FROM ({raw_rows(source, keep_rejects=False)}) WHERE NOT json_valid(line)"
        )
        lines = duck.rows(connection, sql, source.path)
        return tuple(
            Unreadable(line=0, code=reasons.INVALID_RECORD, text=str(row[0])) for row in lines
        )
    return ()


def _rejected_csv_lines(connection: DuckDBPyConnection, source: Source) -> tuple[Unreadable, ...]:
    rows = duck.rows(
        connection,
        f"SELECT line, min(error_type::VARCHAR), any_value(csv_line) FROM {REJECTS_TABLE} "
        "GROUP BY line ORDER BY line",
        source.path,
    )
    connection.execute(f"DROP TABLE {REJECTS_TABLE}; DROP TABLE {SCANS_TABLE}")
    return tuple(
        Unreadable(line=int(line), code=_csv_code(str(kind)), text=str(text).strip())
        for line, kind, text in rows
    )


def _csv_code(kind: str) -> int:
    if kind in ("MISSING COLUMNS", "TOO MANY COLUMNS"):
        return reasons.WRONG_COLUMN_COUNT
    return reasons.BROKEN_LINE


def class_values(
    connection: DuckDBPyConnection,
    sources: Sequence[Source],
    formats: Sequence[Format],
    types: Sequence[Mapping[str, str]],
    judgement: Judgement,
    limit: int,
) -> list[str | None]:
    """Return the different values of the class column, at most `limit` of each file."""
    found: dict[str | None, None] = {}
    for source, fmt, own_types in zip(sources, formats, types, strict=True):
        if source.sample.container == "json":
            load_document(connection, source)
        parsed = parsed_rows(mapped_rows(source, fmt), own_types, judgement)
        sql = f'SELECT DISTINCT "class" FROM ({parsed}) WHERE readable AND keep LIMIT {limit}'
        rows = duck.rows(connection, sql, source.path)
        found.update(dict.fromkeys(row[0] for row in rows))
    return list(found)
