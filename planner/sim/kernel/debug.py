"""Conservation laws, checked after every event in debug mode."""

from __future__ import annotations

from planner.sim.jit import rare
from planner.sim.kernel import ledger, prefix, windows
from planner.sim.kernel.world import World

FAULTS = (
    "",
    "free and used blocks do not add up to all blocks",
    "prefill, decode and finished do not add up to running",
    "the decodes' context total is off",
    "the window groups' totals are off",
    "free blocks are below zero",
    "more requests run than max_num_seqs",
    "the running list is broken",
    "a waiting request can never start",
    "the prefix cache's queue is broken",
)


@rare
def held_tokens(w: World, slot: int) -> int:
    """Return the computed tokens of a running request, from its own figures."""
    s = w.slots[slot]
    if s.zombie == 1:
        request = w.requests[s.request]
        return int(request.input_tokens + request.output_tokens - 1)
    if s.decoding == 1:
        return int(s.start + w.st.step - 1)
    return int(s.total if w.st.prompt_blocks == 1 else s.computed)


@rare
def totals_fault(w: World, used: int, kinds: int, kv_tokens: int, windowed: int) -> int:
    """Hold what the running list adds up to against the kernel's totals."""
    st = w.st
    for g in range(len(w.groups)):
        windowed -= w.groups[g].kv_tokens
    if used + st.free_blocks != st.num_blocks:
        return 1
    if kinds != st.partials + (st.decodes << 20) + (st.zombies << 40):
        return 2
    if kv_tokens != st.kv_tokens:
        return 3
    return 4 if windowed != 0 else 0


@rare
def shared_blocks(w: World, slot: int) -> int:
    """Return how many of a running request's blocks are in the prefix cache's file."""
    if w.st.caching == 0:
        return 0
    filed = w.prefix[w.slots[slot].request].shared_blocks
    return int(min(filed, held_tokens(w, slot) // w.st.block_size))


@rare
def cache_fault(w: World) -> int:
    """Walk the queue of free blocks: it holds no block in use, and all the others."""
    st = w.st
    prefix.settle(w)
    queued = 0
    node = st.lru_front
    while node >= 0 and queued <= st.num_blocks:
        if w.nodes[node].count < 1 or (w.nodes[node].key >= 0 and w.nodes[node].holders > 0):
            return 9
        queued += w.nodes[node].count
        node = w.nodes[node].after
    if queued != st.lru_blocks or queued + st.blank_blocks != st.free_blocks:
        return 9
    return 0


@rare
def held_nodes(w: World) -> int:
    """Return the shared blocks that running requests hold, each counted once."""
    total = 0
    for node in range(w.st.node_top):
        if w.nodes[node].key >= 0 and w.nodes[node].holders > 0:
            total += 1
    return total


@rare
def conservation_fault(w: World) -> int:
    """Return which law of FAULTS broke, 0 for none."""
    st = w.st
    used = 0
    listed = 0
    kinds = 0
    kv_tokens = 0
    windowed = 0
    slot = st.front
    while slot >= 0 and listed <= st.running:
        s = w.slots[slot]
        listed += 1
        if st.windowed == 1:
            used += windows.held_blocks(w, slot, held_tokens(w, slot))
        else:
            used += ledger.blocks_of(held_tokens(w, slot), st.block_size) - shared_blocks(w, slot)
        if s.decoding == 1:
            kv_tokens += s.start + st.step
            for g in range(len(w.groups)):
                windowed += min(s.start + st.step, w.groups[g].window)
        kinds += 1 << int(40 * s.zombie + 20 * s.decoding)
        slot = s.after
    if st.caching == 1:
        used += held_nodes(w)
        if cache_fault(w) > 0:
            return 9
    if listed != st.running:
        return 7
    if st.free_blocks < 0:
        return 5
    if st.running > st.max_num_seqs or st.running + st.stacked > st.max_num_seqs:
        return 6
    return totals_fault(w, used, kinds, kv_tokens, windowed)
