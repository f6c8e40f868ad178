"""Copies of a trace without its contents: which request comes when, and in which session.

Traces that differ in their token counts alone are copied alike, so a copy is made once for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim.copying import Copying, drawn_widths, folded
from planner.sim.routing import MOVE, THIN, WIDTH, uniforms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shape:
    """When a trace's requests arrive, in which sessions and classes; equal where the arrays are."""

    arrival_s: Floats
    session_id: Ints
    class_id: Ints
    classes: int

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.arrival_s, self.session_id, self.class_id

    def __eq__(self, other: object) -> bool:
        """Return whether both are made of the same arrays."""
        if not isinstance(other, Shape):
            return NotImplemented
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return all(mine is theirs for mine, theirs in pairs)

    def __hash__(self) -> int:
        """Return a hash of which arrays these are."""
        return hash(tuple(id(array) for array in self._arrays()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laid:
    """Requests of a trace laid elsewhere: their rows there, new arrivals and sessions."""

    row: Ints
    arrival_s: Floats
    session_id: Ints

    def __len__(self) -> int:
        return len(self.row)

    def taken(self, which: NDArray[Any]) -> Laid:
        """Return those that a mask or an order names."""
        return Laid(
            row=self.row[which],
            arrival_s=self.arrival_s[which],
            session_id=self.session_id[which],
        )


def shape_of(requests: Requests) -> Shape:
    """Return the shape of a trace."""
    return Shape(
        arrival_s=requests.arrival_s,
        session_id=requests.session_id,
        class_id=requests.class_id,
        classes=len(requests.class_names),
    )


def rows_between(arrival_s: Floats, start_s: float, end_s: float) -> slice:
    """Return where the requests lie that arrive in [start, end].

    >>> rows_between(np.array([0.0, 1.0, 1.0, 2.0]), 1.0, 1.5)
    slice(1, 3, None)
    """
    first = int(np.searchsorted(arrival_s, start_s, side="left"))
    return slice(first, max(first, int(np.searchsorted(arrival_s, end_s, side="right"))))


def stretch(shape: Shape, rows: slice) -> Laid:
    """Return a stretch of a trace where it lies."""
    return Laid(
        row=np.arange(rows.start, rows.stop),
        arrival_s=shape.arrival_s[rows],
        session_id=shape.session_id[rows],
    )


def keys_of(session_id: Ints) -> Ints:
    """Return one counter for each session or lone request."""
    lone = -1 - np.arange(len(session_id), dtype=np.int64)  # sessions count from 0
    return np.where(session_id >= 0, session_id, lone)


def thinned(session_id: Ints, factor: float, seed: int) -> NDArray[np.bool_]:
    """Mark the requests of which each session (or lone request) stays with `factor`."""
    return uniforms(keys_of(session_id), seed, THIN) < factor


def moved_s(arrival_s: Floats, session_id: Ints, copy: int, copying: Copying, seed: int) -> Floats:
    """Return arrivals whose sessions are displaced by up to ± width/2, reflected at the ends.

    A trace shorter than the displacement is reflected back and forth: nothing piles up at an end.
    """
    first, last = (arrival_s[0], arrival_s[-1]) if len(arrival_s) else (0.0, 0.0)
    keys = keys_of(session_id)
    width = drawn_widths(copying.within, keys, seed, WIDTH + copy)
    shift = (uniforms(keys, seed, MOVE + copy) - 0.5) * width
    return folded(arrival_s + shift, float(first), float(last))


def moved_sessions(session_id: Ints, copy: int) -> Ints:
    """Return ids that no other copy has; -1 stays."""
    apart = copy * (session_id.max(initial=-1) + 1)
    return np.where(session_id >= 0, session_id + apart, session_id)


def moved(laid: Laid, copy: int, copying: Copying, seed: int) -> Laid:
    """Return a copy whose sessions are displaced, in no order."""
    return Laid(
        row=laid.row,
        arrival_s=moved_s(laid.arrival_s, laid.session_id, copy, copying, seed),
        session_id=moved_sessions(laid.session_id, copy),
    )


def merged(parts: list[Laid]) -> Laid:
    """Lay stretches over each other, in order of arrival."""
    arrival = np.concatenate([part.arrival_s for part in parts])
    order = np.argsort(arrival, kind="stable")  # merges stretches that are in order already
    return Laid(
        row=np.concatenate([part.row for part in parts])[order],
        arrival_s=arrival[order],
        session_id=np.concatenate([part.session_id for part in parts])[order],
    )
