"""From judged rows to the request arrays: drop, order, number, and count what happened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.ingest import reasons
from planner.ingest.duplicates import without_duplicates
from planner.ingest.prefix import (
    conversation_keys,
    leading_hits,
    number_by_first_use,
    take_ragged,
)
from planner.ingest.read import Arrays
from planner.ingest.requests import Requests
from planner.ingest.sql import KIND_NAIVE
from planner.ingest.table import Mark, Rows, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The final verdict on every row."""

    reject: NDArray[np.uint8]
    marks: tuple[Mark, ...]
    kinds: tuple[int, ...]  # time kinds of the rows used, most frequent first
    naive_times: int
    per_class: tuple[int, ...]


def assemble(table: Table) -> tuple[Requests, Counts]:
    """Return the usable requests in order of arrival, and the verdict on every row."""
    arrays = table.arrays
    reject = np.array(arrays["reject"], np.uint8)
    order, resorted = _by_arrival(table, np.flatnonzero(reject == 0))
    order, repeats = without_duplicates(table, order, reject)
    requests = _requests(table, order)
    marks = [*repeats, *resorted, *_flag_marks(table, order), *_derived_marks(table, order)]
    kinds, counts = np.unique(arrays["t_kind"][order], return_counts=True)
    by_count = [int(kinds[i]) for i in np.lexsort((kinds, -counts))]
    if table.judgement.reading.absolute and len(by_count) > 1:
        rare = order[arrays["t_kind"][order] != by_count[0]]
        marks.append(
            Mark(
                name="mixed_time_formats",
                effect="arrival times in another notation than most: read by their own form",
                rows=rare,
            )
        )
    names = len(table.class_names)
    return requests, Counts(
        reject=reject,
        marks=tuple(marks),
        kinds=tuple(by_count),
        naive_times=int(np.count_nonzero(arrays["t_kind"][order] == KIND_NAIVE)),
        per_class=tuple(np.bincount(requests.class_id, minlength=names).tolist()),
    )


def _by_arrival(table: Table, rows: Rows) -> tuple[Rows, list[Mark]]:
    t = table.arrays["t"][rows]
    same_file = np.diff(np.searchsorted(table.file_start, rows, side="right")) == 0
    late = (t[1:] < t[:-1]) & same_file
    if len(table.sources) == 1 and not late.any():
        return rows, []
    order = rows[np.argsort(t, kind="stable")]
    if not late.any():
        return order, []
    effect = "logged after a later arrival (logs often write at the end): sorted by arrival"
    return order, [Mark(name="out_of_order", effect=effect, rows=rows[1:][late])]


def _requests(table: Table, order: Rows) -> Requests:
    arrays, n = table.arrays, len(order)
    t = arrays["t"][order]
    absolute = table.judgement.reading.absolute
    tokens = arrays["input_tokens"][order]
    block_tokens = table.judgement.block_tokens
    ids, offset = _blocks(table, order)
    if block_tokens:
        cached = np.minimum(leading_hits(ids, offset) * block_tokens, tokens)
    else:
        cached = np.minimum(_column(arrays, "cached_tokens", order), tokens)
    return Requests(
        arrival_s=(t - t[0]) / 1e6 if absolute and n else t - t[:1],
        input_tokens=tokens,
        output_tokens=arrays["output_tokens"][order],
        class_id=_column(arrays, "class_id", order),
        class_names=table.class_names,
        cached_tokens=cached,
        session_id=_sessions(arrays, order),
        block_tokens=block_tokens,
        block_offset=offset,
        block_ids=ids,
        observed_ttft_s=_latency(arrays, "ttft_s", order),
        observed_e2e_s=_latency(arrays, "e2e_s", order),
        origin=_iso(int(t[0])) if absolute and n else "",
    )


def _column(arrays: Arrays, name: str, order: Rows) -> NDArray[np.int64]:
    if name in arrays:
        return np.asarray(arrays[name][order], np.int64)
    return np.zeros(len(order), np.int64)


def _latency(arrays: Arrays, name: str, order: Rows) -> NDArray[np.float64]:
    return arrays[name][order] if name in arrays else np.full(len(order), np.nan)


def _iso(microseconds: int) -> str:
    moment = np.datetime64(microseconds, "us")
    return f"{moment}+00:00"


def _blocks(table: Table, order: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not table.judgement.block_tokens:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lengths = np.asarray(table.arrays["n_blocks"], np.int64)
    offset = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    keys, new_offset = take_ragged(table.block_keys, offset, order)
    return number_by_first_use(keys), new_offset


def _sessions(arrays: Arrays, order: Rows) -> NDArray[np.int64]:
    if "chat_id" in arrays:
        keys = conversation_keys(arrays["chat_id"][order], arrays["parent_chat_id"][order])
    elif "session_id" in arrays:
        keys = arrays["session_id"][order]
    else:
        return np.full(len(order), -1, np.int64)
    session = np.full(len(order), -1, np.int64)
    known = keys != 0
    session[known] = number_by_first_use(keys[known])
    return session


def _flag_marks(table: Table, order: Rows) -> list[Mark]:
    flags = table.arrays["flags"][order]
    return [
        Mark(name=name, effect=effect, rows=order[(flags & bit) != 0])
        for bit, (name, effect) in reasons.FLAGS.items()
        if (flags & bit).any()
    ]


def _derived_marks(table: Table, order: Rows) -> list[Mark]:
    arrays = table.arrays
    marks = []
    if "cached_tokens" in arrays and not table.judgement.block_tokens:
        cached, tokens = arrays["cached_tokens"][order], arrays["input_tokens"][order]
        if (cached > tokens).any():
            effect = (
                "more cached than input tokens: taken as fully cached. If this log's input tokens "
                "leave the cached part out, add it: the load is understated"
            )
            rows = order[cached > tokens]
            marks.append(Mark(name="cached_exceeds_input", effect=effect, rows=rows))
        hit = cached > 0
        if np.count_nonzero(hit) >= 100 and (cached[hit] == tokens[hit] - 1).all():
            effect = (
                "cached = input − 1 wherever cached is set: a known fault of disaggregated "
                "serving's logs, not a hit rate; ignore the log's cached tokens"
            )
            marks.append(Mark(name="cached_always_all", effect=effect, rows=order[hit]))
    if "request_id" in arrays:
        ids = arrays["request_id"][order]
        _, first = np.unique(ids, return_index=True)
        again = np.ones(len(ids), bool)
        again[first] = False
        again &= ids != 0
        if again.any():
            effect = "request id seen before, other values differ (a retry?): kept, both are load"
            marks.append(Mark(name="repeated_request_id", effect=effect, rows=order[again]))
    return marks
