"""SGLang's default scheduler, event by event: fcfs, chunked prefill, prefill and decode unmixed.

An iteration runs a prefill batch if one can be gathered, else a decode step. A request is admitted
when its prompt, its output limit and a share (`ratio`) of what the running requests may still
produce fit. The share falls with every decode step; decodes that run out of memory retract the
requests with the fewest output tokens to the end of the queue, and the share rises. After a refusal
nobody is tried until the running batch has shrunk, which shows when a decode is next prepared.

The output limit of a request is taken to be its output. A block is one token.
"""

from __future__ import annotations

import numpy as np

from planner.sim.by_reference import refer
from planner.sim.jit import entry, part, rare
from planner.sim.kernel import batch, ledger, meter, prefix, queue, release, vllm_v1
from planner.sim.kernel.debug import conservation_fault
from planner.sim.kernel.world import World

INIT_NEW_TOKEN_RATIO = 0.7  # × schedule_conservativeness, at most 1
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14
NEW_TOKEN_RATIO_DECAY_STEPS = 600
RETRACT_DECODE_STEPS = 20
CLIP_MAX_NEW_TOKENS = 4096


@part
def fall_idle(w: World) -> None:
    """Forget what a busy scheduler remembers."""
    w.st.ratio = w.st.ratio_init
    w.st.decays = 0
    w.st.leaving = 0
    w.st.batch_full = 0


@rare
def room(w: World) -> float:
    """Return the free tokens that the running requests are not expected to need."""
    st = w.st
    promised = 0
    slot = st.front
    while slot >= 0:
        if w.slots[slot].decoding == 1:
            promised += min(w.slots[slot].finish_step - st.step, CLIP_MAX_NEW_TOKENS)
        slot = w.slots[slot].after
    least = st.ratio_init * MIN_NEW_TOKEN_RATIO_FACTOR
    decay = (st.ratio_init - least) / NEW_TOKEN_RATIO_DECAY_STEPS
    share = max(st.ratio - st.decays * decay, least)
    return float(st.free_blocks - promised * share)


@part
def take_head(w: World) -> int:
    """Move the head of the queue to the running list; return its slot."""
    st = w.st
    slot = ledger.take_slot(w)
    s = w.slots[slot]
    s.growing = 0
    s.request = st.head
    request = w.requests[st.head]
    s.generated = w.resume[st.head].generated
    s.last_token_s = w.resume[st.head].last_token_s
    release.leave_list(w)
    if request.preemptions == 0:
        request.scheduled_s = st.now
    s.computed = 0
    s.total = request.input_tokens + s.generated
    return int(slot)


@rare
def gather(w: World) -> None:
    """Gather a prefill batch: the unfinished prompt first, then the queue in order."""
    st = w.st
    stalled = st.stalled
    batch.clear_batch(w)
    st.stalled = stalled  # still so, should nothing be gathered
    chunk = st.max_num_batched_tokens
    budget = st.max_prefill_tokens
    left = room(w)
    if st.partials > 0:
        s = w.slots[st.partial]
        tokens = min(s.total - s.computed, chunk)
        st.free_blocks -= tokens
        batch.add_chunk(w, st.partial, tokens)
        chunk -= tokens
        budget -= tokens
        left -= tokens
        if st.fresh > 0:
            st.partials = 0
            produce = w.requests[s.request].output_tokens - s.generated
            left -= min(produce, CLIP_MAX_NEW_TOKENS)
    st.batch_full = 0
    while queue.is_waiting(w):
        generated = w.resume[st.head].generated
        tokens = w.requests[st.head].input_tokens + generated
        produce = min(w.requests[st.head].output_tokens - generated, CLIP_MAX_NEW_TOKENS)
        if st.running + st.leaving >= st.max_num_seqs or tokens + produce >= left:
            st.batch_full = 1
            break
        if st.batch_prefills > 0 and tokens >= budget:
            break
        whole = tokens <= chunk
        tokens = min(tokens, chunk)
        if tokens == 0:
            break
        slot = take_head(w)
        st.free_blocks -= tokens
        batch.add_chunk(w, slot, tokens)
        chunk -= tokens
        budget -= tokens
        left -= tokens
        if whole:
            left -= produce
        else:
            st.partials = 1
            st.partial = slot
        if left <= 0.0:
            st.batch_full = 1
        if left <= 0.0 or budget <= 0 or chunk <= 0:
            break


@part
def to_end_of_queue(w: World, number: int) -> None:
    """Queue a retracted request behind all that have arrived."""
    st = w.st
    last = -1
    following = st.head
    while following >= 0 and w.requests[following].arrival_s <= st.visible:
        last = following
        following = w.requests[following].following
    w.requests[number].following = following
    if last < 0:
        st.head = number
    else:
        w.requests[last].following = number


