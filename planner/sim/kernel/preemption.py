"""vLLM's preemption by recompute: who must go when blocks are missing, and how.

First come, first served, the request admitted last goes. With priorities the least urgent goes,
wherever it stands in the running list.
"""

from __future__ import annotations

from planner.sim.jit import part, rare
from planner.sim.kernel import batch, ledger, prefix, queue, windows
from planner.sim.kernel.world import World


@part
def forget_zombie(w: World, slot: int) -> None:
    """Take one finished but unnoticed request off the running list."""
    st = w.st
    kept = 0
    for i in range(st.zombies):
        if w.slots[i].zombie_list != slot:
            w.slots[kept].zombie_list = w.slots[i].zombie_list
            kept += 1
    st.zombies = kept
    w.slots[slot].zombie = 0
    batch.retire(w, slot)


@rare
def preempt(w: World, slot: int) -> None:
    """Send a running request back to the queue, in front if not by priority; its KV is lost."""
    st = w.st
    s = w.slots[slot]
    request = w.requests[s.request]
    request.preemptions += 1
    st.preempted += 1
    w.bins[st.bin].preemptions += 1
    if s.zombie == 1:  # its last token is out: it only loses its place
        forget_zombie(w, slot)
        return
    if s.decoding == 1:
        tokens = s.start + st.step
        s.computed = tokens - 1
        s.generated = tokens - request.input_tokens
        s.last_token_s = st.now - s.late_s
        if st.windowed == 1:
            windows.uncount(w, slot)
        ledger.leave_decodes(w, slot)
    else:
        st.partials -= 1
    early = st.prompt_blocks == 1 and s.computed < s.total
    held = s.total if early else s.computed
    if st.by_priority == 1:
        held += s.planned
        resume = w.resume[s.request]
        resume.generated = s.generated
        resume.last_token_s = s.last_token_s
        resume.computed = s.computed
        resume.run = -1
        queue.enqueue(w, s.request)
        prefix.give_back(w, slot, held, s.request)
    else:
        entry = w.slots[st.stacked]
        entry.stack_request = s.request
        entry.stack_generated = s.generated
        entry.stack_last_token_s = s.last_token_s
        entry.stack_computed = s.computed
        entry.stack_run = -1
        prefix.give_back(w, slot, held, st.stacked)
        st.stacked += 1
    ledger.drop_slot(w, slot)


@part
def make_room(w: World, slot: int, blocks: int) -> bool:
    """Preempt from the tail until `blocks` are free; return whether `slot` itself survived."""
    while blocks > w.st.free_blocks:
        victim = w.st.back
        preempt(w, victim)
        if victim == slot:
            return False
    return True


@part
def take_blocks(w: World, slot: int, chunk: int) -> bool:
    """Give a running request the blocks for `chunk` tokens; return whether it survived that."""
    st = w.st
    if st.by_priority == 1:  # it has them: see plan_by_priority
        if st.windowed == 1:
            windows.visited(w, slot, chunk)
        return True
    if st.windowed == 1:
        windows.shed_now(w, slot)
    blocks = blocks_for(w, slot, chunk)
    if w.slots[slot].decoding == 0 and st.prompt_blocks == 1:
        blocks = 0
    if not make_room(w, slot, blocks):
        return False
    st.free_blocks -= blocks
    if st.windowed == 1:
        windows.visited(w, slot, chunk)
    return True


@part
def tokens_done(w: World, slot: int) -> int:
    """Return the tokens of a running request that have been computed."""
    s = w.slots[slot]
    return int(s.start + w.st.step - 1 if s.decoding == 1 else s.computed)


@part
def next_chunk(w: World, slot: int, budget: int, limit: int) -> int:
    """Return the tokens a running request takes in the next step."""
    s = w.slots[slot]
    return int(1 if s.decoding == 1 else min(s.total - s.computed, budget, limit))


@rare
def least_urgent(w: World) -> int:
    """Return the running request with the last priority, and of those the one that came last."""
    victim = w.st.front
    slot = victim
    while slot >= 0:
        if queue.is_more_urgent(w, w.slots[victim].request, w.slots[slot].request):
            victim = slot
        slot = w.slots[slot].after
    return int(victim)


@part
def blocks_for(w: World, slot: int, chunk: int) -> int:
    """Return the blocks that a running request needs for its next `chunk` tokens."""
    st = w.st
    done = tokens_done(w, slot)
    blocks = ledger.blocks_of(done + chunk, st.block_size) - ledger.blocks_of(done, st.block_size)
    return int(blocks * st.tables)


@rare
def plan(w: World, slot: int, chunk: int) -> None:
    """Give a running request the blocks for `chunk` tokens of this step, and file the full ones."""
    st = w.st
    st.free_blocks -= blocks_for(w, slot, chunk)
    if st.caching == 1 and w.slots[slot].decoding == 0:
        past = w.slots[slot].computed
        prefix.file_blocks(w, slot, past, past + chunk)
    w.slots[slot].planned = chunk


@rare
def plan_by_priority(w: World, limit: int) -> None:
    """Plan what the running compute in this step; preempt the least urgent where blocks lack.

    A victim that was planned before gives its tokens back, to those behind the one that it goes
    for. The plan ends behind a request that was itself the least urgent.
    """
    st = w.st
    slot = st.front
    while slot >= 0:
        w.slots[slot].planned = 0
        slot = w.slots[slot].after
    slot = st.front
    budget = st.max_num_batched_tokens
    while slot >= 0 and budget > 0:
        after = w.slots[slot].after
        if w.slots[slot].zombie == 0:
            if st.windowed == 1:
                windows.shed_now(w, slot)
            chunk = next_chunk(w, slot, budget, limit)
            blocks = blocks_for(w, slot, chunk)
            while blocks > st.free_blocks:
                victim = least_urgent(w)
                budget += w.slots[victim].planned
                preempt(w, victim)
                if victim == slot:
                    return
            after = w.slots[slot].after  # who was behind it may have gone
            plan(w, slot, chunk)
            budget -= chunk
        slot = after
