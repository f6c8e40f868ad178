"""vLLM's schedulers, one step after the other: for pipelines and for speculative decoding.

The same policies as in `vllm_v1`, where every decode of a step advances by one token and a run of
steps has a closed form. Here decodes advance by what was accepted, or wait for their batch to come
back, so every request is visited in every step.

Pipeline: up to `stages` batches are in flight. A batch is scheduled as soon as there is a place for
it, from the requests whose token is back; chunks of one prompt follow each other. When nothing can
be scheduled the engine waits for the oldest batch, and hears of no arrival before.

Speculation: a decode schedules its next token and γ drafts, as far as the budget goes, and blocks
for them and for the drafter's own look ahead. Rejected drafts leave their blocks to the request.
An asynchronous scheduler does not yet know what the last step rejected: it counts on all of it, and
schedules once more a request that only its accepted drafts have finished.
"""

from __future__ import annotations

from planner.sim.by_reference import refer
from planner.sim.jit import entry, part, rare
from planner.sim.kernel import batch, debug, landing, meter, release, stepped_batch
from planner.sim.kernel.pipeline import Pipe, launch
from planner.sim.kernel.world import World


@part
def gather(w: World, p: Pipe) -> bool:
    """Schedule one batch; return whether there is anything in it."""
    st = w.st
    batch.clear_batch(w)
    st.batch_decodes = 0
    p.st.members = 0
    p.st.decode_tokens = 0
    p.st.read_s = 0.0
    preempted = st.preempted
    st.used_before = st.num_blocks - st.free_blocks
    if st.prefill_first == 1:
        stepped_batch.admit(w, p, st.max_num_batched_tokens)
        if st.batch_prefills == 0:
            stepped_batch.schedule_running(w, p)
    else:
        budget = stepped_batch.schedule_running(w, p)
        if st.preempted == preempted or st.admits_always == 1:
            stepped_batch.admit(w, p, budget)
    if st.asynchronous == 1 and p.st.per_decode > 1:
        stepped_batch.catch_up(w, p)
    meter.note_use(w, 1, 0.0)
    return bool(p.st.members > 0)


@part
def depart(w: World, p: Pipe) -> None:
    """Send the gathered batch off."""
    st = w.st
    w.bins[st.bin].steps += 1
    w.bins[st.bin].prefill_tokens += st.batch_tokens
    launch(w, p)


@part
def idle(w: World, p: Pipe, until_s: float, preempted: bool) -> bool:
    """With nothing in flight or to schedule, go on to what happens next; False if nothing does."""
    st = w.st
    if preempted or st.running > 0 or st.visible < st.now:
        st.visible = st.now
        st.events += 1
        landing.notice_finished(w, p)
        return True
    if st.stacked > 0 or (st.head >= 0 and w.requests[st.head].arrival_s <= st.now):
        st.fault = 8  # known, alone, and still cannot start
        return False
    if st.head < 0 or w.requests[st.head].arrival_s >= until_s:
        return False
    st.now = w.requests[st.head].arrival_s
    st.visible = st.now
    return True


@part
def next_event(w: World, p: Pipe, until_s: float) -> bool:
    """Send one batch off or let one come back; return False if neither happens by `until_s`."""
    st = w.st
    preempted = st.preempted
    if st.released > 0:
        release.take_in(w)
    if p.st.in_flight < p.st.stages and p.st.blocked == 0:
        if st.now >= until_s:
            return False
        if st.now >= st.bin_end:
            meter.roll_bin(w)
        if gather(w, p):
            depart(w, p)
            return True
    if p.st.in_flight == 0:
        return idle(w, p, until_s, st.preempted > preempted)
    p.st.blocked = 1
    if p.flights[p.st.oldest].end_s > until_s:
        return False
    landing.land(w, p)
    return True


@rare
def stepped_fault(w: World, p: Pipe) -> int:
    """Return which conservation law of debug.FAULTS broke, 0 for none."""
    st = w.st
    used = 0
    listed = 0
    slot = st.front
    while slot >= 0 and listed <= st.running:
        listed += 1
        used += p.lanes[slot].blocks
        if st.caching == 1:
            s = w.slots[slot]
            used -= min(w.prefix[s.request].shared_blocks, s.computed // st.block_size)
        slot = w.slots[slot].after
    if st.caching == 1:
        used += debug.held_nodes(w)
        if debug.cache_fault(w) > 0:
            return 9
    if listed != st.running:
        return 7
    if st.free_blocks < 0:
        return 5
    if st.running > st.max_num_seqs:
        return 6
    return 1 if used + st.free_blocks != st.num_blocks else 0


@rare
def advance(w: World, p: Pipe, until_s: float) -> None:
    """Run every step that starts before `until_s`; stop early when a probe is lost."""
    while w.st.lost == 0 and w.st.fault == 0 and next_event(w, p, until_s):
        if w.st.debug == 1:
            w.st.fault = stepped_fault(w, p)


@entry
def run(w: World, p: Pipe, until_s: float) -> None:
    """Run every step that starts before `until_s`; stop early when a probe is lost."""
    advance(refer(w), refer(p), until_s)
