"""Look at the head of a file: compression, container, columns, rows. Content decides, not names."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from duckdb import DuckDBPyConnection

from planner.errors import InputError, Problem
from planner.ingest import duck
from planner.ingest.format import Sample

HEAD_BYTES = 1 << 20
SAMPLE_ROWS = 200
MAX_DOCUMENT_BYTES = 1 << 30  # read whole, and several times as large once parsed
DELIMITERS = ",;\t|"
BOM = b"\xef\xbb\xbf"
MAGIC = (
    (b"PK\x03\x04", "a zip archive (or a spreadsheet)", "unpack it, or export as CSV"),
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", "unpack it with unzstd"),
    (b"BZh", "compressed with bzip2", "unpack it with bunzip2"),
    (b"\xfd7zXZ", "compressed with xz", "unpack it with unxz"),
    (b"ARROW1", "an Arrow file", "write it as Parquet"),
    (b"ORC", "an ORC file", "write it as Parquet"),
    (b"SQLite format 3", "a SQLite database", "export the table as CSV"),
    (b"\xff\xfe", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"),
)


NO_SAMPLE = Sample(container="json", columns=(), rows=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file and how to read it."""

    path: str
    sample: Sample
    gzipped: bool = False
    bom: bool = False
    delimiter: str = ""
    skip_lines: int = 0  # blank lines before a CSV header


def open_bytes(path: str, gzipped: bool) -> BinaryIO:
    """Open a file for reading, unpacking it when it is gzipped."""
    return cast("BinaryIO", gzip.open(path, "rb")) if gzipped else Path(path).open("rb")


def sniff(path: str, connection: DuckDBPyConnection) -> Source:
    """Recognise the container of one file and sample its first rows.

    Raises
    ------
    InputError
        The file is empty, cut, binary, or text that is neither CSV nor JSON.
    """
    with Path(path).open("rb") as stream:
        gzipped = stream.read(2) == b"\x1f\x8b"
    head = _head(path, gzipped)
    if head.startswith(b"PAR1"):
        return _sniff_parquet(path, gzipped, connection)
    text = _decode(path, head)
    bom = head.startswith(BOM)
    if not text.strip():
        message = "the file holds only blank lines" if text else "the file is empty"
        hint = "export the trace again"
        raise InputError(Problem(message=message, file=path, hint=hint))
    source = (
        _sniff_json(path, gzipped, text)
        if text.lstrip()[0] in "{["
        else _sniff_csv(path, gzipped, text)
    )
    return replace(source, bom=bom)


def _head(path: str, gzipped: bool) -> bytes:
    try:
        with open_bytes(path, gzipped) as stream:
            return stream.read(HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(broken_gzip(path, str(error))) from None


def broken_gzip(path: str, detail: str) -> Problem:
    """Describe a gzip file that ends early or is damaged."""
    return Problem(
        message=f"the gzip data is cut or damaged ({detail})",
        file=path,
        hint="copy it again; check with gzip -t",
    )


def _decode(path: str, head: bytes) -> str:
    for magic, what, hint in MAGIC:
        if head.startswith(magic):
            raise InputError(Problem(message=f"not a trace: {what}", file=path, hint=hint))
    if b"\x00" in head:
        raise InputError(
            Problem(
                message="not a trace: binary data",
                file=path,
                hint="give Parquet, CSV, JSON or JSON lines, gzipped or not",
            )
        )
    try:
        return head.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) == HEAD_BYTES and error.start >= len(head) - len(BOM) - 4:
            return head.removeprefix(BOM)[: error.start].decode("utf-8")  # cut by sampling
        line = head.count(b"\n", 0, error.start) + 1
        column = error.start - head.rfind(b"\n", 0, error.start)
        raise InputError(
            Problem(
                message=f"byte 0x{head[error.start]:02x} is not UTF-8 text",
                file=path,
                line=line,
                column=column,
                hint="convert it: iconv -f LATIN1 -t UTF-8",
            )
        ) from None


def _sniff_parquet(path: str, gzipped: bool, connection: DuckDBPyConnection) -> Source:
    if gzipped:
        raise InputError(
            Problem(message="Parquet inside gzip", file=path, hint="unpack it with gunzip first")
        )
    with Path(path).open("rb") as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(max(0, size - 4))
        if stream.read(4) != b"PAR1" or size < 12:
            raise InputError(
                Problem(
                    message=f"the Parquet file is cut: no footer after {size:,} bytes",
                    file=path,
                    hint="copy or export it again",
                )
            )
    head = f"FROM read_parquet({duck.file_literal(path)}) LIMIT {SAMPLE_ROWS}"
    columns = tuple(str(row[0]) for row in duck.rows(connection, f"DESCRIBE {head}", path))
    rows = tuple(dict(zip(columns, row, strict=True)) for row in duck.rows(connection, head, path))
    return Source(path=path, sample=Sample(container="parquet", columns=columns, rows=rows))


