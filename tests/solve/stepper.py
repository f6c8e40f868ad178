"""Every step of every replica: vLLM V1 over plain arrays, compiled, for traces of a million rows.

Written from the engine's documented rules and the step equation, apart from `planner.sim`: no
events, no jumps over steps, no running sums. Each step goes through the running requests one by
one, sums what each of them reads, and gives each its token. `tests/solve/test_stepper.py` holds
it against the plain-Python reference of `tests/sim`.

It knows what plans for vLLM use: first come first served, admission by the whole sequence, chunked
prefill, recomputation of the preempted, steps one after the other or scheduled one ahead. Every
prompt is computed in full: it is for traces that say nothing of shared prefixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

EVERYTHING = 1 << 62


class Physics(NamedTuple):
    """What a step's time is made of; the names are `StepCost`'s."""

    compute_s: NDArray[np.float64]
    memory_s: NDArray[np.float64]
    decode_padding: NDArray[np.int64]
    row_s: NDArray[np.float64]
    kv_s: NDArray[np.float64]
    window_tokens: NDArray[np.int64]
    pair_s: NDArray[np.float64]
    seq_s: float
    prefix_s: float
    decode_fixed_s: float
    prefill_fixed_s: float
    launch_s: float
    host_step_s: float
    host_seq_s: float
    host_prefill_s: float
    async_scheduling: bool


class Limits(NamedTuple):
    """What the scheduler may hand out."""

    max_num_batched_tokens: int
    max_num_seqs: int
    num_blocks: int
    block_size: int


class Life(NamedTuple):
    """The requests of one replica in order of arrival: what they ask for, and how far they are."""

    arrival_s: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    computed: NDArray[np.int64]  # tokens whose KV is in the cache
    given: NDArray[np.int64]  # tokens given out
    blocks: NDArray[np.int64]
    decoding: NDArray[np.bool_]  # its context is computed, it gives a token a step
    first_s: NDArray[np.float64]
    last_s: NDArray[np.float64]
    chunk: NDArray[np.int64]  # tokens it has in this step


@dataclass(frozen=True)
class Stepped:
    """Times at which the client sees the first and the last token, and what happened."""

    first_s: NDArray[np.float64]
    last_s: NDArray[np.float64]
    steps: int
    preemptions: int


def stepped(arrival_s, prompt, output, owner, settings, cost) -> Stepped:
    """Run the replicas that `owner` names, each alone, to the end of its last request."""
    _refuse(settings, cost)
    limits = Limits(
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
        settings.num_blocks,
        settings.block_size,
    )
    physics = Physics(*(getattr(cost, name) for name in Physics._fields))
    first_s, last_s = np.full(len(arrival_s), np.nan), np.full(len(arrival_s), np.nan)
    steps = preemptions = 0
    for replica in range(int(owner.max()) + 1):
        rows = np.flatnonzero(owner == replica)
        life = _born(arrival_s[rows], prompt[rows], output[rows])
        made, recomputed = _run(life, limits, physics)
        steps, preemptions = steps + made, preemptions + recomputed
        outside = cost.frontend_s + cost.frontend_token_s * prompt[rows]
        first_s[rows], last_s[rows] = life.first_s + outside, life.last_s + outside
    return Stepped(first_s=first_s, last_s=last_s, steps=steps, preemptions=preemptions)


def _refuse(settings, cost) -> None:
    """What is not written here must not be asked for."""
    assert settings.policy == "vllm_v1"
    assert settings.admission == "full_sequence"
    assert settings.scheduling_policy == "fcfs"
    assert not settings.long_prefill_token_threshold
    assert not settings.watermark_blocks
    assert settings.kv_layout is None
    assert cost.tokens_per_decode == 1
    assert cost.stages == 1


def _born(arrival_s, prompt, output) -> Life:
    count = len(arrival_s)
    return Life(
        arrival_s=np.ascontiguousarray(arrival_s, dtype=np.float64),
        prompt=np.ascontiguousarray(prompt, dtype=np.int64),
        output=np.ascontiguousarray(output, dtype=np.int64),
        computed=np.zeros(count, np.int64),
        given=np.zeros(count, np.int64),
        blocks=np.zeros(count, np.int64),
        decoding=np.zeros(count, np.bool_),
        first_s=np.full(count, np.nan),
        last_s=np.full(count, np.nan),
        chunk=np.zeros(count, np.int64),
    )


@numba.njit
def _blocks_of(tokens, size):
    return (tokens + size - 1) // size


@numba.njit
def _finished(life, r):
    return life.given[r] == life.output[r]


@numba.njit
def _step_s(life, batch, scheduled, physics):
    """Seconds of a step: the equation of `StepCost`, summed request by request."""
    tokens = decodes = finishing = chunks = past = 0
    reads_s = pairs_s = 0.0
    for i in range(scheduled):
        r = batch[i]
        here, n = life.computed[r], life.chunk[r]
        tokens += n
        if life.decoding[r]:
            decodes += 1
            for g in range(len(physics.kv_s)):
                window = physics.window_tokens[g] or EVERYTHING
                reads_s += physics.kv_s[g] * min(here + 1, window)
            continue
        chunks += 1
        past += here
        finishing += here + n == life.prompt[r] + life.given[r]
        for g in range(len(physics.kv_s)):
            window = physics.window_tokens[g] or EVERYTHING
            pairs = 0
            for q in range(1, n + 1):
                pairs += min(here + q, window)
            pairs_s += physics.pair_s[g] * pairs
    if not chunks:
        tokens = physics.decode_padding[tokens]
    rows = decodes + finishing
    memory_s = physics.memory_s[tokens] + reads_s + physics.seq_s * decodes
    gpu_s = max(physics.compute_s[tokens], memory_s)
    if chunks:
        gpu_s = np.sqrt(gpu_s * gpu_s + physics.launch_s * physics.launch_s)
        gpu_s += physics.prefill_fixed_s + pairs_s + physics.prefix_s * past
    if decodes:
        gpu_s += physics.decode_fixed_s
    gpu_s += physics.row_s[rows]
    host_s = physics.host_step_s + physics.host_seq_s * rows
    if chunks:
        host_s += physics.host_prefill_s
    return max(gpu_s, host_s) if physics.async_scheduling else gpu_s + host_s


@numba.njit
def _drive_out(life, running, held, preempted, outside):
    """Take all blocks of the last admitted; return how many are held, outside, and the blocks."""
    last = running[held - 1]
    blocks = life.blocks[last]
    life.blocks[last] = 0
    if not _finished(life, last):
        life.computed[last] = 0
        life.decoding[last] = False
        preempted[outside] = last
        outside += 1
    return held - 1, outside, blocks


@numba.njit
def _take_running(life, limits, running, held, preempted, outside, free, batch):
    """Put the running into the step; return held, outside, free, scheduled, budget left."""
    budget = limits.max_num_batched_tokens
    scheduled = place = 0
    while place < held and budget > 0:
        r = running[place]
        if _finished(life, r):  # has given its last token, which is not noticed yet
            place += 1
            continue
        n = min(life.prompt[r] + life.given[r] - life.computed[r], budget)
        lacking = _blocks_of(life.computed[r] + n, limits.block_size) - life.blocks[r]
        while lacking > free and held > place:
            held, outside, freed = _drive_out(life, running, held, preempted, outside)
            free += freed
        if held == place:  # it was the last itself
            break
        free -= lacking
        life.blocks[r] += lacking
        life.chunk[r] = n
        batch[scheduled] = r
        scheduled += 1
        budget -= n
        place += 1
    return held, outside, free, scheduled, budget


@numba.njit
def _admit(
    life, limits, running, held, preempted, outside, head, seen, free, batch, scheduled, budget
):
    """Admit from the front of the queue; return held, outside, head, free, scheduled."""
    while budget > 0 and held < limits.max_num_seqs and (outside or head < seen):
        r = preempted[outside - 1] if outside else head
        whole = life.prompt[r] + life.given[r]
        if _blocks_of(whole, limits.block_size) > free:  # no one goes past it
            break
        if outside:
            outside -= 1
        else:
            head += 1
        n = min(whole, budget)
        life.blocks[r] = _blocks_of(n, limits.block_size)
        free -= life.blocks[r]
        life.chunk[r] = n
        running[held] = batch[scheduled] = r
        held += 1
        scheduled += 1
        budget -= n
    return held, outside, head, free, scheduled


@numba.njit
def _notice(life, running, held):
    """Let go who has finished; return how many are held and the blocks that came free."""
    kept = freed = 0
    for i in range(held):
        r = running[i]
        if _finished(life, r):
            freed += life.blocks[r]
            life.blocks[r] = 0
        else:
            running[kept] = r
            kept += 1
    return kept, freed


@numba.njit
def _give(life, batch, scheduled, now):
    """Book what the step computed, and a token to everyone whose context is complete."""
    for i in range(scheduled):
        r = batch[i]
        life.computed[r] += life.chunk[r]
        if life.computed[r] < life.prompt[r] + life.given[r]:
            continue
        life.decoding[r] = True
        if life.given[r] == 0:
            life.first_s[r] = now
        life.given[r] += 1
        if _finished(life, r):
            life.last_s[r] = now


@numba.njit
def _run(life, limits, physics):
    """Step one replica until nothing is left; return its steps and preemptions.

    The running stand in `running` in order of admission. The waiting are the preempted, the last
    one first, and behind them the requests that have arrived: those from `head` up to `seen`.
    With asynchronous scheduling a step is put together when the one before it starts: requests
    that arrive or finish meanwhile are noticed by the next but one.
    """
    count = len(life.arrival_s)
    running = np.empty(limits.max_num_seqs, np.int64)
    batch = np.empty(limits.max_num_seqs, np.int64)
    preempted = np.empty(limits.max_num_seqs, np.int64)
    held = outside = head = seen = steps = preemptions = 0
    free = limits.num_blocks
    now = look_s = -np.inf
    while True:
        while seen < count and life.arrival_s[seen] <= look_s:
            seen += 1
        if held == 0 and outside == 0 and head == seen:
            if look_s < now:  # idle: the scheduler looks again as soon as the step is over
                look_s = now
                continue
            if head == count:
                return steps, preemptions
            now = look_s = life.arrival_s[head]
            continue
        before = held
        held, outside, free, scheduled, budget = _take_running(
            life, limits, running, held, preempted, outside, free, batch
        )
        preemptions += before - held
        if held == before:  # a step that drives someone out admits no one
            held, outside, head, free, scheduled = _admit(
                life,
                limits,
                running,
                held,
                preempted,
                outside,
                head,
                seen,
                free,
                batch,
                scheduled,
                budget,
            )
        start = now
        if scheduled:
            now += _step_s(life, batch, scheduled, physics)
            steps += 1
        held, freed = _notice(life, running, held)  # who gave the last token in the step before
        free += freed
        _give(life, batch, scheduled, now)
        look_s = start
        if not (scheduled and physics.async_scheduling):  # nothing to do takes no time
            held, freed = _notice(life, running, held)
            free += freed
            look_s = now
