"""Several replicas that share a router: their arrays have a leading axis of replicas."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.sim.by_reference import refer
from planner.sim.jit import entry, inlined, part, rare
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
    shed: NDArray[np.int64]
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
        f.shed[r],
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
def outstanding(st: Any, assigned: int, at_s: float) -> int:  # noqa: ANN401 - a record
    """Return the requests of a replica that have not given their last token at `at_s`.

    The step that was running at `at_s` has been executed to its end: what finishes then counts.
    """
    done = st.finished
    if st.now > at_s:
        done -= st.finished_last
    return int(assigned - done)


@part
def append(f: Fleet, r: int, tail: int, number: int) -> None:
    """Queue a request at a replica whose last queued request is `tail` (-1: none ever)."""
    f.requests[number].following = -1
    f.states[r].resume = -np.inf  # a run that was put off may end sooner now
    if f.states[r].head < 0:
        f.states[r].head = number
    else:
        f.requests[tail].following = number


@rare
def catch_up(f: Fleet, r: int, until_s: float) -> bool:
    """Run one replica up to `until_s`; return whether the others may go on."""
    vllm_v1.advance(refer(replica(f, r)), until_s)
    return bool(f.states[r].lost == 0 and f.states[r].fault == 0)


@entry
def run_least_loaded(
    fleet: Fleet,
    tails: NDArray[np.int64],
    assigned: NDArray[np.int64],
    replica_of: NDArray[np.int32],
) -> None:
    """Send every request to the replica with the fewest unfinished requests; run to the end.

    Ties go round: the search starts behind the last choice.
    """
    f = refer(fleet)
    replicas = len(f.states)
    chosen = replicas - 1
    for number in range(len(f.requests)):
        at_s = f.requests[number].arrival_s
        fewest = -1
        choice = 0
        for k in range(replicas):
            r = (chosen + 1 + k) % replicas
            # A run that was put off, and ends later, cannot change what is unfinished now.
            if f.states[r].resume < at_s and not catch_up(f, r, at_s):
                return
            load = outstanding(f.states[r], assigned[r], at_s)
            if fewest < 0 or load < fewest:
                fewest = load
                choice = r
        chosen = choice
        append(f, choice, tails[choice], number)
        tails[choice] = number
        assigned[choice] += 1
        replica_of[number] = choice
    for r in range(replicas):
        if not catch_up(f, r, np.inf):
            return
