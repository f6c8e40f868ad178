"""Several replicas that share a router: their arrays have a leading axis of replicas."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.sim.by_reference import refer
from planner.sim.jit import entry, inlined, part
from planner.sim.kernel import vllm_v1
from planner.sim.kernel.world import World


class Fleet(NamedTuple):
    """A World for each replica, and the requests they share. Field by field as in World."""

    states: Any
    slots: Any
    requests: Any
    table: Any
    groups: Any
    residue: NDArray[np.int64]
    classes: NDArray[np.int64]
    heap: NDArray[np.int64]
    cross_heap: NDArray[np.int64]
    resume: Any
    waiting: NDArray[np.int64]
    rank: NDArray[np.int64]
    turns: Any
    releases: NDArray[np.int64]
    prefix: Any
    ids: NDArray[np.int32]
    nodes: Any
    first_node: NDArray[np.int32]
    held: NDArray[np.int32]
    bins: Any
    bin_window: NDArray[np.int64]
    gaps: NDArray[np.int64]
    targets: Any
    tally: NDArray[np.int64]


def member(f: Fleet, r: int) -> World:
    """Return replica `r`: views, not copies."""
    return World(
        f.states[r],
        f.slots[r],
        f.requests,
        f.table,
        f.groups[r],
        f.residue[r],
        f.classes[r],
        f.heap[r],
        f.cross_heap[r],
        f.resume,
        f.waiting[r],
        f.rank,
        f.turns,
        f.releases,
        f.prefix,
        f.ids,
        f.nodes[r],
        f.first_node[r],
        f.held[r],
        f.bins,
        f.bin_window,
        f.gaps,
        f.targets,
        f.tally,
    )


replica = inlined(member)


@part
def outstanding(w: World, assigned: int, at_s: float) -> int:
    """Return the requests of a replica that have not given their last token at `at_s`.

    The step that was running at `at_s` has been executed to its end: what finishes then counts.
    """
    done = w.st.finished
    if w.st.now > at_s:
        done -= w.st.finished_last
    return int(assigned - done)


@part
def append(w: World, tail: int, number: int) -> None:
    """Queue a request at a replica whose last queued request is `tail` (-1: none ever)."""
    w.requests[number].following = -1
    w.st.resume = -np.inf  # a run that was put off may end sooner now
    if w.st.head < 0:
        w.st.head = number
    else:
        w.requests[tail].following = number


@entry
def run_least_loaded(
    f: Fleet, tails: NDArray[np.int64], assigned: NDArray[np.int64], replica_of: NDArray[np.int32]
) -> None:
    """Send every request to the replica with the fewest unfinished requests; run to the end.

    Ties go round: the search starts behind the last choice.
    """
    replicas = len(f.states)
    chosen = replicas - 1
    for number in range(len(f.requests)):
        at_s = f.requests[number].arrival_s
        fewest = -1
        choice = 0
        for k in range(replicas):
            r = (chosen + 1 + k) % replicas
            w = refer(replica(f, r))
            vllm_v1.advance(w, at_s)
            if w.st.lost == 1 or w.st.fault > 0:
                return
            load = outstanding(w, assigned[r], at_s)
            if fewest < 0 or load < fewest:
                fewest = load
                choice = r
        chosen = choice
        append(refer(replica(f, choice)), tails[choice], number)
        tails[choice] = number
        assigned[choice] += 1
        replica_of[number] = choice
    for r in range(replicas):
        vllm_v1.advance(refer(replica(f, r)), np.inf)
        if f.states[r].lost == 1 or f.states[r].fault > 0:
            return
