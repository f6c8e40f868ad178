"""vLLM's waiting queue: who is at its head, whether it may start, and its admission.

First come, first served, waiting requests need no queue of their own: the preempted are a stack in
front, the others follow by arrival. With priorities all that have arrived are in a heap, the
preempted among them where their priority and arrival put them.
"""

from __future__ import annotations

from planner.sim.jit import part, rare
from planner.sim.kernel import batch, ledger, prefix, release, windows
from planner.sim.kernel.world import World


@rare
def is_more_urgent(w: World, a: int, b: int) -> bool:
    """Return whether request `a` is before request `b` by priority, then arrival, then number."""
    first = w.rank[w.requests[a].class_id]
    second = w.rank[w.requests[b].class_id]
    if first == second:
        return release.precedes(w.requests, a, b)
    return bool(first < second)


@rare
def enqueue(w: World, number: int) -> None:
    """Let a request wait where its priority and arrival put it."""
    child = int(w.st.queued)
    while child > 0:
        parent = (child - 1) >> 1
        if is_more_urgent(w, w.waiting[parent], number):
            break
        w.waiting[child] = w.waiting[parent]
        child = parent
    w.waiting[child] = number
    w.st.queued += 1


@rare
def dequeue(w: World) -> None:
    """Take the most urgent of the waiting out of the queue."""
    left = int(w.st.queued - 1)
    number = w.waiting[left]
    hole = 0
    child = 1
    while child < left:
        if child + 1 < left and is_more_urgent(w, w.waiting[child + 1], w.waiting[child]):
            child += 1
        if is_more_urgent(w, number, w.waiting[child]):
            break
        w.waiting[hole] = w.waiting[child]
        hole = child
        child = 2 * hole + 1
    w.waiting[hole] = number
    w.st.queued = left


@rare
def enqueue_arrivals(w: World) -> None:
    """Let wait by priority whatever the scheduler knows to have arrived."""
    st = w.st
    while st.head >= 0 and w.requests[st.head].arrival_s <= st.visible:
        enqueue(w, st.head)
        release.leave_list(w)


@part
def is_waiting(w: World) -> bool:
    """Return whether the scheduler knows of a waiting request."""
    st = w.st
    if st.by_priority == 1:
        return bool(st.queued > 0)
    return bool(st.stacked > 0 or (st.head >= 0 and w.requests[st.head].arrival_s <= st.visible))


@part
def chunk_limit(w: World) -> int:
    """Return the longest chunk of one prompt: long_prefill_token_threshold, if it applies."""
    st = w.st
    if st.threshold == 0:
        return int(st.max_num_batched_tokens)
    known = st.running + st.stacked + st.queued
    request = st.head
    while known < 2 and request >= 0 and w.requests[request].arrival_s <= st.visible:
        known += 1
        request = w.requests[request].following
    if st.threshold_needs_company == 1 and known < 2:
        return int(st.max_num_batched_tokens)
    return int(st.threshold)


@part
def head_number(w: World) -> int:
    """Return the request at the head of the queue."""
    st = w.st
    if st.by_priority == 1:
        return int(w.waiting[0])
    return int(w.slots[st.stacked - 1].stack_request if st.stacked > 0 else st.head)


@part
def head_tokens(w: World) -> int:
    """Return the tokens the head of the queue must compute before its next output token."""
    st = w.st
    if st.by_priority == 1:
        number = head_number(w)
        return int(w.requests[number].input_tokens + w.resume[number].generated)
    if st.stacked > 0:
        entry = w.slots[st.stacked - 1]
        return int(w.requests[entry.stack_request].input_tokens + entry.stack_generated)
    return int(w.requests[st.head].input_tokens)


@part
def head_cached(w: World, total: int) -> int:
    """Return the tokens of the queue's head that the prefix cache holds; one is always computed."""
    st = w.st
    number = head_number(w)
    if st.caching == 1:
        prefix.look_up(w, number, total)
        return int(st.hit_blocks * st.block_size)
    return int(min(w.requests[number].cached_tokens, total - 1))


