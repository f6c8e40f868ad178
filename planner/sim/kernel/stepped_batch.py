"""Who is in the next batch of a pipeline, or of a step with drafts: first the running."""

from __future__ import annotations

from planner.sim.jit import part, rare
from planner.sim.kernel import batch, landing, ledger, prefix, queue
from planner.sim.kernel.pipeline import CHUNK, FIRST, Pipe
from planner.sim.kernel.world import World


@part
def join_batch(w: World, p: Pipe, slot: int, drafts: int) -> None:
    """Note a scheduled request among the batch's members."""
    k = (p.st.oldest + p.st.in_flight) % p.st.stages
    member = p.members[k, p.st.members]
    member.slot = slot
    member.turn = w.slots[slot].turn
    member.request = w.slots[slot].request
    member.drafts = drafts
    p.st.members += 1


@part
def add_prompt(w: World, p: Pipe, slot: int, chunk: int) -> None:
    """Schedule a chunk of a prompt."""
    finished = w.st.fresh
    batch.add_chunk(w, slot, chunk)
    p.lanes[slot].due = w.st.fresh - finished
    join_batch(w, p, slot, FIRST if w.st.fresh > finished else CHUNK)


@part
def add_decode(w: World, p: Pipe, slot: int, tokens: int) -> None:
    """Schedule a decode with `tokens` − 1 drafts."""
    st = w.st
    attended = w.slots[slot].computed + tokens
    p.st.read_s += st.kv_s * attended
    for g in range(len(w.groups)):
        p.st.read_s += w.groups[g].kv_s * min(attended, w.groups[g].window)
    p.st.decode_tokens += tokens
    st.batch_decodes += 1
    if p.lanes[slot].ghost == 1:
        join_batch(w, p, slot, CHUNK)
        return
    p.lanes[slot].due = 1
    join_batch(w, p, slot, tokens - 1)


@rare
def preempt_last(w: World, p: Pipe) -> None:
    """Send the last admitted request to the front of the queue; a token in flight still counts."""
    st = w.st
    slot = st.back
    s = w.slots[slot]
    w.requests[s.request].preemptions += 1
    st.preempted += 1
    w.bins[st.bin].preemptions += 1
    if s.zombie == 1:
        landing.forget_zombie(w, p, slot)
        return
    entry = w.slots[st.stacked]
    entry.stack_request = s.request
    entry.stack_generated = s.generated
    entry.stack_last_token_s = s.last_token_s
    entry.stack_run = -1
    p.lanes[st.stacked].stack_due = p.lanes[slot].due
    tokens = s.computed
    if s.decoding == 1:
        tokens += p.lanes[slot].due
        p.st.decoding -= 1
    entry.stack_computed = tokens
    early = st.prompt_blocks == 1 and tokens < s.total
    landing.give_back(w, p, slot, s.total if early else tokens, st.stacked)
    st.stacked += 1
    ledger.drop_slot(w, slot)
    w.slots[slot].turn = -1


@part
def make_room(w: World, p: Pipe, slot: int, blocks: int) -> bool:
    """Preempt from the tail until `blocks` are free; return whether `slot` itself survived."""
    while blocks > w.st.free_blocks:
        victim = w.st.back
        preempt_last(w, p)
        if victim == slot:
            return False
    return True


@part
def wanted(w: World, p: Pipe, slot: int) -> int:
    """Return the tokens a running request would have computed next, 0 for none."""
    s = w.slots[slot]
    lane = p.lanes[slot]
    if lane.due == 1 or (s.zombie == 1 and lane.ghost == 0):
        return 0
    if s.decoding == 0:
        return int(s.total - s.computed)
    return int(min(p.st.per_decode, p.st.max_model_len - 1 - s.computed - lane.ahead))


@part
def schedule_running(w: World, p: Pipe) -> int:
    """Walk the running list in admission order; return the budget left."""
    st = w.st
    budget = st.max_num_batched_tokens
    limit = queue.chunk_limit(w)
    slot = st.front
    while slot >= 0 and budget > 0 and p.st.members < p.st.micro_batch:
        s = w.slots[slot]
        lane = p.lanes[slot]
        tokens = min(wanted(w, p, slot), budget, limit)
        if tokens > 0:
            reach = s.computed + lane.ahead + tokens + p.st.lookahead
            blocks = ledger.blocks_of(min(reach, p.st.max_model_len), st.block_size)
            blocks = max(blocks - lane.blocks, 0)
            if not make_room(w, p, slot, blocks):
                return int(budget)
            st.free_blocks -= blocks
            lane.blocks += blocks
            budget -= tokens
            if s.decoding == 1:
                add_decode(w, p, slot, tokens)
            else:
                add_prompt(w, p, slot, tokens)
        slot = s.after
    return int(budget)


@part
def admit_remote(w: World, p: Pipe) -> bool:
    """Admit a request that comes with the KV of its prompt, as a decode; return whether it fits.

    Without a first token from elsewhere the prompt's last token is computed again. A preempted
    request is recomputed here like any other.
    """
    st = w.st
    request = w.requests[st.head]
    given = 1 if request.first_token_s == request.first_token_s else 0
    total = request.input_tokens + given
    if not queue.head_fits(w, total, total - 1, total, st.free_blocks):
        return False
    slot = queue.take_head(w, 0)
    s = w.slots[slot]
    s.total = total
    s.computed = total - 1
    s.generated = given
    s.last_token_s = request.first_token_s
    s.decoding = 1
    p.st.decoding += 1
    p.lanes[slot].blocks = ledger.blocks_of(total, st.block_size)
    p.lanes[slot].ghost = 0
    p.lanes[slot].ahead = 0
    st.free_blocks -= p.lanes[slot].blocks
    add_decode(w, p, slot, 1)
    return True


@part
def admit(w: World, p: Pipe, budget: int) -> None:
    """Admit from the head of the queue while budget, slots and blocks last."""
    st = w.st
    limit = queue.chunk_limit(w)
    while budget > 0 and st.running < st.max_num_seqs and p.st.members < p.st.micro_batch:
        if not queue.is_waiting(w):
            break
        if st.stacked > 0 and p.lanes[st.stacked - 1].stack_due == 1:
            break  # its next token is on the way
        if p.st.remote == 1 and st.stacked == 0:
            if not admit_remote(w, p):
                break
            budget -= 1
            continue
        total = queue.head_tokens(w)
        cached = queue.head_cached(w, total)
        chunk = min(total - cached, budget, limit)
        if not queue.head_fits(w, total, cached, cached + chunk, st.free_blocks):
            break
        if (st.prefill_first == 1 or st.whole_prompts == 1) and cached + chunk < total:
            break  # prompts stay whole
        if st.one_prefill == 1 and st.batch_prefills > 0:
            break
        run = prefix.own_run(w, queue.head_number(w)) if st.caching == 1 else -1
        slot = queue.take_head(w, cached)
        w.slots[slot].decoding = 0
        held = ledger.blocks_of(total if st.prompt_blocks == 1 else cached + chunk, st.block_size)
        p.lanes[slot].blocks = held
        p.lanes[slot].ghost = 0
        p.lanes[slot].ahead = 0
        st.free_blocks -= held
        if st.caching == 1:
            st.free_blocks += st.hit_blocks
            prefix.take_hits(w, slot, run)
        budget -= chunk
        add_prompt(w, p, slot, chunk)


@part
def catch_up(w: World, p: Pipe) -> None:
    """Let an asynchronous scheduler hear, after this batch, what the last one rejected."""
    slot = w.st.front
    while slot >= 0:
        p.lanes[slot].ahead = 0
        slot = w.slots[slot].after
