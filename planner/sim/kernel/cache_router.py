"""A router that knows what every replica's prefix cache holds, and how loaded each is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.sim.by_reference import refer
from planner.sim.jit import entry, part, rare
from planner.sim.kernel import ledger, prefix
from planner.sim.kernel.fleet import Fleet, append, catch_up, outstanding, replica
from planner.sim.kernel.world import World


@part
def hits_in(w: World, number: int) -> int:
    """Return how many of a prompt's leading full blocks a replica's cache holds now."""
    prefix.settle(w)
    row = w.prefix[number]
    hits = 0
    while hits < row.shared_blocks and w.first_node[prefix.key_of(w, row.begin, hits)] >= 0:
        hits += 1
    return hits


@rare
def cached_blocks(f: Fleet, r: int, number: int) -> int:
    """Return how many of a prompt's leading full blocks replica `r` holds now."""
    return hits_in(refer(replica(f, r)), number)


@part
def lightest(loads: NDArray[np.int64], overlaps: NDArray[np.int64], least: int, chosen: int) -> int:
    """Return the replica with the lowest load of those with `least` blocks or more.

    Ties go round: the search starts behind the last choice.
    """
    replicas = len(loads)
    choice = -1
    for k in range(replicas):
        r = (chosen + 1 + k) % replicas
        if overlaps[r] >= least and (choice < 0 or loads[r] < loads[choice]):
            choice = r
    return choice


@part
def least_overlap(
    loads: NDArray[np.int64],
    overlaps: NDArray[np.int64],
    blocks: int,
    thresholds: Any,  # noqa: ANN401 - a tuple or an array of three
) -> int:
    """Return the blocks that the chosen replica must hold at least, of a prompt of `blocks`."""
    low = loads[0]
    high = loads[0]
    best = overlaps[0]
    for r in range(1, len(loads)):
        low = min(low, loads[r])
        high = max(high, loads[r])
        best = max(best, overlaps[r])
    uneven = high - low > thresholds[1] and high > thresholds[2] * low
    return 0 if uneven or best <= thresholds[0] * blocks else int(best)


@entry
def run_cache_aware(
    fleet: Fleet,
    tails: NDArray[np.int64],
    assigned: NDArray[np.int64],
    loads: NDArray[np.int64],
    overlaps: NDArray[np.int64],
    replica_of: NDArray[np.int32],
    thresholds: tuple[float, float, float],
) -> None:
    """Send every request where the longest part of its prompt is cached; run to the end.

    `thresholds` are cache_threshold, balance_abs_threshold and balance_rel_threshold, see
    `planner.sim.routing.CacheAware`; `loads` and `overlaps` are room to work, one a replica.
    """
    f = refer(fleet)
    replicas = len(f.states)
    chosen = replicas - 1
    for number in range(len(f.requests)):
        at_s = f.requests[number].arrival_s
        for r in range(replicas):
            if not catch_up(f, r, at_s):
                return
            loads[r] = outstanding(f.states[r], assigned[r], at_s)
            overlaps[r] = cached_blocks(f, r, number)
        blocks = ledger.blocks_of(f.requests[number].input_tokens, f.states[0].block_size)
        best = least_overlap(loads, overlaps, blocks, thresholds)
        chosen = lightest(loads, overlaps, best, chosen)
        append(f, chosen, tails[chosen], number)
        tails[chosen] = number
        assigned[chosen] += 1
        replica_of[number] = chosen
    for r in range(replicas):
        if not catch_up(f, r, np.inf):
            return
