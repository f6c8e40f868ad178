"""Requests that arrive because another one ended: a session's next turn, a client's next request.

They wait by their arrival in a heap and enter the replica's list of requests, which is sorted by
arrival, when they are next: behind everything that has arrived before them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.sim.jit import part, rare
from planner.sim.kernel.world import World

LAST_SENT = -2  # the line when it is empty: LAST_SENT − the request that was last in it


@part
def precedes(requests: Any, a: int, b: int) -> bool:  # noqa: ANN401 - records
    """Return whether request `a` arrives before request `b`; ties go by their numbers."""
    if requests[a].arrival_s == requests[b].arrival_s:
        return a < b
    return bool(requests[a].arrival_s < requests[b].arrival_s)


@rare
def push_by_arrival(requests: Any, heap: NDArray[np.int64], size: int, number: int) -> int:  # noqa: ANN401
    """Put a request whose arrival is known into a heap of `size`; return the new size."""
    child = int(size)
    while child > 0:
        parent = (child - 1) >> 1
        if precedes(requests, heap[parent], number):
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = number
    return int(size + 1)


@rare
def pop_by_arrival(requests: Any, heap: NDArray[np.int64], size: int) -> int:  # noqa: ANN401
    """Take the request that arrives first out of a heap of `size`; return the new size."""
    left = int(size - 1)
    number = heap[left]
    hole = 0
    child = 1
    while child < left:
        if child + 1 < left and precedes(requests, heap[child + 1], heap[child]):
            child += 1
        if precedes(requests, number, heap[child]):
            break
        heap[hole] = heap[child]
        hole = child
        child = 2 * hole + 1
    heap[hole] = number
    return left


@part
def push(w: World, number: int) -> None:
    """Put a request whose arrival is known into the replica's heap."""
    w.st.released = push_by_arrival(w.requests, w.releases, w.st.released, number)


@part
def line_up(w: World, number: int, ready_s: float) -> None:
    """Let a client send at `ready_s`, `number` being the last in line that is to be sent.

    Clients take the line in the order in which they are ready. One that is ready before another,
    though its request ended later, takes what that one would have sent.
    """
    place = number
    while place > 0 and w.turns[place - 1].following == place:
        if w.requests[place - 1].arrival_s <= ready_s:
            break
        w.requests[place].arrival_s = w.requests[place - 1].arrival_s
        place -= 1
    w.requests[place].arrival_s = ready_s


@rare
def send_next(w: World, ready_s: float) -> None:
    """Let the client that is ready at `ready_s` take its place among those that send."""
    st = w.st
    number = st.line
    if number >= 0:
        after = w.turns[number].following
        st.line = after if after >= 0 else LAST_SENT - number
        line_up(w, number, ready_s)
        push(w, number)
    elif number <= LAST_SENT and w.requests[LAST_SENT - number].arrival_s > ready_s:
        line_up(w, LAST_SENT - number, ready_s)


@rare
def follow_up(w: World, number: int) -> None:
    """Let the request arrive that waited for the end of request `number`, which is now.

    The client has its last token when the front end is done with it. A session's turn waits for the
    one before it; a client takes the next request in line.
    """
    st = w.st
    outside_s = st.frontend_s + st.frontend_token_s * w.requests[number].input_tokens
    ready_s = st.now + outside_s
    if st.clients > 0:
        send_next(w, ready_s)
        return
    following = w.turns[number].following
    if following < 0:
        return
    turn = w.turns[following]
    w.requests[following].arrival_s = max(turn.earliest_s, ready_s + turn.think_s)
    push(w, following)


@rare
def take_in(w: World) -> None:
    """List the released requests that have arrived, and the one that is the next to arrive."""
    st = w.st
    while st.released > 0:
        number = int(w.releases[0])
        before = st.arrived
        after = w.requests[before].following if before >= 0 else st.head
        while after >= 0 and precedes(w.requests, after, number):
            if w.requests[after].arrival_s > st.visible:
                return
            st.arrived = before = after
            after = w.requests[before].following
        st.released = pop_by_arrival(w.requests, w.releases, st.released)
        w.requests[number].following = after
        if before >= 0:
            w.requests[before].following = number
        else:
            st.head = number


@part
def leave_list(w: World) -> None:
    """Take the first request off the list."""
    st = w.st
    if st.arrived == st.head:
        st.arrived = -1
    st.head = w.requests[st.head].following
