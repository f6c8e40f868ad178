"""Less or more of the same traffic: thin a trace, or lay displaced copies over it.

Both keep the rate's course over the day and whole sessions; time is never stretched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim import laid
from planner.sim.copying import INDEPENDENT, Copying
from planner.sim.exchange import exchanged, sessions_of
from planner.sim.laid import Laid, Shape, rows_between, shape_of, thinned

Span = tuple[float, float]

MOST_KEPT = 500_000  # requests of a copy that is kept to be asked for again; larger: made anew


def thin(requests: Requests, factor: float, *, seed: int = 42) -> Requests:
    """Return a random part of the trace: each session (or lone request) stays with `factor`.

    Parts are nested: with the same seed, what a smaller factor keeps a larger one keeps too.
    Thinning is how one replica sees a randomly routed stream; it makes arrivals less bursty.

    Parameters
    ----------
    requests
        The trace.
    factor
        Share to keep, 0 < factor ≤ 1.
    seed
        Which part.
    """
    if not 0.0 < factor <= 1.0:
        raise ValueError(f"a trace can be thinned to a share in (0, 1], not {factor}")
    if factor == 1.0:
        return requests
    return subset(requests, thinned(requests.session_id, factor, seed))


def scale(
    requests: Requests,
    factor: float,
    *,
    seed: int = 42,
    copying: Copying = INDEPENDENT,
    span: Span | None = None,
) -> Requests:
    """Return `factor` times the traffic: thinned below 1, copies laid over each other above.

    Parameters
    ----------
    requests
        The trace.
    factor
        Share or multiple of the traffic.
    seed
        Which thinning, which displacements and which exchanges.
    copying
        How copies lie apart: displaced by minutes, bursts of users who have nothing to do with
        each other average out; kept together, bursts grow with the load. And whether their sessions
        bring their own requests or those of others. Block ids keep requests where they are.
    span
        The stretch wanted, None for all of it. Sessions are exchanged with the whole trace's.
    """
    part = requests if span is None else between(requests, *span)
    if factor <= 1.0:
        return thin(part, factor, seed=seed)
    if len(requests.block_offset):
        return _with_blocks(part, factor, copying, seed)
    make: Callable[..., Laid] = _copies if len(part) <= MOST_KEPT else _copies.__wrapped__
    copies = make(shape_of(requests), factor, copying, seed, _span_of(requests, span))
    return _taken(requests, copies)


@lru_cache(maxsize=16)
def between(requests: Requests, start_s: float, end_s: float) -> Requests:
    """Return the requests that arrive in [start, end]."""
    rows = rows_between(requests.arrival_s, start_s, end_s)
    if len(requests.block_offset):
        at = np.arange(len(requests))
        return subset(requests, (at >= rows.start) & (at < rows.stop))
    return replace(requests, **_columns(requests, rows))


def _span_of(requests: Requests, span: Span | None) -> Span:
    if span is not None or not len(requests):
        return span or (0.0, 0.0)
    return float(requests.arrival_s[0]), float(requests.arrival_s[-1])


def _parts(factor: float) -> tuple[int, float]:
    """Return how many copies a factor takes beside the trace, and the share of the last.

    >>> _parts(3.0), _parts(1.25)
    ((2, 1.0), (1, 0.25))
    """
    whole = math.ceil(factor) - 1
    return whole, factor - whole


# The same factor is asked of traces that differ in their token counts.
@lru_cache(maxsize=8)
def _copies(shape: Shape, factor: float, copying: Copying, seed: int, span: Span) -> Laid:
    """Return a stretch of a trace with its copies laid over it, in order of arrival."""
    whole, rest = _parts(factor)
    part = laid.stretch(shape, rows_between(shape.arrival_s, *span))
    kept = _exchanged if copying.content else _displaced
    makes: Callable[..., Laid] = kept if len(part) <= MOST_KEPT else kept.__wrapped__
    parts = [part, *(makes(shape, span, copy, copying, seed) for copy in range(1, whole))]
    last = makes(shape, span, whole, copying, seed)
    some = last if rest >= 1.0 else last.taken(thinned(last.session_id, rest, seed))
    return laid.merged([*parts, some])


# Probes lay the same copies over a stretch again and again; only how many of them differs.
@lru_cache(maxsize=128)
def _displaced(shape: Shape, span: Span, copy: int, copying: Copying, seed: int) -> Laid:
    """Return a displaced copy of a span in order of arrival."""
    part = laid.stretch(shape, rows_between(shape.arrival_s, *span))
    return laid.merged([laid.moved(part, copy, copying, seed)])


@lru_cache(maxsize=128)
def _exchanged(shape: Shape, span: Span, copy: int, copying: Copying, seed: int) -> Laid:
    """Return a copy of a span, in order of arrival, whose short sessions bring what others did."""
    part = laid.stretch(shape, rows_between(shape.arrival_s, *span))
    long = part.taken(sessions_of(shape).long_rows[part.row])
    kept = laid.moved(long, copy, copying, seed)
    return laid.merged([kept, exchanged(shape, span, copy, copying, seed)])


def _taken(requests: Requests, copies: Laid) -> Requests:
    """Return the requests that copies of a trace without block ids are made of."""
    columns = _columns(requests, copies.row)
    return replace(
        requests, **columns | {"arrival_s": copies.arrival_s, "session_id": copies.session_id}
    )


def _columns(requests: Requests, which: Any) -> dict[str, Any]:  # noqa: ANN401 - slice or array
    """Return what there is for each request, of some of them."""
    found = {name: getattr(requests, name) for name in PER_REQUEST}
    return {name: of[which] if len(of) == len(requests) else of for name, of in found.items()}


def _with_blocks(part: Requests, factor: float, copying: Copying, seed: int) -> Requests:
    """Return a trace with block ids laid over itself: each copy has blocks of its own."""
    whole, rest = _parts(factor)
    last = _moved(part, whole, copying, seed)
    parts = [part, *(_moved(part, copy, copying, seed) for copy in range(1, whole))]
    return _merged([*parts, last if rest >= 1.0 else thin(last, rest, seed=seed)])


@lru_cache(maxsize=64)
def _moved(part: Requests, copy: int, copying: Copying, seed: int) -> Requests:
    """Return a displaced copy of a trace with block ids, in order of arrival."""
    ids = part.block_ids
    copied = replace(
        part,
        arrival_s=laid.moved_s(part.arrival_s, part.session_id, copy, copying, seed),
        session_id=laid.moved_sessions(part.session_id, copy),
        block_ids=ids + copy * (ids.max(initial=-1) + 1),
    )
    return _merged([copied])


def _merged(parts: list[Requests]) -> Requests:
    """Lay traces with block ids over each other, in order of arrival."""
    arrival = np.concatenate([part.arrival_s for part in parts])
    order = np.argsort(arrival, kind="stable")  # merges stretches that are in order already

    def of(name: str) -> Any:  # noqa: ANN401 - integers or floats
        values = np.concatenate([getattr(part, name) for part in parts])
        return values[order] if len(values) == len(order) else values

    starts, lengths = [], []
    base = 0
    for part in parts:
        starts.append(part.block_offset[:-1] + base)
        lengths.append(np.diff(part.block_offset))
        base += len(part.block_ids)
    ids = np.concatenate([part.block_ids for part in parts])
    begin, length = np.concatenate(starts)[order], np.concatenate(lengths)[order]
    offset = np.concatenate(([0], np.cumsum(length)))
    inside = np.arange(offset[-1]) - np.repeat(offset[:-1], length)
    return replace(
        parts[0],
        **{name: of(name) for name in PER_REQUEST},
        block_offset=offset,
        block_ids=ids[np.repeat(begin, length) + inside],
    )


PER_REQUEST = (
    "arrival_s",
    "input_tokens",
    "output_tokens",
    "class_id",
    "cached_tokens",
    "session_id",
    "observed_ttft_s",
    "observed_e2e_s",
)


def subset(requests: Requests, keep: NDArray[np.bool_]) -> Requests:
    """Return the requests that `keep` marks, on the same clock."""
    offsets, ids = requests.block_offset, requests.block_ids
    if len(offsets):
        counts = np.diff(offsets)
        ids = ids[np.repeat(keep, counts)]
        offsets = np.concatenate(([0], np.cumsum(counts[keep])))
    return replace(
        requests,
        **_columns(requests, keep),
        block_offset=offsets,
        block_ids=ids,
    )
