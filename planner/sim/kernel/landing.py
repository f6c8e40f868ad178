"""What comes of a batch that comes back: tokens, completions and their blocks."""

from __future__ import annotations

from planner.sim.jit import part, rare
from planner.sim.kernel import batch, ledger, meter, prefix, release
from planner.sim.kernel.pipeline import CHUNK, FIRST, Pipe
from planner.sim.kernel.world import World


@part
def give_back(w: World, p: Pipe, slot: int, tokens: int, stack: int) -> None:
    """Give back a slot's blocks; those beyond its `tokens` have no content that counts."""
    st = w.st
    extra = p.lanes[slot].blocks - ledger.blocks_of(tokens, st.block_size)
    p.lanes[slot].blocks = 0
    if st.caching == 1 and extra > 0:
        if st.full_sequence == 1:
            st.blank_blocks += extra
        else:  # 0.11 takes them in their turn, before the rest of this request
            node = prefix.new_node(w)
            w.nodes[node].key = -1
            w.nodes[node].count = extra
            w.nodes[node].full = 0
            w.nodes[node].stack = -1
            prefix.append(w, node)
            st.lru_blocks += extra
    st.free_blocks += extra
    prefix.give_back(w, slot, tokens, stack)


@part
def retire(w: World, p: Pipe, slot: int) -> None:
    """Let a finished request go: its last token was never computed."""
    request = w.requests[w.slots[slot].request]
    give_back(w, p, slot, request.input_tokens + request.output_tokens - 1, -1)
    ledger.drop_slot(w, slot)
    w.slots[slot].turn = -1


@rare
def forget_zombie(w: World, p: Pipe, slot: int) -> None:
    """Take one finished but unnoticed request off the running list."""
    st = w.st
    kept = 0
    for i in range(st.zombies):
        if w.slots[i].zombie_list != slot:
            w.slots[kept].zombie_list = w.slots[i].zombie_list
            kept += 1
    st.zombies = kept
    w.slots[slot].zombie = 0
    retire(w, p, slot)


@rare
def notice_finished(w: World, p: Pipe) -> None:
    """Notice the requests that finished one step ago."""
    for i in range(w.st.zombies):
        slot = w.slots[i].zombie_list
        w.slots[slot].zombie = 0
        retire(w, p, slot)
    w.st.zombies = 0


@part
def finish(w: World, number: int) -> None:
    """Note that a request's last token is out, now."""
    st = w.st
    w.requests[number].finish_s = st.now
    st.finished += 1
    w.bins[st.bin].finished += 1
    if len(w.turns) > 0:
        release.follow_up(w, number)
    if len(w.targets) > st.itl_targets:
        batch.judge(w, number, False)


@part
def leave(w: World, p: Pipe, slot: int, surprising: bool) -> None:
    """Let a finished request go, or an asynchronous scheduler notice one step later."""
    if w.slots[slot].decoding == 1:
        p.st.decoding -= 1
    if w.st.asynchronous == 0:
        retire(w, p, slot)
        return
    w.slots[slot].zombie = 1
    p.lanes[slot].ghost = surprising
    w.slots[w.st.zombies].zombie_list = slot
    w.st.zombies += 1


@part
def given_tokens(p: Pipe, number: int, generated: int, drafts: int) -> int:
    """Return the tokens a verified decode yields: its accepted drafts and one more."""
    accepted = 0
    if drafts > 0:
        place = (p.first_draw[number] + generated) & p.st.draw_mask
        accepted = min(int(p.draws[place]), drafts)
    return accepted + 1


@part
def emit_first(w: World, number: int, generated: int, last_token_s: float) -> None:
    """Give out the token that a completed prompt (or recomputed context) yields, now."""
    if generated == 0:
        w.requests[number].first_token_s = w.st.now
        if len(w.targets) > w.st.itl_targets:
            batch.judge(w, number, True)
    else:
        meter.add_gaps(w, w.requests[number].class_id, w.st.now - last_token_s, 1)


@part
def emit_decode(w: World, number: int, tokens: int, last_token_s: float) -> None:
    """Give out a decode's tokens, now: together, so there is one gap before them."""
    w.bins[w.st.bin].decode_tokens += tokens
    meter.add_gaps(w, w.requests[number].class_id, w.st.now - last_token_s, 1)


