"""Blocks of layers that attend a window: what every coming token lies beyond is given back.

vLLM keeps a block table for each KV cache group, and all tables take their blocks from one pool.
Whenever a request is visited it first gives back, in the tables of a window, the blocks that ended
before the window of the next token to be computed; then it takes blocks for its new tokens, one in
every table. An asynchronous scheduler counts only what came back: tokens in flight are not done.

A decode that is visited in every step gives a block back in every `block_size`-th: it is *settled*,
and counted by residue class in `shed`. Others (their prompt has just been computed, or they were
left out) are visited one by one until they are.
"""

from __future__ import annotations

from planner.sim.jit import windowed
from planner.sim.kernel import ledger
from planner.sim.kernel.world import World


@windowed
def skipped_blocks(w: World, processed: int) -> int:
    """Return the blocks given back, over all tables, once `processed` tokens are done."""
    total = 0
    for g in range(len(w.groups)):
        beyond = max(processed - w.groups[g].window + 1, 0)
        total += w.groups[g].tables * (beyond // w.st.block_size)
    return int(total)


@windowed
def processed_of(w: World, slot: int) -> int:
    """Return the tokens that counted as done when a running request was last visited."""
    s = w.slots[slot]
    if s.settled == 1:
        return int(s.start + w.st.step - 2 - w.st.asynchronous)
    return int(s.processed)


@windowed
def processed_now(w: World, slot: int) -> int:
    """Return the tokens that count as done when a request is visited in the coming step."""
    s = w.slots[slot]
    if s.settled == 1:
        return int(s.start + w.st.step - 1 - w.st.asynchronous)
    done = s.start + w.st.step - 1 if s.decoding == 1 else s.computed
    return int(done - w.st.asynchronous * s.in_flight)


@windowed
def held_blocks(w: World, slot: int, tokens: int) -> int:
    """Return the blocks of a request that has room for `tokens` tokens."""
    st = w.st
    total = st.tables * ledger.blocks_of(tokens, st.block_size) + st.state_blocks
    return int(total - skipped_blocks(w, processed_of(w, slot)))


@windowed
def needed_blocks(w: World, total: int, cached: int, held: int) -> int:
    """Return the blocks that must be free before a waiting request starts.

    Its first chunk ends at `held` of its `total` tokens, `cached` of them are found computed. The
    tables of a window need no more for the whole sequence than their cap, which the pool was sized
    for (vLLM's max_admission_blocks_per_request).
    """
    st = w.st
    size = st.block_size
    hits = cached // size
    outside = skipped_blocks(w, cached)
    first = st.tables * ledger.blocks_of(held, size) - outside
    if st.full_sequence == 0:
        return int(first + st.state_blocks)
    whole = ledger.blocks_of(total, size)
    required = st.full_tables * whole - outside
    for g in range(len(w.groups)):
        group = w.groups[g]
        required += group.tables * (max(min(whole, group.cap) - hits, 0) + hits)
    return int(max(required, first) + st.state_blocks)


@windowed
def pending_blocks(w: World, slot: int) -> int:
    """Return what a request gives back when it is visited in the coming step."""
    done = skipped_blocks(w, processed_of(w, slot))
    return int(skipped_blocks(w, processed_now(w, slot)) - done)


@windowed
def uncount(w: World, slot: int) -> None:
    """Take a decode out of the settled ones; `processed` is what it was at its last visit."""
    s = w.slots[slot]
    if s.settled == 0:
        return
    s.processed = processed_of(w, slot)
    s.in_flight = 1
    s.settled = 0
    for g in range(len(w.groups)):
        if (s.shedding >> g) & 1 == 1:
            place = (s.start - w.st.asynchronous - w.groups[g].window) % w.st.block_size
            w.shed[g, place] -= 1
    s.shedding = 0


@windowed
def shed_now(w: World, slot: int) -> int:
    """Let a request that is visited give back what lies outside its windows; return how much."""
    freed = pending_blocks(w, slot)
    processed = processed_now(w, slot)
    uncount(w, slot)
    w.slots[slot].processed = processed
    w.st.free_blocks += freed
    return freed


@windowed
def settle(w: World, slot: int, tokens: int) -> None:
    """Count a decode as settled; it attends `tokens` tokens at its next visit."""
    s = w.slots[slot]
    s.settled = 1
    s.shedding = 0
    for g in range(len(w.groups)):
        if w.groups[g].tables == 0:
            continue
        if tokens - w.st.asynchronous - w.groups[g].window >= 1:
            ledger.count_shedding(w, slot, g)
        else:
            ledger.push_crossing(w, slot, g, ledger.SHEDS)


@windowed
def watch(w: World, slot: int) -> None:
    """Have a decode visited by itself in the next step."""
    if w.slots[slot].watched == 0:
        w.slots[slot].watched = 1
        w.slots[w.st.unsettled].unsettled_list = slot
        w.st.unsettled += 1


@windowed
def join(w: World, slot: int) -> None:
    """Settle a new decode whose next visit gives nothing back beyond the rule; else watch it."""
    s = w.slots[slot]
    done = skipped_blocks(w, s.processed)
    ruled = skipped_blocks(w, s.total - 1 - w.st.asynchronous)
    if ruled == done and skipped_blocks(w, s.total) == done:
        settle(w, slot, s.total + 1)
    else:
        watch(w, slot)


@windowed
def visited(w: World, slot: int, chunk: int) -> None:
    """Note that a request, having shed, was given `chunk` tokens of the step being scheduled."""
    s = w.slots[slot]
    s.in_flight = chunk
    if s.decoding == 0:
        return
    tokens = s.start + w.st.step
    if s.processed == tokens - 1 - w.st.asynchronous:
        settle(w, slot, tokens + 1)
    else:
        watch(w, slot)


@windowed
def shed_by_settled(w: World) -> int:
    """Return what the settled decodes give back in the next step."""
    total = 0
    for g in range(len(w.groups)):
        total += w.groups[g].tables * w.shed[g, w.st.cross]
    return int(total)


@windowed
def shed_by_watched(w: World) -> int:
    """Return what the watched decodes give back in the next step; forget those that are none."""
    st = w.st
    total = 0
    kept = 0
    for i in range(st.unsettled):
        slot = w.slots[i].unsettled_list
        if w.slots[slot].decoding == 1 and w.slots[slot].settled == 0:
            w.slots[kept].unsettled_list = slot
            kept += 1
            total += pending_blocks(w, slot)
        else:
            w.slots[slot].watched = 0
    st.unsettled = kept
    return total


@windowed
def visit_watched(w: World) -> None:
    """Let the watched decodes be visited; their blocks are counted elsewhere."""
    st = w.st
    count = st.unsettled
    st.unsettled = 0
    for i in range(count):
        slot = w.slots[i].unsettled_list
        s = w.slots[slot]
        s.watched = 0
        s.processed = processed_now(w, slot)
        visited(w, slot, 1)


@windowed
def schedule_totals(w: World, chunk: int) -> bool:
    """Give all decodes a block where they need one, then the unfinished prompt its `chunk`.

    Each gives back before it takes, so the free blocks are enough whatever the order if they are
    without what comes back. Return False, no block moved, where they are not: then order matters.
    """
    st = w.st
    free = st.free_blocks - st.tables * w.residue[st.cross]
    if free < 0:
        return False
    free += shed_by_settled(w) + shed_by_watched(w)
    if chunk > 0:
        computed = w.slots[st.partial].computed
        free += pending_blocks(w, st.partial)
        free -= st.tables * ledger.blocks_of(computed + chunk, st.block_size)
        free += st.tables * ledger.blocks_of(computed, st.block_size)
        if free < 0:
            return False
    st.free_blocks = free
    visit_watched(w)
    if st.partials > 0:
        s = w.slots[st.partial]
        if chunk > 0:
            s.processed = processed_now(w, st.partial)
        s.in_flight = chunk
    return True


@windowed
def nothing_in_flight(w: World) -> None:
    """Let everything that was in flight be back."""
    slot = w.st.front
    while slot >= 0:
        uncount(w, slot)
        w.slots[slot].in_flight = 0
        if w.slots[slot].decoding == 1:
            watch(w, slot)
        slot = w.slots[slot].after
