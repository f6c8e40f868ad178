"""Replicas that share a router, and requests that arrive when another one ended.

What ends next is not known beforehand, so replicas take turns: the one whose next event ends first
runs it. No other can end a request before, so what has arrived until then is all there is, and is
routed as it comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.sim.by_reference import refer
from planner.sim.jit import entry, rare
from planner.sim.kernel import cache_router, ledger, release, vllm_v1
from planner.sim.kernel.fleet import Fleet, append, outstanding, replica

LINE, RELEASED = 0, 1  # places of Router.counts


class Router(NamedTuple):
    """What the router knows and remembers; `loads` and `overlaps` are room to work."""

    tails: NDArray[np.int64]  # [replicas] last request of each, -1: none
    assigned: NDArray[np.int64]  # [replicas]
    loads: NDArray[np.int64]  # [replicas]
    overlaps: NDArray[np.int64]  # [replicas]
    due_s: NDArray[np.float64]  # [replicas] when the next event ends, or can start; inf: idle
    known: NDArray[np.int64]  # requests that arrive by themselves, in order
    coming: NDArray[np.int64]  # [n] heap of the released
    counts: NDArray[np.int64]  # the line of a closed loop (see World.st.line); size of the heap
    replica_of: NDArray[np.int32]  # [n] filled
    thresholds: NDArray[np.float64]  # of cache-aware routing; empty: by load alone


@rare
def run_until(f: Fleet, router: Router, r: int, until_s: float) -> None:
    """Run what replica `r` starts before `until_s`; take what it released to the others."""
    st = f.states[r]
    st.resume = -np.inf
    st.line = router.counts[LINE]
    vllm_v1.advance(refer(replica(f, r)), until_s)
    router.counts[LINE] = st.line
    for i in range(st.released):
        router.counts[RELEASED] = release.push_by_arrival(
            f.requests, router.coming, router.counts[RELEASED], f.releases[i]
        )
    st.released = 0


@rare
def run_next(f: Fleet, router: Router, r: int) -> None:
    """Run the next event of replica `r`, or find when it will end: that of a run of steps."""
    st = f.states[r]
    events = st.events
    found = st.resume > st.now
    run_until(f, router, r, st.resume if found else np.nextafter(router.due_s[r], np.inf))
    if st.resume > st.now:
        router.due_s[r] = st.resume
    elif st.events > events:
        router.due_s[r] = st.now
    elif st.head >= 0:  # it had fallen idle unnoticed when this came
        router.due_s[r] = f.requests[st.head].arrival_s
    else:
        router.due_s[r] = np.inf


@rare
def look(f: Fleet, router: Router, r: int, number: int) -> int:
    """Return how much of a prompt, which arrives now, replica `r` has in its prefix cache.

    What is in it changes with every step: a run of steps is cut.
    """
    st = f.states[r]
    if router.due_s[r] < np.inf:
        st.observed = 1
        run_until(f, router, r, f.requests[number].arrival_s)
        st.observed = 0
        router.due_s[r] = st.now
    return cache_router.cached_blocks(f, r, number)


@rare
def choose(f: Fleet, router: Router, number: int, chosen: int) -> int:
    """Return the replica that a request goes to, which arrives now."""
    replicas = len(f.states)
    by_cache = len(router.thresholds) > 0
    for r in range(replicas):
        if by_cache:
            router.overlaps[r] = look(f, router, r, number)
        router.loads[r] = outstanding(f.states[r], router.assigned[r], f.requests[number].arrival_s)
    best = 0
    if by_cache:
        blocks = ledger.blocks_of(f.requests[number].input_tokens, f.states[0].block_size)
        best = cache_router.least_overlap(router.loads, router.overlaps, blocks, router.thresholds)
    return cache_router.lightest(router.loads, router.overlaps, best, chosen)


@rare
def route(f: Fleet, router: Router, number: int, chosen: int) -> int:
    """Send a request, which arrives now, to a replica; return which."""
    r = choose(f, router, number, chosen)
    append(f, r, router.tails[r], number)
    # It may end sooner what was put off, or wake who is idle.
    at_s = f.requests[number].arrival_s
    router.due_s[r] = at_s if router.due_s[r] == np.inf else f.states[r].now
    router.tails[r] = number
    router.assigned[r] += 1
    router.replica_of[number] = r
    return r


@rare
def next_arrival(f: Fleet, router: Router, listed: int) -> int:
    """Return the request that arrives next of all that are known, -1 if there is none."""
    number = -1
    if listed < len(router.known):
        number = router.known[listed]
    if router.counts[RELEASED] > 0:
        first = router.coming[0]
        if number < 0 or release.precedes(f.requests, first, number):
            number = first
    return int(number)


@entry
def run_following(fleet: Fleet, shared: Router) -> None:
    """Route every request when it arrives; run to the end."""
    f = refer(fleet)
    router = refer(shared)
    chosen = len(f.states) - 1
    listed = 0
    while True:
        number = next_arrival(f, router, listed)
        r = 0
        for k in range(1, len(f.states)):
            if router.due_s[k] < router.due_s[r]:
                r = k
        if number >= 0 and f.requests[number].arrival_s <= router.due_s[r]:
            if listed < len(router.known) and number == router.known[listed]:
                listed += 1
            else:
                router.counts[RELEASED] = release.pop_by_arrival(
                    f.requests, router.coming, router.counts[RELEASED]
                )
            chosen = route(f, router, number, chosen)
            continue
        if router.due_s[r] == np.inf:
            return
        run_next(f, router, r)
        if f.states[r].lost == 1 or f.states[r].fault > 0:
            return