@part
def come_back(w: World, p: Pipe, slot: int, drafts: int) -> None:
    """Let a running request have its tokens."""
    st = w.st
    s = w.slots[slot]
    lane = p.lanes[slot]
    output = w.requests[s.request].output_tokens
    before = s.generated
    lane.due = 0
    lane.ahead = 0
    if drafts == FIRST:
        emit_first(w, s.request, before, s.last_token_s)
        s.generated = before + 1
        s.decoding = 1
        p.st.decoding += 1
    else:
        most = given_tokens(p, s.request, before, drafts)
        tokens = min(most, output - before)
        if before == 0:  # its prompt was computed elsewhere
            emit_first(w, s.request, 0, s.last_token_s)
        else:
            emit_decode(w, s.request, tokens, s.last_token_s)
        s.generated = before + tokens
        s.computed += tokens
        lane.ahead = drafts + 1 - tokens if st.asynchronous == 1 else 0
    s.last_token_s = st.now
    if s.generated == output:
        finish(w, s.request)
        leave(w, p, slot, before + 1 < output)


@rare
def come_back_preempted(w: World, p: Pipe, number: int, drafts: int) -> None:
    """Let a request that was preempted while its token was in flight have it."""
    st = w.st
    at = -1
    for i in range(st.stacked):
        if w.slots[i].stack_request == number:
            at = i
    if at < 0:
        return
    entry = w.slots[at]
    output = w.requests[number].output_tokens
    before = entry.stack_generated
    tokens = 1
    if drafts == FIRST:
        emit_first(w, number, before, entry.stack_last_token_s)
    else:
        tokens = min(given_tokens(p, number, before, drafts), output - before)
        if before == 0:
            emit_first(w, number, 0, entry.stack_last_token_s)
        else:
            emit_decode(w, number, tokens, entry.stack_last_token_s)
    entry.stack_generated = before + tokens
    entry.stack_last_token_s = st.now
    p.lanes[at].stack_due = 0
    if entry.stack_generated == output:
        finish(w, number)
        leave_stack(w, p, at)


@rare
def leave_stack(w: World, p: Pipe, at: int) -> None:
    """Take a finished request out of the preempted ones."""
    st = w.st
    run = w.slots[at].stack_run
    if st.caching == 1 and run >= 0:
        w.nodes[run].stack = -1
    for i in range(at, st.stacked - 1):
        w.slots[i].stack_request = w.slots[i + 1].stack_request
        w.slots[i].stack_generated = w.slots[i + 1].stack_generated
        w.slots[i].stack_last_token_s = w.slots[i + 1].stack_last_token_s
        w.slots[i].stack_computed = w.slots[i + 1].stack_computed
        w.slots[i].stack_run = w.slots[i + 1].stack_run
        p.lanes[i].stack_due = p.lanes[i + 1].stack_due
        if st.caching == 1 and w.slots[i].stack_run >= 0:
            w.nodes[w.slots[i].stack_run].stack = i
    st.stacked -= 1
    st.cache_version += 1


@part
def wait_until(w: World, p: Pipe, at_s: float) -> None:
    """Let time pass while batches are in flight."""
    st = w.st
    sums = w.bins[st.bin]
    span = at_s - st.now
    sums.busy_s += span
    sums.decode_seq_s += p.st.decoding * span
    sums.running_seq_s += st.running * span
    sums.used_block_s += (st.num_blocks - st.free_blocks) * span
    st.now = at_s


@part
def land(w: World, p: Pipe) -> None:
    """Let the oldest batch come back: tokens, completions, and what the scheduler now knows."""
    st = w.st
    flight = p.flights[p.st.oldest]
    wait_until(w, p, flight.end_s)
    st.visible = flight.start_s if st.asynchronous == 1 else st.now
    st.events += 1
    p.st.blocked = 0
    if st.zombies > 0:
        notice_finished(w, p)
    for i in range(flight.members):
        member = p.members[p.st.oldest, i]
        if member.drafts == CHUNK:
            continue
        if w.slots[member.slot].turn == member.turn:
            come_back(w, p, member.slot, member.drafts)
        else:
            come_back_preempted(w, p, member.request, member.drafts)
    p.st.oldest = (p.st.oldest + 1) % p.st.stages
    p.st.in_flight -= 1
