"""vLLM's schedulers, event by event: V1, and V0 without chunked prefill.

A step takes the running requests first, in admission order: a decode costs one token, a prompt
takes a chunk. What is left of `max_num_batched_tokens` admits waiting requests, unless a request
was preempted in this step. Three ways through a step, all with one meaning:

- `decode_run`: nothing can join, so many decode-only steps at once;
- `schedule_totals`: one step in which every block that is needed is free;
- `schedule_listed`: one step, request by request, for preemption and chunk thresholds.

With priorities (`by_priority`) the least urgent of the running is preempted, wherever it stands.

V0 (`prefill_first`) admits whole prompts, in steps of their own while every decode waits; its
other steps are decodes alone.
"""

from __future__ import annotations

import numpy as np

from planner.sim.by_reference import refer
from planner.sim.jit import entry, part, rare
from planner.sim.kernel import (
    batch,
    clock,
    ledger,
    meter,
    preemption,
    queue,
    release,
    window_runs,
    windows,
)
from planner.sim.kernel.debug import conservation_fault
from planner.sim.kernel.heap import SLOT_BITS
from planner.sim.kernel.world import World


@part
def schedule_totals(w: World) -> int:
    """Schedule all decodes and the one unfinished prompt, which is last in the running list.

    Return the budget left, or -1, nothing touched, if a block is missing.
    """
    st = w.st
    budget = st.max_num_batched_tokens - st.decodes
    chunk = 0
    if st.partials > 0:
        chunk = min(w.slots[st.partial].total - w.slots[st.partial].computed, budget)
    if st.windowed == 1:
        if not windows.schedule_totals(w, chunk):
            return -1
    else:
        free = st.free_blocks - w.residue[st.cross]
        if st.partials > 0 and st.prompt_blocks == 0:
            s = w.slots[st.partial]
            free -= ledger.blocks_of(s.computed + chunk, st.block_size)
            free += ledger.blocks_of(s.computed, st.block_size)
        if free < 0:
            return -1
        st.free_blocks = free
    if chunk > 0:
        batch.add_chunk(w, st.partial, chunk)
        st.partials -= st.fresh
    return int(budget - chunk)


@rare
def schedule_listed(w: World) -> int:
    """Walk the running list in admission order; return the budget left."""
    st = w.st
    budget = st.max_num_batched_tokens
    limit = queue.chunk_limit(w)
    if st.by_priority == 1:
        preemption.plan_by_priority(w, limit)
    slot = st.front
    while slot >= 0 and budget > 0:
        s = w.slots[slot]
        if s.zombie == 1:
            slot = s.after
            continue
        if st.by_priority == 1 and s.planned == 0:
            break
        chunk = s.planned
        if st.by_priority == 0:
            chunk = preemption.next_chunk(w, slot, budget, limit)
        if not preemption.take_blocks(w, slot, chunk):
            return int(budget)
        budget -= chunk
        if s.decoding == 0:
            finished = st.fresh
            batch.add_chunk(w, slot, chunk)
            s.planned = 0
            st.partials -= st.fresh - finished
        elif s.late_s > 0.0:
            w.slots[st.tardy].tardy_list = slot
            st.tardy += 1
        slot = s.after
    park_starved(w, slot)
    return int(budget)


@part
def park_starved(w: World, slot: int) -> None:
    """Take decodes that got no budget, from `slot` down the list, out of this step."""
    st = w.st
    while slot >= 0:
        s = w.slots[slot]
        if s.decoding == 1:
            tokens = s.start + st.step
            s.total = tokens - 1
            s.generated = tokens - w.requests[s.request].input_tokens
            if st.windowed == 1:
                windows.uncount(w, slot)
            ledger.leave_decodes(w, slot)
            w.slots[st.late].starved_list = slot
            st.late += 1
        s.in_flight = 0
        slot = s.after


@part
def steps_of_blocks(w: World, steps: int, waiting: bool) -> int:
    """Return how many of the next `steps` decode-only steps the blocks change nothing for."""
    if w.st.windowed == 0:
        return ledger.steps_within(w, steps)
    steps = window_runs.steps_within(w, steps)
    return window_runs.steps_until_admission(w, steps) if waiting else steps


@part
def blocks_taken(w: World, steps: int) -> int:
    """Return how many blocks the decodes take in the next `steps` steps, given ones off."""
    if w.st.windowed == 1:
        return window_runs.taken_blocks(w, steps)
    return ledger.crossings(w, steps)


