"""Less or more of the same traffic: thin a trace, or lay displaced copies over it.

Both keep the rate's course over the day and whole sessions; time is never stretched.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim.routing import MOVE, THIN, uniforms

Ints = NDArray[np.int64]

INDEPENDENT_S = 600.0  # copies displaced by up to ± 5 minutes do not burst together
CORRELATED_S = 1.0  # copies displaced by up to ± half a second do


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
    return subset(requests, uniforms(_keys(requests), seed, THIN) < factor)


def _keys(requests: Requests) -> Ints:
    """Return one counter for each session or lone request."""
    lone = -1 - np.arange(len(requests), dtype=np.int64)  # sessions count from 0
    return np.where(requests.session_id >= 0, requests.session_id, lone)


def scale(
    requests: Requests,
    factor: float,
    *,
    seed: int = 42,
    correlated: bool = False,
    spread_s: float = INDEPENDENT_S,
) -> Requests:
    """Return `factor` times the traffic: thinned below 1, copies laid over each other above.

    Parameters
    ----------
    requests
        The trace.
    factor
        Share or multiple of the traffic.
    seed
        Which thinning and which displacements.
    correlated
        How copies burst. False displaces every session by up to half of `spread_s` either way:
        bursts of users who have nothing to do with each other average out. True keeps copies
        together: bursts grow with the load. The truth lies between.
    spread_s
        Shortest time over which the trace's rate is the service's own and not the luck of a draw.
    """
    if factor <= 1.0:
        return thin(requests, factor, seed=seed)
    width = CORRELATED_S if correlated else spread_s
    whole = math.ceil(factor) - 1
    rest = factor - whole
    parts = [requests, *(_copied(requests, copy, width, seed) for copy in range(1, whole))]
    if rest >= 1.0:
        parts.append(_copied(requests, whole, width, seed))
    else:
        parts.append(_merged([thin(_moved(requests, whole, width, seed), rest, seed=seed)]))
    return _merged(parts)


# Probes lay the same copies over a stretch again and again; only how many of them differs.
@lru_cache(maxsize=64)
def _copied(requests: Requests, copy: int, width_s: float, seed: int) -> Requests:
    """Return a displaced copy in order of arrival."""
    return _merged([_moved(requests, copy, width_s, seed)])


def _moved(requests: Requests, copy: int, width_s: float, seed: int) -> Requests:
    """Return a copy whose sessions are displaced by up to ± width/2, reflected at the ends.

    Never by more than the trace is long: a session reflected once would not be back inside it.
    """
    first, last = (requests.arrival_s[0], requests.arrival_s[-1]) if len(requests) else (0.0, 0.0)
    width = min(width_s, 2.0 * float(last - first))
    shift = (uniforms(_keys(requests), seed, MOVE + copy) - 0.5) * width
    moved = requests.arrival_s + shift
    moved = np.where(moved < first, 2.0 * first - moved, moved)
    moved = np.where(moved > last, 2.0 * last - moved, moved)
    sessions, ids = requests.session_id, requests.block_ids
    return replace(
        requests,
        arrival_s=np.clip(moved, first, last),
        session_id=np.where(
            sessions >= 0, sessions + copy * (sessions.max(initial=-1) + 1), sessions
        ),
        block_ids=ids + copy * (ids.max(initial=-1) + 1),
    )


def _merged(parts: list[Requests]) -> Requests:
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