@part
def head_fits(w: World, total: int, cached: int, held: int, free_blocks: int) -> bool:
    """Return whether the queue's head, holding `held` tokens after its first chunk, may start."""
    size = w.st.block_size
    if w.st.windowed == 1:
        required = windows.needed_blocks(w, total, cached, held)
        return bool(required <= free_blocks - w.st.watermark_blocks)
    required = ledger.blocks_of(total if w.st.full_sequence == 1 else held, size)
    required -= w.st.hit_used  # hits that are not in use come out of the free blocks
    return bool(required <= free_blocks - w.st.watermark_blocks)


@part
def can_admit(w: World) -> bool:
    """Return whether the queue's head joins the next step, if its decodes get their blocks."""
    st = w.st
    alone = st.prefill_first == 1  # the decodes wait
    budget = st.max_num_batched_tokens - (0 if alone else st.decodes)
    if budget <= 0 or st.running >= st.max_num_seqs:
        return False
    total = head_tokens(w)
    cached = head_cached(w, total)
    if st.whole_prompts == 1 and total - cached > budget:
        return False
    held = cached + min(total - cached, budget, chunk_limit(w))
    # Blocks that the decodes take can be the head's own hits, and then cost it nothing more.
    taken = 0 if alone or st.caching == 1 else w.residue[st.cross]
    if st.windowed == 1:
        taken = st.tables * taken - windows.shed_by_settled(w)
    return head_fits(w, total, cached, held, st.free_blocks - taken)


@part
def take_head(w: World, cached: int) -> int:
    """Move the head of the queue, with `cached` tokens, to the running list; return its slot."""
    st = w.st
    slot = ledger.take_slot(w)
    s = w.slots[slot]
    s.growing = 0
    s.settled = 0
    s.shedding = 0
    s.processed = cached
    s.planned = 0
    if st.by_priority == 1:
        number = head_number(w)
        dequeue(w)
        st.recomputed_tokens += max(w.resume[number].computed - cached, 0)
        s.request = number
        s.generated = w.resume[number].generated
        s.last_token_s = w.resume[number].last_token_s
    elif st.stacked > 0:
        st.stacked -= 1
        entry = w.slots[st.stacked]
        st.recomputed_tokens += max(entry.stack_computed - cached, 0)
        s.request = entry.stack_request
        s.generated = entry.stack_generated
        s.last_token_s = entry.stack_last_token_s
    else:
        s.request = st.head
        s.generated = 0
        release.leave_list(w)
    if w.requests[s.request].preemptions == 0:
        w.requests[s.request].scheduled_s = st.now
        st.hit_tokens += cached
    s.computed = cached
    s.total = w.requests[s.request].input_tokens + s.generated
    return slot


@rare
def admit(w: World, budget: int) -> None:
    """Admit from the head of the queue while budget, slots and blocks last."""
    st = w.st
    limit = chunk_limit(w)
    while budget > 0 and st.running < st.max_num_seqs and is_waiting(w):
        total = head_tokens(w)
        cached = head_cached(w, total)
        chunk = min(total - cached, budget, limit)
        if not head_fits(w, total, cached, cached + chunk, st.free_blocks):
            break
        if (st.prefill_first == 1 or st.whole_prompts == 1) and cached + chunk < total:
            break  # prompts stay whole
        if st.one_prefill == 1 and st.batch_prefills > 0:
            break
        run = prefix.own_run(w, head_number(w)) if st.caching == 1 else -1
        slot = take_head(w, cached)
        held = total if st.prompt_blocks == 1 else cached + chunk
        if st.windowed == 1:
            st.free_blocks -= windows.held_blocks(w, slot, held)
            w.slots[slot].in_flight = chunk
        else:
            st.free_blocks -= ledger.blocks_of(held, st.block_size)
        if st.caching == 1:
            st.free_blocks += st.hit_blocks
            prefix.take_hits(w, slot, run)
        budget -= chunk
        batch.add_chunk(w, slot, chunk)
        if cached + chunk < total:
            st.partials += 1
            st.partial = slot
