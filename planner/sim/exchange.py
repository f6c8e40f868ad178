"""Copies of a sampled trace whose sessions bring what other sessions of their class brought.

When sessions start is kept, what they ask is taken from a wider time around: so a stretch of the
copy has the lengths of the class and not of the few sessions that the sample holds there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.sim.copying import Copying, drawn_widths, folded
from planner.sim.laid import Laid, Shape, keys_of
from planner.sim.routing import CONTENT, MOVE, WIDTH, uniforms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Span = tuple[float, float]

LONG_S = 3600.0  # a session that lasts longer is a user, not a conversation: it keeps its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """A trace session by session; a request of none is one of its own."""

    key: Ints  # counter of its draws
    start_s: Floats
    class_id: Ints
    short: NDArray[np.bool_]
    row: Ints  # rows of the trace, session by session
    first: Ints  # of each session in `row`; one more at the end
    by_class: tuple[Ints, ...]  # short sessions of each class in order of their start
    starts_by_class: tuple[Floats, ...]
    in_order: Ints  # short sessions in order of their start
    starts_in_order: Floats
    long_rows: NDArray[np.bool_]


@lru_cache(maxsize=4)
def sessions_of(shape: Shape) -> Sessions:
    """Return a trace session by session."""
    key, unit = np.unique(keys_of(shape.session_id), return_inverse=True)
    row = np.argsort(unit, kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(unit, minlength=len(key)))))
    start = shape.arrival_s[row[first[:-1]]]
    short = shape.arrival_s[row[first[1:] - 1]] - start <= LONG_S
    class_id = shape.class_id[row[first[:-1]]]
    order = np.argsort(start, kind="stable")
    order = order[short[order]]
    by_class = tuple(order[class_id[order] == c] for c in range(shape.classes))
    return Sessions(
        key=key,
        start_s=start,
        class_id=class_id,
        short=short,
        row=row,
        first=first,
        by_class=by_class,
        starts_by_class=tuple(start[each] for each in by_class),
        in_order=order,
        starts_in_order=start[order],
        long_rows=~short[unit],
    )


def exchanged(shape: Shape, span: Span, copy: int, copying: Copying, seed: int) -> Laid:
    """Return one copy of the short sessions in a span, in no order.

    Every session that starts there, or up to an hour before, is displaced as `copying.within` says
    and brings the requests of one that starts within `copying.content` of it.

    Parameters
    ----------
    shape
        Of the whole trace.
    span
        From and to, in s; requests outside are left out.
    copy
        Number of the copy, from 1.
    copying
        Widths.
    seed
        Of all draws.
    """
    trace = sessions_of(shape)
    earliest = max(span[0] - LONG_S, float(shape.arrival_s[0]))
    low, high = np.searchsorted(trace.starts_in_order, [earliest, np.nextafter(span[1], np.inf)])
    slots = trace.in_order[low:high]
    donors = _donors(trace, slots, copy, copying, seed)
    keys = trace.key[slots]
    widths = drawn_widths(copying.within, keys, seed, WIDTH + copy)
    shift = (uniforms(keys, seed, MOVE + copy) - 0.5) * widths
    start = folded(trace.start_s[slots] + shift, earliest, span[1])
    sizes = trace.first[donors + 1] - trace.first[donors]
    slot = np.repeat(np.arange(len(slots)), sizes)
    inside = np.arange(len(slot)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = trace.row[trace.first[donors][slot] + inside]
    arrival = start[slot] + shape.arrival_s[rows] - trace.start_s[donors][slot]
    kept = (arrival >= span[0]) & (arrival <= span[1])
    ids = np.where(shape.session_id[rows] >= 0, _session_ids(shape, keys, copy)[slot], -1)
    return Laid(row=rows[kept], arrival_s=arrival[kept], session_id=ids[kept])


def _donors(trace: Sessions, slots: Ints, copy: int, copying: Copying, seed: int) -> Ints:
    """Return the session whose requests each slot brings."""
    donors = slots.copy()
    for which, mixture in enumerate(copying.content):
        mine = np.flatnonzero(trace.class_id[slots] == which)
        if not len(mine):
            continue
        keys, start = trace.key[slots[mine]], trace.start_s[slots[mine]]
        half = drawn_widths(mixture, keys, seed, CONTENT + 2 * copy) / 2.0
        low = np.searchsorted(trace.starts_by_class[which], start - half, side="left")
        high = np.searchsorted(trace.starts_by_class[which], start + half, side="right")
        drawn = uniforms(keys, seed, CONTENT + 2 * copy + 1)
        donors[mine] = trace.by_class[which][low + (drawn * (high - low)).astype(np.int64)]
    return donors


def _session_ids(shape: Shape, keys: Ints, copy: int) -> Ints:
    """Return ids that no other copy has; a lone slot that brings a session gets one of its own."""
    sessions = int(shape.session_id.max(initial=-1)) + 1
    each = sessions + len(shape.session_id)
    return copy * each + np.where(keys >= 0, keys, sessions - 1 - keys)
