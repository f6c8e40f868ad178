"""Runs of decode steps where layers attend windows: blocks taken, and blocks given back.

In a run every decode is settled (see `planner.sim.kernel.windows`), so what is taken and given
repeats every `block_size` steps.
"""

from __future__ import annotations

from planner.sim.jit import windowed
from planner.sim.kernel import queue, windows
from planner.sim.kernel.world import World


@windowed
def shed_at(w: World, place: int) -> int:
    """Return what the settled decodes of residue class `place` give back."""
    total = 0
    for g in range(len(w.groups)):
        total += w.groups[g].tables * w.shed[g, place]
    return int(total)


@windowed
def taken_in_cycle(w: World) -> int:
    """Return the blocks that the decodes take in `block_size` steps, given ones off."""
    total = w.st.tables * w.st.decodes
    for place in range(w.st.block_size):
        total -= shed_at(w, place)
    return int(total)


@windowed
def taken_blocks(w: World, steps: int) -> int:
    """Return how many blocks the decodes take in the next `steps` steps, given ones off."""
    st = w.st
    cycles = steps // st.block_size
    total = cycles * taken_in_cycle(w) if cycles > 0 else 0
    place = st.cross
    for _ in range(steps - cycles * st.block_size):
        total += st.tables * w.residue[place] - shed_at(w, place)
        place = place - 1 if place > 0 else st.block_size - 1
    return int(total)


@windowed
def steps_within(w: World, steps: int) -> int:
    """Return how many of the next `steps` steps the free blocks are enough for in any order."""
    st = w.st
    free = st.free_blocks
    most = st.tables * st.decodes  # in one cycle
    if most * (steps // st.block_size + 1) <= free:
        return steps
    done = 0
    taken = taken_in_cycle(w)
    cycles = steps // st.block_size
    if taken > 0:
        cycles = min(cycles, max(free - most, 0) // taken)
    elif free < most:
        cycles = 0
    done = cycles * st.block_size
    free -= cycles * taken
    place = st.cross
    while done < steps and st.tables * w.residue[place] <= free:
        free += shed_at(w, place) - st.tables * w.residue[place]
        place = place - 1 if place > 0 else st.block_size - 1
        done += 1
    return int(done)


@windowed
def steps_until_free(w: World, steps: int, needed: int) -> int:
    """Return after how many of the next `steps` steps `needed` blocks are free for the queue.

    What decodes give back can admit its head. A cycle takes no less than it gives, so what does not
    fit in the first never does.
    """
    st = w.st
    free = st.free_blocks
    place = st.cross
    for done in range(min(steps, st.block_size)):
        free += shed_at(w, place) - st.tables * w.residue[place]
        place = place - 1 if place > 0 else st.block_size - 1
        if done > 0 and free >= needed:
            return done
    return steps


@windowed
def steps_until_admission(w: World, steps: int) -> int:
    """Return after how many of the next `steps` decode-only steps the queue's head may start.

    It waits for blocks that its elders give back as they outgrow their windows.
    """
    st = w.st
    budget = st.max_num_batched_tokens - st.decodes
    if budget <= 0 or st.running >= st.max_num_seqs:
        return steps
    total = queue.head_tokens(w)
    cached = queue.head_cached(w, total)
    held = cached + min(total - cached, budget, queue.chunk_limit(w))
    needed = windows.needed_blocks(w, total, cached, held) + st.watermark_blocks
    return steps_until_free(w, steps, needed)
