"""What every policy does with a step: gather chunks, time it, give tokens out."""

from __future__ import annotations

import numpy as np

from planner.sim.jit import part, rare
from planner.sim.kernel import clock, heap, ledger, meter, prefix, release, windows
from planner.sim.kernel.heap import SLOT_BITS, SLOT_MASK
from planner.sim.kernel.world import E2E, TTFT, World


@part
def clear_batch(w: World) -> None:
    """Start a step without prefill."""
    st = w.st
    st.stalled = 0
    st.fresh = 0
    st.late = 0
    st.tardy = 0
    st.batch_tokens = 0
    st.batch_prefix = 0
    st.batch_prefills = 0
    st.batch_pair_s = 0.0
    st.used_before = st.num_blocks - st.free_blocks


@part
def add_chunk(w: World, slot: int, chunk: int) -> None:
    """Schedule `chunk` prompt tokens of a slot; note it when that completes the prompt."""
    st = w.st
    past = w.slots[slot].computed
    st.batch_tokens += chunk
    st.batch_prefix += past
    st.batch_prefills += 1
    st.batch_pair_s += st.pair_s * clock.attended_pairs(past, chunk, 0)
    for g in range(len(w.groups)):
        group = w.groups[g]
        st.batch_pair_s += group.pair_s * clock.attended_pairs(past, chunk, group.window)
    if st.caching == 1 and w.slots[slot].planned == 0:
        prefix.file_blocks(w, slot, past, past + chunk)
    w.slots[slot].computed = past + chunk
    if past + chunk == w.slots[slot].total:
        w.slots[st.fresh].fresh_list = slot
        st.fresh += 1


@part
def kv_read_s(w: World) -> float:
    """Return the time the decodes of the next step take to read their contexts."""
    total = w.st.kv_s * w.st.kv_tokens
    for g in range(len(w.groups)):
        total += w.groups[g].kv_s * w.groups[g].kv_tokens
    return float(total)


@part
def kv_slope_s(w: World) -> float:
    """Return by how much that time grows from step to step."""
    total = w.st.kv_s * w.st.decodes
    for g in range(len(w.groups)):
        total += w.groups[g].kv_s * w.groups[g].growing
    return float(total)


@part
def mixed_step_s(w: World) -> float:
    """Return the time of a step that carries prefill (see `StepCost`)."""
    st = w.st
    decodes = st.batch_decodes
    entry = w.table[st.batch_tokens + decodes]
    rows = decodes + st.fresh
    read = kv_read_s(w) if decodes > 0 else 0.0
    gpu = np.hypot(max(entry.compute_s, entry.memory_s + read + st.seq_s * decodes), st.launch_s)
    gpu += w.table[rows].row_s + st.batch_pair_s + st.prefix_s * st.batch_prefix
    if decodes > 0:
        gpu += st.decode_fixed_s
    gpu += st.prefill_fixed_s
    host = st.host_step_s + st.host_seq_s * rows + st.host_prefill_s
    return float(max(gpu, host) if st.asynchronous == 1 else gpu + host)


@rare
def count_late(w: World, span: float) -> None:
    """Count the gaps of decodes that the last step left out, and the wait of those this one does.

    Every decode's gap was counted as `span`; theirs began before.
    """
    st = w.st
    for i in range(st.tardy):
        s = w.slots[w.slots[i].tardy_list]
        class_id = w.requests[s.request].class_id
        meter.add_gaps(w, class_id, span, -1)
        meter.add_gaps(w, class_id, span + s.late_s, 1)
        s.late_s = 0.0
    for i in range(st.late):
        w.slots[w.slots[i].starved_list].late_s += span


@part
def run_batch(w: World) -> None:
    """Time one step of all decodes and the gathered chunks, and count its gaps."""
    st = w.st
    st.batch_decodes = st.decodes
    if st.batch_prefills > 0:
        span = mixed_step_s(w)
    else:
        entry = w.table[st.decodes]
        span = max(entry.floor_s, entry.first_s + kv_read_s(w))
    if st.decodes > 0:
        meter.add_run_gaps(w, span, span, 0.0, 1)
    if st.tardy > 0 or st.late > 0:
        count_late(w, span)
    meter.add_sums(w, 1, span)
    w.bins[st.bin].prefill_tokens += st.batch_tokens
    st.ran_steps = 1
    st.span = span
    st.last_start = st.now


@part
def run_prefill(w: World) -> None:
    """Time one step of the gathered prompts alone: every decode waits."""
    st = w.st
    st.batch_decodes = 0
    span = mixed_step_s(w)
    slot = st.front
    while slot >= 0:
        if w.slots[slot].decoding == 1:
            w.slots[slot].late_s += span
        slot = w.slots[slot].after
    st.stalled = 1
    meter.add_sums(w, 0, span)
    w.bins[st.bin].steps += 1
    w.bins[st.bin].prefill_tokens += st.batch_tokens
    st.ran_steps = 0
    st.span = span
    st.last_start = st.now


