"""The fixed point of `planner.solve.steady`, lane by lane and minute by minute.

A minute's state depends on its own step times and on those of the minutes before it, so the minutes
are settled in order, each to its own fixed point.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_arithmetic import gpu_seconds, host_seconds, overlap_seconds, padded_tokens
from planner.solve.kernel.compile import entry, part
from planner.solve.sharing import kv_sequences, mixed_steps

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The equations are written once, for arrays and for numbers.
_padded = part(padded_tokens)
_gpu = part(gpu_seconds)
_host = part(host_seconds)
_overlap = part(overlap_seconds)
_mixed_steps = part(mixed_steps)
_kv_sequences = part(kv_sequences)


class Physics(NamedTuple):
    """A `StepCost` as arrays and numbers; names as there."""

    compute_s: Floats
    memory_s: Floats
    decode_padding: Ints
    row_s: Floats
    kv_s: Floats
    pair_s: Floats
    window_tokens: Ints
    seq_s: float
    decode_fixed_s: float
    prefill_fixed_s: float
    launch_s: float
    host_step_s: float
    host_seq_s: float
    host_prefill_s: float
    async_scheduling: bool
    tokens_per_decode: int
    stages: int
    slowest_stage_share: float
    send_s_per_token: float
    send_fixed_s: float


class Traffic(NamedTuple):
    """What a stretch offers, and what a replica of each lane may do with it."""

    residents: Floats  # [speed, block] sequences decoding per (s/token), per unit of load
    held: Floats  # [speed, block] KV tokens they hold per (s/token)
    log_speeds: Floats
    block_tokens: Floats  # prompt tokens/s per block
    block_s: float
    life_tokens: float  # tokens a running sequence has generated on average
    past_tokens: float  # tokens a prefill token attends to on average
    mixes: bool  # whether prefill and decodes share steps
    factor: Floats  # [lane]
    max_num_batched_tokens: Floats
    max_num_seqs: Floats
    kv_tokens: Floats
    lone_chunk: Floats  # prefill tokens a step of a prompt that is alone


class Settled(NamedTuple):
    """The result, arrays (lane, block); names as in `planner.solve.steady.State`."""

    decodes: Floats
    wanted: Floats
    context: Floats
    decode_gap_s: Floats
    mixed_gap_s: Floats
    full_gap_s: Floats
    mixed_share: Floats
    mean_gap_s: Floats
    chunk: Floats
    full_chunk: Floats
    budget_supply: Floats
    slots: Floats  # share of the wanted sequences that slots and KV take


@part
def _attention_s(rates: Floats, windows: Ints, amount: float, tokens: float) -> float:
    """Return Σ_g rate[g]·amount·min(tokens, window[g])."""
    total = 0.0
    for g in range(len(rates)):
        seen = min(tokens, float(windows[g])) if windows[g] > 0 else tokens
        total += rates[g] * (amount * seen)
    return total


@part
def _step(
    c: Physics, decodes: float, context: float, chunk: float, past: float
) -> tuple[float, float]:
    """Return gap and interval of a step in s, see `planner.solve.steps.step`."""
    share = decodes / c.stages
    seqs = min(math.ceil(share - 1e-9), len(c.row_s) - 1)
    prefill = int(np.rint(chunk))
    has_prefill = 1 if prefill > 0 else 0
    tokens = min(seqs * c.tokens_per_decode + prefill, len(c.memory_s) - 1)
    rows = min(seqs + has_prefill, len(c.row_s) - 1)
    n = _padded(c.decode_padding, tokens, has_prefill)
    gpu = _gpu(
        c.compute_s[n],
        c.memory_s[n],
        _attention_s(c.kv_s, c.window_tokens, share, context),
        c.seq_s * seqs,
        c.row_s[rows],
        _attention_s(c.pair_s, c.window_tokens, chunk, past),
        0.0,
        c.decode_fixed_s * (1.0 if seqs > 0 else 0.0),
        c.prefill_fixed_s * has_prefill,
        c.launch_s * has_prefill,
    )
    host = _host(c.host_step_s, c.host_seq_s, c.host_prefill_s, rows, has_prefill)
    if c.stages == 1:
        alone = _overlap(gpu, host, c.async_scheduling)
        return alone, alone
    send = c.send_fixed_s + c.send_s_per_token * tokens
    interval = _overlap(gpu * c.slowest_stage_share, host, c.async_scheduling) + send
    latency = _overlap(gpu, host, c.async_scheduling) + (c.stages - 1) * send
    return max(latency, c.stages * interval), interval


@part
def _prefill_step(
    c: Physics, t: Traffic, decodes: float, context: float, chunk: float, alone_s: float
) -> tuple[float, float]:
    """Return what a step with prefill adds up to: gap between a decode's tokens, and interval."""
    if t.mixes:
        return _step(c, decodes, context, chunk, t.past_tokens)
    gap, interval = _step(c, 0.0, 0.0, chunk, t.past_tokens)
    return alone_s + gap, interval


