"""Turn verdicts into the report: every reason with its count, an example and what it means."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from duckdb import DuckDBPyConnection

from planner.errors import InputError, Problem
from planner.ingest import examples, reasons
from planner.ingest.assemble import Counts
from planner.ingest.read import load_document
from planner.ingest.report import IngestReport
from planner.ingest.sniff import BOM, Source, open_bytes
from planner.ingest.table import Table
from planner.ingest.times import unit_text
from planner.units import HOUR_S

Entry = Mapping[str, object]
SMALL_SHARE = 1e-4  # fewer are noted without advice
SCANNED_BYTES = 16 << 20  # blank lines are counted in files up to this size


def account(
    connection: DuckDBPyConnection, table: Table, counts: Counts, why: str, span_s: float
) -> IngestReport:
    """Write the report of a trace.

    Raises
    ------
    InputError
        Not one row can be used; the message counts the reasons.
    """
    pointer = _Pointer(connection, table)
    used = int(np.count_nonzero(counts.reject == 0))
    rejected = _rejected(table, counts, pointer, used)
    rows_read = len(counts.reject) + len(table.unreadable)
    if not used:
        raise InputError(_nothing_usable(table, rejected, rows_read))
    late = int(np.count_nonzero(counts.reject == reasons.TIME_OUT_OF_RANGE))
    if table.judgement.reading.guessed and late > used:
        raise InputError(_wrong_unit(table, late, rows_read))
    arrived = np.isin(counts.reject, [0, *(r.code for r in reasons.REASONS.values() if r.arrived)])
    return IngestReport(
        files=tuple(source.path for source in table.sources),
        format=table.fmt.name,
        format_reason=why,
        time_unit=unit_text(table.judgement.reading, counts.kinds),
        assumptions=(*table.fmt.assumptions, *_time_assumptions(table, counts, span_s)),
        rows_read=rows_read,
        rows_used=used,
        rejected=rejected,
        flagged=_flagged(table, counts, pointer),
        requests_seen=int(np.count_nonzero(arrived)),
        input_tokens_seen=int(table.arrays["input_tokens"][arrived].sum()),
        output_tokens_seen=int(table.arrays["output_tokens"][arrived].sum()),
    )


class _Pointer:
    """Finds examples; keeps what is needed to turn row numbers into lines."""

    def __init__(self, connection: DuckDBPyConnection, table: Table) -> None:
        self._connection = connection
        self._table = table
        self._bad = [
            frozenset(line.line for index, line in table.unreadable if index == number)
            for number in range(len(table.sources))
        ]

    def example(self, row: int) -> str:
        table = self._table
        number = int(np.searchsorted(table.file_start, row, side="right")) - 1
        source, fmt = table.sources[number], table.formats[number]
        if source.sample.container == "json":
            load_document(self._connection, source)
        local = row - int(table.file_start[number])
        return examples.show(self._connection, source, fmt, local, self._bad[number])


def _rejected(table: Table, counts: Counts, pointer: _Pointer, used: int) -> tuple[Entry, ...]:
    entries: list[dict[str, object]] = []
    for code in np.unique(counts.reject):
        if code == 0:
            continue
        reason = reasons.REASONS[int(code)]
        rows = np.flatnonzero(counts.reject == code)
        entries.append(_entry(reason, len(rows), pointer.example(int(rows[0])), used))
    entries += _unreadable(table, used)
    return tuple(_merged(entries))


def _entry(reason: reasons.Reason, count: int, example: str, used: int) -> dict[str, object]:
    effect = f"{reason.meaning}; left out"
    if reason.arrived and used:
        share = count / (used + count)
        effect += " of the demand"
        if share > SMALL_SHARE:
            effect += (
                f" ({share:.2%}); to plan for them too, multiply sample_rate by {1 - share:.4g}"
            )
    return {"reason": reason.name, "count": count, "example": example, "effect": effect}


def _unreadable(table: Table, used: int) -> list[dict[str, object]]:
    entries = []
    for number, line in table.unreadable:
        source = table.sources[number]
        reason = reasons.REASONS[line.code]
        place = f"{source.path}:{line.line}" if line.line else source.path
        entries.append(_entry(reason, 1, f"{place}: {examples.shorten(line.text)}", used))
    return entries


def _merged(entries: list[dict[str, object]]) -> list[dict[str, object]]:
    """Add up entries of the same reason; the first example stays. Most frequent first."""
    merged: dict[object, dict[str, object]] = {}
    for entry in entries:
        known = merged.setdefault(entry["reason"], {**entry, "count": 0})
        known["count"] = int(str(known["count"])) + int(str(entry["count"]))
    return sorted(
        merged.values(), key=lambda entry: (-int(str(entry["count"])), str(entry["reason"]))
    )


def _flagged(table: Table, counts: Counts, pointer: _Pointer) -> tuple[Entry, ...]:
    entries = [
        {
            "reason": mark.name,
            "count": len(mark.rows),
            "example": pointer.example(int(mark.rows.min())),
            "effect": mark.effect,
        }
        for mark in counts.marks
    ]
    entries += _text_flags(table)
    return tuple(_merged(entries))


def _text_flags(table: Table) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = []
    for source in table.sources:
        if source.bom:
            entries.append(_flag("byte_order_mark", 1, source.path, "skipped"))
        if source.sample.container not in ("csv", "jsonl"):
            continue
        blank = _blank_lines(source)
        if blank:
            entries.append(_flag("blank_lines", len(blank), f"{source.path}:{blank[0]}", "skipped"))
    return entries


def _blank_lines(source: Source) -> list[int]:
    blank, seen = [], 0
    with open_bytes(source.path, source.gzipped) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.removeprefix(BOM).strip():
                blank.append(number)
            seen += len(line)
            if seen > SCANNED_BYTES:
                break
    return blank


def _flag(reason: str, count: int, example: str, effect: str) -> dict[str, object]:
    return {"reason": reason, "count": count, "example": example, "effect": effect}


def _time_assumptions(table: Table, counts: Counts, span_s: float) -> tuple[str, ...]:
    notes = []
    if counts.naive_times:
        notes.append(f"{counts.naive_times:,} arrival times carry no zone: taken as UTC")
    if table.judgement.reading.guessed:
        notes.append(
            "arrival times are numbers that are no epoch time: read as seconds from the start, "
            f"which makes the trace {span_s / HOUR_S:,.4g} hours long "
            "(--time-unit ms, us or ns says otherwise)"
        )
    return tuple(notes)


def _nothing_usable(table: Table, rejected: tuple[Entry, ...], rows_read: int) -> Problem:
    files = ", ".join(source.path for source in table.sources[:3])
    if not rows_read:
        return Problem(
            message="the trace has column names but no rows", file=files, hint="export it again"
        )
    reasons_text = "; ".join(
        f"{entry['count']} {entry['reason']} (first: {entry['example']})" for entry in rejected[:3]
    )
    unreadable = reasons.REASONS[reasons.TIME_UNPARSABLE].name
    dates = "times are ISO 8601 or numbers; " if rejected[0]["reason"] == unreadable else ""
    return Problem(
        message=f"none of {rows_read:,} rows can be used: {reasons_text}",
        file=files,
        hint=f"{dates}read as {table.fmt.name}; --format and --time-unit override the detection",
    )


def _wrong_unit(table: Table, late: int, rows_read: int) -> Problem:
    return Problem(
        message=f"{late:,} of {rows_read:,} arrival times, read as seconds from the start of the "
        "trace, lie more than ten years after it",
        file=", ".join(source.path for source in table.sources[:3]),
        hint="say what they are: --time-unit ms, us or ns",
    )
