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
from planner.sim.copying import INDEPENDENT, Copying, drawn_widths, folded
from planner.sim.exchange import exchanged, keys_of, sessions_of
from planner.sim.routing import MOVE, THIN, WIDTH, uniforms

Span = tuple[float, float]

MOST_KEPT = 500_000  # requests of a copy that is kept to be asked for again: 30 MB


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
    return subset(requests, uniforms(keys_of(requests), seed, THIN) < factor)


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
    whole = math.ceil(factor) - 1
    rest = factor - whole
    exchanges = bool(copying.content) and not len(requests.block_ids)
    copier = _exchanged if exchanges else _copied
    copied: Callable[..., Requests] = copier if len(part) <= MOST_KEPT else copier.__wrapped__
    source = (requests, _span_of(requests, span)) if exchanges else (part, None)
    parts = [part, *(copied(*source, copy, copying, seed) for copy in range(1, whole))]
    last = copied(*source, whole, copying, seed)
    parts.append(last if rest >= 1.0 else thin(last, rest, seed=seed))
    return merged(parts)


@lru_cache(maxsize=16)
def between(requests: Requests, start_s: float, end_s: float) -> Requests:
    """Return the requests that arrive in [start, end]."""
    inside = (requests.arrival_s >= start_s) & (requests.arrival_s <= end_s)
    return subset(requests, inside)


def _span_of(requests: Requests, span: Span | None) -> Span:
    if span is not None or not len(requests):
        return span or (0.0, 0.0)
    return float(requests.arrival_s[0]), float(requests.arrival_s[-1])


# Probes lay the same copies over a stretch again and again; only how many of them differs. Copies
# of a whole long trace are few and large: they are made anew.
@lru_cache(maxsize=64)
def _copied(
    part: Requests,
    span: Span | None,  # noqa: ARG001 - the same arguments as `_exchanged`
    copy: int,
    copying: Copying,
    seed: int,
) -> Requests:
    """Return a displaced copy in order of arrival."""
    return merged([_moved(part, copy, copying, seed)])


@lru_cache(maxsize=64)
def _exchanged(requests: Requests, span: Span, copy: int, copying: Copying, seed: int) -> Requests:
    """Return a copy of a span, in order of arrival, whose short sessions bring what others did."""
    part = between(requests, *span)
    long = sessions_of(requests).long_rows
    inside = (requests.arrival_s >= span[0]) & (requests.arrival_s <= span[1])
    kept = _moved(subset(part, long[inside]), copy, copying, seed)
    return merged([kept, exchanged(requests, span, copy, copying, seed)])


def _moved(requests: Requests, copy: int, copying: Copying, seed: int) -> Requests:
    """Return a copy whose sessions are displaced by up to ± width/2, reflected at the ends.

    A trace shorter than the displacement is reflected back and forth: nothing piles up at an end.
    """
    first, last = (requests.arrival_s[0], requests.arrival_s[-1]) if len(requests) else (0.0, 0.0)
    keys = keys_of(requests)
    width = drawn_widths(copying.within, keys, seed, WIDTH + copy)
    shift = (uniforms(keys, seed, MOVE + copy) - 0.5) * width
    moved = folded(requests.arrival_s + shift, float(first), float(last))
    sessions, ids = requests.session_id, requests.block_ids
    return replace(
        requests,
        arrival_s=moved,
        session_id=np.where(
            sessions >= 0, sessions + copy * (sessions.max(initial=-1) + 1), sessions
        ),
        block_ids=ids + copy * (ids.max(initial=-1) + 1),
    )


def merged(parts: list[Requests]) -> Requests:
    """Lay traces over each other, in order of arrival."""
    first = parts[0]
    arrival = np.concatenate([part.arrival_s for part in parts])
    order = np.argsort(arrival, kind="stable")  # merges stretches that are in order already

    def of(name: str) -> Any:  # noqa: ANN401 - integers or floats
        values = np.concatenate([getattr(part, name) for part in parts])
        return values[order] if len(values) == len(order) else values

    merged = replace(
        first,
        arrival_s=arrival[order],
        **{name: of(name) for name in PER_REQUEST if name != "arrival_s"},
    )
    if not len(first.block_offset):
        return merged
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
    return replace(merged, block_offset=offset, block_ids=ids[np.repeat(begin, length) + inside])


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

    def of(name: str) -> Any:  # noqa: ANN401 - integers or floats
        values = getattr(requests, name)
        return values[keep] if len(values) == len(keep) else values

    offsets, ids = requests.block_offset, requests.block_ids
    if len(offsets):
        counts = np.diff(offsets)
        ids = ids[np.repeat(keep, counts)]
        offsets = np.concatenate(([0], np.cumsum(counts[keep])))
    return replace(
        requests,
        **{name: of(name) for name in PER_REQUEST},
        block_offset=offsets,
        block_ids=ids,
    )