@part
def decode_run(w: World, until_s: float) -> bool:
    """Time decode-only steps up to the next event; the first of them has the blocks it needs.

    Events: a completion, blocks running out, a context filling its window, an arrival that could
    be admitted, the end of a time bin. A run that ends after `until_s` is put off (False): a
    request that is routed here meanwhile could cut it short. A router that looks at the cache has
    it cut.
    """
    st = w.st
    steps = ledger.next_completion(w) - st.step
    waiting = queue.is_waiting(w)
    if st.zombies > 0:
        # What they give back can admit the queue's head in the next step.
        if waiting or until_s < np.inf:
            steps = 1
        batch.release_zombies(w)
    steps = steps_of_blocks(w, steps, waiting)
    if len(w.groups) > 0 and st.cross_size > 0:
        steps = min(steps, (w.cross_heap[0] >> SLOT_BITS) - st.step)
    floor = w.table[st.decodes].floor_s
    first = w.table[st.decodes].first_s + batch.kv_read_s(w)
    slope = batch.kv_slope_s(w)
    span = clock.run_s(floor, first, slope, steps)
    limit = st.bin_end - st.now
    if span >= limit:
        steps = clock.steps_until(floor, first, slope, steps, limit)
        span = clock.run_s(floor, first, slope, steps)
    # By priority an arrival can pass a head that has to wait.
    heeded = not waiting or st.by_priority == 1
    if heeded and st.head >= 0 and st.running < st.max_num_seqs:
        limit = w.requests[st.head].arrival_s - st.now
        # An asynchronous scheduler sees an arrival one step later.
        lag = st.asynchronous
        if clock.run_s(floor, first, slope, steps - lag) >= limit:
            seen = clock.steps_until(floor, first, slope, steps, limit)
            steps = lag + seen if limit > 0.0 else 1
            span = clock.run_s(floor, first, slope, steps)
    if steps > 1 and st.now + span > until_s:
        if st.observed == 0:
            st.resume = st.now + span
            return False
        steps = clock.steps_until(floor, first, slope, steps, until_s - st.now)
        span = clock.run_s(floor, first, slope, steps)
    meter.add_run_gaps(w, floor, first, slope, steps)
    st.used_before = st.num_blocks - st.free_blocks
    st.free_blocks -= blocks_taken(w, steps)
    meter.add_sums(w, steps, span)
    st.fresh = 0
    st.ran_steps = steps
    st.span = span
    st.last_start = st.now
    if st.asynchronous == 1:
        st.last_start += clock.run_s(floor, first, slope, steps - 1)
    return True


@part
def one_step(w: World) -> bool:
    """Schedule and time one step; return whether anything was scheduled."""
    st = w.st
    preempted = st.preempted
    # Under a threshold several prompts run at once, and can leave decodes behind them out.
    ordered = st.stalled == 1 or st.late > 0 or (st.threshold > 0 and st.partials > 0)
    batch.clear_batch(w)
    budget = -1 if ordered else schedule_totals(w)
    if budget < 0:
        budget = schedule_listed(w)
    if (st.preempted == preempted or st.admits_always == 1) and st.prefill_first == 0:
        queue.admit(w, budget)
    if st.decodes == 0 and st.batch_prefills == 0:
        return False
    batch.run_batch(w)
    return True


@rare
def prefill_step(w: World) -> None:
    """Time one step of whole prompts alone, as many as budget, slots and blocks take."""
    batch.clear_batch(w)
    queue.admit(w, w.st.max_num_batched_tokens)
    batch.run_prefill(w)


@rare
def notice(w: World) -> None:
    """Schedule nothing, which takes no time: whatever went unnoticed is noticed."""
    w.st.visible = w.st.now
    w.st.events += 1
    batch.release_zombies(w)
    if w.st.windowed == 1:
        windows.nothing_in_flight(w)
    if w.st.late > 0:
        batch.rejoin_starved(w)


@part
def wake(w: World, until_s: float) -> bool:
    """With nothing to run, move to the next arrival before `until_s`; return False if none."""
    st = w.st
    if st.running > 0 or st.visible < st.now:
        notice(w)
        return True
    if st.queued == 0 and (st.head < 0 or w.requests[st.head].arrival_s >= until_s):
        return False
    if st.queued + st.stacked > 0 or w.requests[st.head].arrival_s <= st.now:
        st.fault = 8  # known, alone, and still cannot start
        return False
    st.now = w.requests[st.head].arrival_s
    st.visible = st.now
    return True


@part
def is_steady(w: World) -> bool:
    """Return whether the next steps hold decodes alone, each on time and with its block."""
    st = w.st
    punctual = st.late == 0 and st.stalled == 0
    if st.caching == 1 and st.zombies > 0:
        return False  # the next step takes its blocks before theirs are free
    if st.unsettled > 0 or st.tables * w.residue[st.cross] > st.free_blocks:
        return False
    return bool(st.partials == 0 and punctual)


@part
def next_event(w: World, until_s: float) -> bool:
    """Run up to the next event; return False if nothing more starts before `until_s`."""
    st = w.st
    if st.released > 0 and st.routed == 0:
        release.take_in(w)
    if st.by_priority == 1:
        queue.enqueue_arrivals(w)
    joins = queue.is_waiting(w) and queue.can_admit(w)
    if st.decodes == 0 and st.partials == 0 and not joins:
        return wake(w, until_s)
    if st.now >= until_s:
        return False
    if st.now >= st.bin_end:
        meter.roll_bin(w)
    ran = True
    if joins and st.prefill_first == 1:
        prefill_step(w)
    elif not joins and is_steady(w):
        if not decode_run(w, until_s):
            return False
    else:
        ran = one_step(w)
    if ran:
        batch.after_steps(w)
    else:
        notice(w)
    return True


@rare
def advance(w: World, until_s: float) -> None:
    """Run every step that starts before `until_s`; stop early when a probe is lost."""
    st = w.st
    if until_s <= st.resume:
        return
    while st.lost == 0 and st.fault == 0 and next_event(w, until_s):
        if st.debug == 1:
            st.fault = conservation_fault(w)


@entry
def run(w: World, until_s: float) -> None:
    """Run every step that starts before `until_s`; stop early when a probe is lost."""
    advance(refer(w), until_s)
