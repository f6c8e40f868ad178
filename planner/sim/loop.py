"""Arrivals that follow ends: a session's next turn, and clients that send one request at a time.

A log shows when requests came, not what their senders waited for. A session's turn waits for the
end of the turn before it. Where the log tells how long that one took, the rest of the recorded gap
was the user's thinking, and is kept:

    think = max(0, gap − recorded end-to-end latency);  arrival = end of the last turn + think.

Where it does not, no thinking is assumed: the turn keeps its recorded arrival, or comes when the
last turn ends, if that is later. A turn after a refused one keeps its recorded arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim.kernel.world import TURN, records

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loop:
    """What waits for what, by the rows of the served requests."""

    turns: Any  # world.TURN records, none where every request arrives by itself
    waits: Flags  # rows that arrive when another ends
    line: Ints  # closed loop: first row in line at each replica, -1: none
    clients: int  # of all replicas; 0: sessions


OPEN = Loop(
    turns=records(0, TURN), waits=np.zeros(0, np.bool_), line=np.zeros(0, np.int64), clients=0
)


def follow(
    requests: Requests,
    served: Ints,
    owner: NDArray[np.int32],
    replicas: int,
    *,
    by_session: bool,
    concurrency: int | None,
) -> Loop:
    """Return what waits for what: turns of a session, requests of `concurrency` clients, or none.

    `served` is the request and `owner` the replica of each row, replica by replica.
    """
    if by_session:
        return sessions(requests, served)
    if concurrency is not None:
        return clients(owner, replicas, concurrency)
    return OPEN


def session_owner(requests: Requests, served: Ints, owner: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the replica of each served request when sessions stay where their first turn went."""
    session = requests.session_id[served]
    _, first, turn_of = np.unique(session, return_index=True, return_inverse=True)
    return np.where(session >= 0, owner[first[turn_of]], owner)


def sessions(requests: Requests, served: Ints) -> Loop:
    """Let every turn of a session wait for the one before it.

    Parameters
    ----------
    requests
        The trace.
    served
        The request of each row; of a session, turns lie in order.
    """
    session = requests.session_id[served]
    order = np.lexsort((served, session))
    earlier, later = order[:-1], order[1:]
    turn = (session[earlier] == session[later]) & (session[later] >= 0)
    # What was refused in between breaks the chain.
    place = _place_in_session(requests)[served]
    turn &= place[later] == place[earlier] + 1
    earlier, later = earlier[turn], later[turn]
    turns = records(len(served), TURN)
    turns.following = -1
    turns.following[earlier] = later
    arrival = requests.arrival_s[served]
    took = np.full(len(served), np.nan)
    if len(requests.observed_e2e_s):
        took = requests.observed_e2e_s[served]
    rest = arrival[later] - arrival[earlier] - took[earlier]
    known = ~np.isnan(rest)
    turns.think_s[later] = np.where(known, np.maximum(rest, 0.0), 0.0)
    turns.earliest_s[later] = np.where(known, -np.inf, arrival[later])
    waits = np.zeros(len(served), np.bool_)
    waits[later] = True
    return Loop(turns=turns, waits=waits, line=np.zeros(0, np.int64), clients=0)


def _place_in_session(requests: Requests) -> Ints:
    """Return which turn of its session each request is, from 0."""
    session = requests.session_id
    order = np.argsort(session, kind="stable")
    ranked = session[order]
    start = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    lengths = np.diff(np.append(start, len(ranked)))
    place = np.empty(len(session), np.int64)
    place[order] = np.arange(len(session)) - np.repeat(start, lengths)
    return place


def clients(owner: NDArray[np.int32], replicas: int, concurrency: int) -> Loop:
    """Let `concurrency` clients, spread evenly over the replicas, send the trace's requests.

    Each replica's clients send what is routed to it, in the trace's order, one request at a time;
    all start together.

    Parameters
    ----------
    owner
        The replica of each row; a replica's rows lie together, in the trace's order.
    replicas, concurrency
        How many there are of each.
    """
    turns = records(len(owner), TURN)
    turns.earliest_s = -np.inf
    turns.following = -1
    same = np.flatnonzero(owner[1:] == owner[:-1])
    turns.following[same] = same + 1
    rows = np.arange(len(owner))
    first = np.searchsorted(owner, np.arange(replicas + 1))
    share = concurrency // replicas + (np.arange(replicas) < concurrency % replicas)
    start = np.minimum(first[:-1] + share, first[1:])
    line = np.where(start < first[1:], start, -1)
    return Loop(turns=turns, waits=rows >= start[owner], line=line, clients=concurrency)