def _lines(text: str) -> list[str]:
    r"""Split at line ends alone: a prompt may hold U+2028 and others that str.splitlines splits at.

    >>> _lines("a\u2028b\r\nc\n")
    ['a\u2028b', 'c']
    """
    return re.split(r"\r\n|\n|\r", text.rstrip("\r\n"))


def _sniff_csv(path: str, gzipped: bool, text: str) -> Source:
    lines = _lines(text)
    skip = next(index for index, line in enumerate(lines) if line.strip())
    header_line = lines[skip]
    delimiter = max(DELIMITERS, key=header_line.count)
    csv.field_size_limit(duck.MAX_LINE_BYTES)  # a prompt may stand in a field
    rows = list(csv.reader(lines[skip : skip + SAMPLE_ROWS + 1], delimiter=delimiter))
    header = tuple(
        name.strip() or f"column {number}" for number, name in enumerate(rows[0], start=1)
    )
    _check_header(path, header, skip + 1)
    body = tuple(
        {name: value or None for name, value in zip(header, row, strict=True)}
        for row in rows[1:]
        if len(row) == len(header)
    )
    return Source(
        path=path,
        gzipped=gzipped,
        delimiter=delimiter,
        skip_lines=skip,
        sample=Sample(container="csv", columns=header, rows=body),
    )


def _check_header(path: str, header: tuple[str, ...], line: int) -> None:
    if all(_looks_like_value(name) for name in header):
        raise InputError(
            Problem(
                message=f"the first line holds values, not column names ({', '.join(header[:5])})",
                file=path,
                line=line,
                column=1,
                hint="add a header: timestamp,input_tokens,output_tokens",
            )
        )
    folded = [name.casefold() for name in header]
    twice = sorted({name for name in header if folded.count(name.casefold()) > 1})
    if twice:
        raise InputError(
            Problem(
                message=f"the header names {', '.join(twice)} more than once",
                file=path,
                line=line,
                column=1,
                hint="give every column its own name",
            )
        )


def _looks_like_value(text: str) -> bool:
    return not text or text[0].isdigit() or text[0] in "-+."


def _sniff_json(path: str, gzipped: bool, text: str) -> Source:
    lines = _lines(text)
    if len(lines) == 1:  # longer than the head, perhaps
        with open_bytes(path, gzipped) as stream:
            lines = [
                stream.readline(duck.MAX_LINE_BYTES).removeprefix(BOM).decode(errors="replace")
            ]
    rows = [row for row in map(_object, lines[:SAMPLE_ROWS]) if row is not None]
    if rows:
        return Source(path=path, gzipped=gzipped, sample=_json_sample("jsonl", rows))
    return _sniff_document(path, gzipped)


def _object(line: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _sniff_document(path: str, gzipped: bool) -> Source:
    try:
        value = json.loads(read_document(Source(path=path, gzipped=gzipped, sample=NO_SAMPLE)))
    except (EOFError, zlib.error) as error:
        raise InputError(broken_gzip(path, str(error))) from None
    except json.JSONDecodeError as error:
        raise InputError(
            Problem(
                message=f"not valid JSON: {error.msg}",
                file=path,
                line=error.lineno,
                column=error.colno,
                hint="the file may be cut; for one object a line, put each on a single line",
            )
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(Problem(message=f"not readable as JSON: {error}", file=path)) from None
    except RecursionError:
        raise InputError(
            Problem(message="the JSON is nested too deeply for a request log", file=path)
        ) from None
    rows = value if isinstance(value, list) else [value]
    objects = [row for row in rows[:SAMPLE_ROWS] if isinstance(row, dict)]
    if not objects:
        raise InputError(
            Problem(
                message="the JSON holds no objects",
                file=path,
                hint="one object a request, in a list or one a line",
            )
        )
    return Source(path=path, gzipped=gzipped, sample=_json_sample("json", objects))


def read_document(source: Source) -> str:
    """Return the text of a JSON document (checked when it was sniffed)."""
    with open_bytes(source.path, source.gzipped) as stream:
        content = stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise InputError(
            Problem(
                message=f"one JSON document of more than {MAX_DOCUMENT_BYTES >> 20} MiB",
                file=source.path,
                hint="write one object a line: jq -c '.[]'",
            )
        )
    return content.removeprefix(BOM).decode("utf-8")


def _json_sample(container: str, rows: Sequence[Mapping[str, Any]]) -> Sample:
    keys = dict.fromkeys(key for row in rows for key in row)
    return Sample(container=container, columns=tuple(keys), rows=tuple(rows))
