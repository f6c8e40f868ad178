"""Several stepped replicas that share a router."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.sim.jit import entry, inlined
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


@entry
def run_least_loaded(
    f: Fleet,
    pipes: Pipe,
    tails: NDArray[np.int64],
    assigned: NDArray[np.int64],
    replica_of: NDArray[np.int32],
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
            w = replica(f, r)
            stepped.advance(w, pipe(pipes, r), at_s)
            if w.st.lost == 1 or w.st.fault > 0:
                return
            load = outstanding(w, assigned[r], at_s)
            if fewest < 0 or load < fewest:
                fewest = load
                choice = r
        chosen = choice
        append(replica(f, choice), tails[choice], number)
        tails[choice] = number
        assigned[choice] += 1
        replica_of[number] = choice
    for r in range(replicas):
        stepped.advance(replica(f, r), pipe(pipes, r), np.inf)
        if f.states[r].lost == 1 or f.states[r].fault > 0:
            return
