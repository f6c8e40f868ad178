"""Several stepped replicas that share a router."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.sim.by_reference import refer
from planner.sim.jit import entry, inlined, rare
from planner.sim.kernel import stepped
from planner.sim.kernel.fleet import Fleet, append, outstanding, replica
from planner.sim.kernel.pipeline import Pipe


def pipe_member(p: Pipe, r: int) -> Pipe:
    """Return replica `r`: views, not copies."""
    return Pipe(
        p.st[r],
        p.lanes[r],
        p.flights[r],
        p.members[r],
        p.ready_s[r],
        p.padding,
        p.draws,
        p.first_draw,
        p.bubble_s,
    )


pipe = inlined(pipe_member)


@rare
def catch_up(f: Fleet, pipes: Pipe, r: int, until_s: float) -> bool:
    """Run one replica up to `until_s`; return whether the others may go on."""
    stepped.advance(refer(replica(f, r)), refer(pipe(pipes, r)), until_s)
    return bool(f.states[r].lost == 0 and f.states[r].fault == 0)


@entry
def run_least_loaded(
    fleet: Fleet,
    pipe_lines: Pipe,
    tails: NDArray[np.int64],
    assigned: NDArray[np.int64],
    replica_of: NDArray[np.int32],
) -> None:
    """Send every request to the replica with the fewest unfinished requests; run to the end.

    Ties go round: the search starts behind the last choice.
    """
    f = refer(fleet)
    pipes = refer(pipe_lines)
    replicas = len(f.states)
    chosen = replicas - 1
    for number in range(len(f.requests)):
        at_s = f.requests[number].arrival_s
        fewest = -1
        choice = 0
        for k in range(replicas):
            r = (chosen + 1 + k) % replicas
            if not catch_up(f, pipes, r, at_s):
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
        if not catch_up(f, pipes, r, np.inf):
            return