@part
def next_victim(w: World) -> int:
    """Return the decode with the fewest output tokens, then the longest prompt, then the last."""
    st = w.st
    victim = -1
    fewest = 0
    longest = 0
    slot = st.front
    while slot >= 0:
        s = w.slots[slot]
        if s.decoding == 1:
            prompt = w.requests[s.request].input_tokens
            given = s.start + st.step - prompt
            if victim < 0 or given < fewest or (given == fewest and prompt >= longest):
                victim = slot
                fewest = given
                longest = prompt
        slot = s.after
    return victim


@rare
def retract(w: World) -> None:
    """Send decodes back to the queue until the others can take a step; raise the share."""
    st = w.st
    while w.residue[st.cross] > st.free_blocks:
        slot = next_victim(w)
        s = w.slots[slot]
        request = w.requests[s.request]
        tokens = s.start + st.step
        w.resume[s.request].generated = tokens - request.input_tokens
        w.resume[s.request].last_token_s = st.now - s.late_s
        ledger.leave_decodes(w, slot)
        prefix.give_back(w, slot, tokens - 1, -1)
        ledger.drop_slot(w, slot)
        request.preemptions += 1
        st.preempted += 1
        st.recomputed_tokens += tokens - 1
        w.bins[st.bin].preemptions += 1
        to_end_of_queue(w, s.request)
    given = 0
    most = 0
    slot = st.front
    while slot >= 0:
        s = w.slots[slot]
        if s.decoding == 1:
            given += s.start + st.step - w.requests[s.request].input_tokens
            most += w.requests[s.request].output_tokens
        slot = s.after
    st.ratio = min(1.0, (given + RETRACT_DECODE_STEPS * st.decodes) / (most + 1))
    st.decays = 0
    st.batch_full = 0


@part
def decode_steps(w: World, retracted: bool, until_s: float) -> bool:
    """Time one decode step, or all of them up to the next event; False if that is put off."""
    st = w.st
    tried_next = st.batch_full == 0 and queue.is_waiting(w)
    if retracted or tried_next or not vllm_v1.is_steady(w):
        vllm_v1.one_step(w)
    else:
        if not vllm_v1.decode_run(w, until_s):
            return False
        if st.ran_steps > 1 and st.leaving > 0:
            st.leaving = 0
            st.batch_full = 0
    if not retracted:
        st.decays += st.ran_steps
    return True


@part
def decode(w: World, until_s: float) -> bool:
    """Prepare and run decodes, up to the next event; return False if that is put off."""
    st = w.st
    shrunk = st.leaving
    if shrunk > 0:
        st.leaving = 0
        st.batch_full = 0
    retracted = w.residue[st.cross] > st.free_blocks
    if retracted:
        retract(w)
    if st.decodes == 0:
        if st.running == 0 and not retracted and shrunk == 0 and st.batch_full == 1:
            st.fault = 8
            return False
        fall_idle(w)
        vllm_v1.notice(w)
        return True
    if not decode_steps(w, retracted, until_s):
        return False
    batch.after_steps(w)
    return True


@part
def nothing_runs(w: World, until_s: float) -> bool:
    """Wait for an arrival, or for what is not noticed yet; return False if neither comes."""
    st = w.st
    if st.running > 0 or st.visible < st.now:
        if st.running > 0:
            fall_idle(w)
        vllm_v1.notice(w)
        return True
    fall_idle(w)
    return bool(vllm_v1.wake(w, until_s))


@part
def next_event(w: World, until_s: float) -> bool:
    """Run up to the next event; return False if nothing more starts before `until_s`."""
    st = w.st
    if st.released > 0:
        release.take_in(w)
    waiting = queue.is_waiting(w)
    if st.decodes == 0 and st.partials == 0 and not waiting:
        return nothing_runs(w, until_s)
    if st.now >= until_s:
        return False
    if st.now >= st.bin_end:
        meter.roll_bin(w)
    if st.partials > 0 or (waiting and st.batch_full == 0):
        gather(w)
        if st.batch_prefills > 0:
            batch.run_prefill(w)
            batch.after_steps(w)
            return True
    return decode(w, until_s)


@entry
def run(world: World, until_s: float) -> None:
    """Run every step that starts before `until_s`; stop early when a probe is lost."""
    w = refer(world)
    st = w.st
    while st.lost == 0 and st.fault == 0 and next_event(w, until_s):
        if st.debug == 1:
            st.fault = conservation_fault(w)


def begin(states: np.ndarray, schedule_conservativeness: float) -> None:
    """Set the records of idle replicas to this policy's start."""
    share = min(INIT_NEW_TOKEN_RATIO * schedule_conservativeness, 1.0)
    states["ratio"] = states["ratio_init"] = share
    states["prefill_first"] = 1  # decode steps admit nobody
