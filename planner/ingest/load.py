"""Read a trace: any known log format in, request arrays and an account of every row out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from duckdb import DuckDBPyConnection

from planner.ingest import classes as workload
from planner.ingest import times
from planner.ingest.absent import check_every_class
from planner.ingest.assemble import assemble
from planner.ingest.classes import Assignment
from planner.ingest.detect import detect, same_format
from planner.ingest.duck import connect
from planner.ingest.files import expand
from planner.ingest.format import Format
from planner.ingest.judge import Judgement
from planner.ingest.read import class_values, load_document, read_file, sample_times, settle_types
from planner.ingest.reasons import NO_CLASS
from planner.ingest.report import IngestReport, LoadedTrace
from planner.ingest.sniff import Source, sniff
from planner.ingest.sql import TimeReading
from planner.ingest.table import Table, join
from planner.ingest.tally import account
from planner.spec.slo import WorkloadClass


def load_trace(
    paths: Sequence[str],
    *,
    fmt: str | None = None,
    time_unit: str | None = None,
    classes: Sequence[WorkloadClass] = (),
) -> LoadedTrace:
    """Read files, folders or globs as one trace.

    Parameters
    ----------
    paths
        Files of one format, Parquet, CSV, JSON lines or JSON, gzipped or not.
    fmt
        The format's name; None detects it from the content.
    time_unit
        "s", "ms", "us" or "ns" for numeric times whose unit the format does not fix.
    classes
        Workload classes to sort requests into, first match first. None: the trace's own.

    Returns
    -------
    LoadedTrace
        Request arrays sorted by arrival, and the report of what was read, rejected and assumed.

    Raises
    ------
    InputError
        Nothing usable can be read; the message says what is wrong, where, and what to do.
    """
    expansion = expand(paths)
    connection = connect()
    try:
        sources = [sniff(path, connection) for path in expansion.files]
        formats = [detect(source, fmt) for source in sources]
        table = _read(connection, sources, formats, time_unit, classes)
        requests, counts = assemble(table)
        if np.isin(counts.reject, (0, NO_CLASS)).any():
            check_every_class(connection, table, classes, counts.per_class)
        why = "named by --format" if fmt else f"detected by {table.fmt.because}"
        report = account(connection, table, counts, why, requests.span_s)
    finally:
        connection.close()
    return LoadedTrace(requests=requests, report=_noted(report, expansion.notes))


def _noted(report: IngestReport, notes: tuple[str, ...]) -> IngestReport:
    return replace(report, assumptions=(*report.assumptions, *notes))


def _read(
    connection: DuckDBPyConnection,
    sources: Sequence[Source],
    formats: Sequence[Format],
    time_unit: str | None,
    classes: Sequence[WorkloadClass],
) -> Table:
    fmt = same_format(sources, formats)
    settled, types, samples = [], [], []
    for source, detected in zip(sources, formats, strict=True):
        if source.sample.container == "json":
            load_document(connection, source)
        own, own_types = settle_types(connection, source, detected)
        settled.append(own)
        types.append(own_types)
        samples.append(sample_times(connection, source, own))
    reading, notes = times.decide(
        fmt, [t["time"] for t in types], samples, [s.path for s in sources], time_unit
    )
    assignment = _assign(connection, sources, settled, types, reading, classes)
    judgement = Judgement(
        reading=reading, class_case=assignment.case, block_tokens=fmt.block_tokens
    )
    files = []
    for source, own, own_types in zip(sources, settled, types, strict=True):
        if source.sample.container == "json":
            load_document(connection, source)
        files.append(read_file(connection, source, own, own_types, judgement))
    return join(
        fmt=replace(fmt, assumptions=(*fmt.assumptions, *notes, *assignment.assumptions)),
        sources=tuple(sources),
        formats=tuple(settled),
        types=tuple(types),
        files=tuple(files),
        judgement=judgement,
        class_names=assignment.names,
    )


def _assign(
    connection: DuckDBPyConnection,
    sources: Sequence[Source],
    formats: Sequence[Format],
    types: Sequence[dict[str, str]],
    reading: TimeReading,
    classes: Sequence[WorkloadClass],
) -> Assignment:
    present = frozenset.intersection(*(frozenset(own) for own in types))
    if classes:
        return workload.declared(classes, present, sources[0].sample.columns)
    if "class" not in present:
        return Assignment(names=(workload.ALL,), assumptions=(workload.ONE_CLASS,))
    values = class_values(
        connection, sources, formats, types, Judgement(reading=reading), workload.MAX_CLASSES + 1
    )
    return workload.from_column(values)