@rare
def judge(w: World, number: int, first: bool) -> None:
    """Hold a request's first or last token, given out now, against the targets of its class.

    A target with no violation left to afford is lost, and the probe with it.
    """
    request = w.requests[number]
    outside = w.st.frontend_s + w.st.frontend_token_s * request.input_tokens
    since_arrival = w.st.now - request.arrival_s + outside
    for k in range(w.st.itl_targets, len(w.targets)):
        target = w.targets[k]
        if target.class_id != request.class_id or (target.metric == TTFT) != first:
            continue
        took = since_arrival
        if not first and target.metric != E2E:
            gaps = request.output_tokens - 1
            took = (w.st.now - request.first_token_s) / gaps if gaps > 0 else 0.0
        if took > target.limit_s and request.window >= 0:
            w.tally[k, request.window] -= 1
            if w.tally[k, request.window] < 0:
                w.st.lost = 1


@rare
def retire(w: World, slot: int) -> None:
    """Let a finished request go: its last token was never computed."""
    request = w.requests[w.slots[slot].request]
    prefix.give_back(w, slot, request.input_tokens + request.output_tokens - 1, -1)
    ledger.drop_slot(w, slot)
    w.st.leaving += 1


@part
def finish(w: World, slot: int) -> None:
    """Give out a request's last token, now. An asynchronous scheduler notices one step later."""
    st = w.st
    number = w.slots[slot].request
    w.requests[number].finish_s = st.now
    st.finished += 1
    st.finished_last += 1
    w.bins[st.bin].finished += 1
    if len(w.turns) > 0:
        release.follow_up(w, number)
    if len(w.targets) > st.itl_targets:
        judge(w, number, False)
    if st.asynchronous == 1 or st.caching == 1:
        w.slots[slot].zombie = 1
        w.slots[st.zombies].zombie_list = slot
        st.zombies += 1
    else:
        retire(w, slot)


@rare
def sort_zombies(w: World) -> None:
    """Put finished requests in the order of their admission: the order of their blocks' release."""
    for i in range(1, w.st.zombies):
        slot = w.slots[i].zombie_list
        j = i
        while j > 0 and w.slots[w.slots[j - 1].zombie_list].turn > w.slots[slot].turn:
            w.slots[j].zombie_list = w.slots[j - 1].zombie_list
            j -= 1
        w.slots[j].zombie_list = slot


@part
def release_zombies(w: World) -> None:
    """Notice the requests that finished one step ago."""
    if w.st.caching == 1:
        sort_zombies(w)
    for i in range(w.st.zombies):
        slot = w.slots[i].zombie_list
        w.slots[slot].zombie = 0
        retire(w, slot)
    w.st.zombies = 0


@part
def emit_first(w: World, slot: int) -> None:
    """Give out the token that a completed prompt (or recomputed context) yields, now."""
    st = w.st
    s = w.slots[slot]
    request = w.requests[s.request]
    if s.generated == 0:
        request.first_token_s = st.now
        if len(w.targets) > st.itl_targets:
            judge(w, s.request, True)
    else:
        meter.add_gaps(w, request.class_id, st.now - s.last_token_s, 1)
    s.generated += 1
    s.late_s = 0.0
    if s.generated == request.output_tokens:
        finish(w, slot)
        if st.asynchronous == 0:  # a prefill batch drops its finished requests at once
            st.leaving -= 1
            st.batch_full = 0
    else:
        ledger.join_decodes(w, slot)
        if st.windowed == 1:
            windows.join(w, slot)


@rare
def rejoin_starved(w: World) -> None:
    """Take the decodes that the last step left out back among the others."""
    for i in range(w.st.late):
        slot = w.slots[i].starved_list
        ledger.join_decodes(w, slot)
        if w.st.windowed == 1:
            w.slots[slot].in_flight = 0
            windows.join(w, slot)


@part
def after_steps(w: World) -> None:
    """Let the timed steps have run: tokens, completions, and what the scheduler now knows."""
    st = w.st
    st.now += st.span
    st.visible = st.last_start if st.asynchronous == 1 else st.now
    st.events += 1
    st.finished_last = 0
    if st.zombies > 0:
        release_zombies(w)
    ledger.advance_steps(w, st.ran_steps)
    while st.heap_size > 0 and w.heap[0] >> SLOT_BITS <= st.step:
        entry = w.heap[0]
        due = ledger.is_completion(w, entry)
        st.heap_size = heap.pop(w.heap, st.heap_size)
        if due:
            if st.windowed == 1:
                windows.uncount(w, entry & SLOT_MASK)
            ledger.leave_decodes(w, entry & SLOT_MASK)
            finish(w, entry & SLOT_MASK)
    for i in range(st.fresh):
        emit_first(w, w.slots[i].fresh_list)
    if st.late > 0:
        rejoin_starved(w)
    if st.asynchronous == 0 and st.zombies > 0:  # kept back to be sorted
        release_zombies(w)