@part
def _recent_gap(spent: Floats, block: int, gap: float, life_tokens: float, block_s: float) -> float:
    """Return `planner.solve.steady.recent_gap` of one block; `spent` sums 1/gap before it."""
    length = max(life_tokens * gap / block_s, 1.0)
    position = block + 1 - length
    low = max(int(position), 0)
    now = spent[block] + 1.0 / gap
    after = now if low == block else spent[low + 1]
    earlier = spent[low] + (position - low) * (after - spent[low])
    recent: float = length / (now - earlier)
    return recent


@part
def _between(table: Floats, block: int, place: float) -> float:
    """Return a column of `table` between its rows."""
    low = min(int(place), table.shape[0] - 2)
    weight = place - low
    mixed: float = (1.0 - weight) * table[low, block] + weight * table[low + 1, block]
    return mixed


@part
def _place(logs: Floats, gap: float) -> float:
    """Return where log `gap` lies among `logs`, in rows, held to their ends."""
    at = math.log(max(gap, 1e-6))
    if at <= logs[0]:
        return 0.0
    for row in range(1, len(logs)):
        if at <= logs[row]:
            within: float = (at - logs[row - 1]) / (logs[row] - logs[row - 1])
            return row - 1 + within
    return float(len(logs) - 1)


@entry
def settle(
    c: Physics,
    t: Traffic,
    iterations: int,
    tolerance: float,
    damping: float,
    spent: Floats,
    out: Settled,
) -> None:
    """Fill `out`; `spent` is scratch of blocks + 1."""
    lanes, blocks = out.decodes.shape
    empty_gap, _ = _step(c, 1.0, 0.0, 0.0, 0.0)
    for lane in range(lanes):
        spent[0] = 0.0
        for b in range(blocks):
            demand = t.factor[lane] * t.block_tokens[b]
            gap = empty_gap
            admitted = 1.0
            for _ in range(iterations):
                recent = _recent_gap(spent, b, gap, t.life_tokens, t.block_s)
                place = _place(t.log_speeds, recent)
                unit = _between(t.residents, b, place) * recent
                held = _between(t.held, b, place) * recent
                context = held / unit if unit > 1e-12 else 0.0
                fits = _kv_sequences(t.kv_tokens[lane], context)
                limit = max(min(t.max_num_seqs[lane], fits), 1e-3)
                wanted = t.factor[lane] * unit
                decodes = min(wanted * admitted, limit)
                budget = t.max_num_batched_tokens[lane]
                full_chunk = max(1.0, budget - decodes * c.tokens_per_decode)
                alone, _ = _step(c, decodes, context, 0.0, 0.0)
                full, interval = _prefill_step(c, t, decodes, context, full_chunk, alone)
                supply = full_chunk / interval
                slots = min(1.0, limit / max(wanted, 1e-9))
                admitted = min(1.0, supply / max(demand, 1e-9), slots)
                prompts = demand * admitted
                share, chunk = _mixed_steps(prompts, gap / c.stages, t.lone_chunk[lane], full_chunk)
                mixed, _ = _prefill_step(c, t, decodes, context, chunk, alone)
                change = (1.0 - share) * alone + share * mixed - gap
                settled = abs(change) < tolerance * gap
                gap += damping * change
                if settled:
                    break
            spent[b + 1] = spent[b] + 1.0 / gap
            out.decodes[lane, b] = decodes
            out.wanted[lane, b] = wanted
            out.context[lane, b] = context
            out.decode_gap_s[lane, b] = alone
            out.mixed_gap_s[lane, b] = mixed
            out.full_gap_s[lane, b] = full
            out.mixed_share[lane, b] = share
            out.mean_gap_s[lane, b] = gap
            out.chunk[lane, b] = chunk
            out.full_chunk[lane, b] = full_chunk
            out.budget_supply[lane, b] = supply
            out.slots[lane, b] = slots
