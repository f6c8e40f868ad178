"""Step times at fractional batches: the closed forms' view of a `StepCost`."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.perf.quantity import Quantity
from planner.perf.step_arithmetic import (
    attended_pairs,
    gpu_seconds,
    host_seconds,
    kv_seconds,
    padded_tokens,
)
from planner.perf.step_cost import StepCost, interval_s, latency_s

Floats = NDArray[np.float64]


class Step(NamedTuple):
    """Times of one kind of step, in s.

    `gap_s` passes between two tokens of one sequence, `interval_s` between two batches that enter
    the engine, `latency_s` from a batch's start to its tokens. They differ only in a pipeline,
    where a sequence is in one of `stages` batches.
    """

    gap_s: Floats
    interval_s: Floats
    latency_s: Floats


def step(
    cost: StepCost,
    decodes: Quantity,
    context_tokens: Quantity,
    chunk_tokens: Quantity = 0.0,
    past_tokens: Quantity = 0.0,
) -> Step:
    """Return the times of a step with D decodes at mean context S and C prefill tokens.

    `past_tokens` is how many earlier tokens a prefill token attends to on average. Batches are
    counted in whole sequences and tokens, the KV they read is not rounded. All arguments broadcast.
    """
    share = np.asarray(decodes, dtype=np.float64) / cost.stages  # a pipeline splits the decodes
    context, past = np.asarray(context_tokens), np.asarray(past_tokens)
    chunk = np.asarray(chunk_tokens, dtype=np.float64)
    seqs = np.minimum(np.ceil(share - 1e-9), cost.max_num_seqs).astype(np.int64)
    prefill = np.rint(chunk).astype(np.int64)
    has_prefill = (prefill > 0).astype(np.int64)
    tokens = np.minimum(seqs * cost.tokens_per_decode + prefill, len(cost.memory_s) - 1)
    rows = np.minimum(seqs + has_prefill, len(cost.row_s) - 1)
    n = padded_tokens(cost.decode_padding, tokens, has_prefill)
    windows = [int(window) for window in cost.window_tokens]
    gpu = gpu_seconds(
        cost.compute_s[n],
        cost.memory_s[n],
        kv_seconds(cost.kv_s, [share * _seen(context, window) for window in windows]),
        cost.seq_s * seqs,
        cost.row_s[rows],
        kv_seconds(cost.pair_s, [chunk * _seen(past, window) for window in windows]),
        0.0,
        cost.decode_fixed_s * (seqs > 0),
        cost.prefill_fixed_s * has_prefill,
        cost.launch_s * has_prefill,
    )
    host = host_seconds(cost.host_step_s, cost.host_seq_s, cost.host_prefill_s, rows, has_prefill)
    interval = np.asarray(interval_s(cost, gpu, host, tokens))
    if cost.stages == 1:
        return Step(gap_s=interval, interval_s=interval, latency_s=interval)
    latency = np.asarray(latency_s(cost, gpu, host, tokens))
    gap = np.maximum(latency, cost.stages * interval)
    return Step(gap_s=gap, interval_s=interval, latency_s=latency)


def _seen(tokens: Floats, window: int) -> Floats:
    """Return the tokens that attention reaches: all of them, or a window of them."""
    return np.minimum(tokens, window) if window else tokens


def prompt_extra_s(
    cost: StepCost, prompt_tokens: Quantity, cached_tokens: Quantity, chunk_tokens: Quantity
) -> Floats:
    """Return time of one prompt's attention over all its chunks in s, beyond its steps' own.

    Σ_g pair_s[g]·pairs(p, past h) + prefix_s·Σ_chunks past, with m = ⌈p/C⌉ chunks after h cached
    tokens: Σ past = m·h + C·m(m − 1)/2. Linear terms of the step time, so exact in sum.
    """
    prompt, cached, chunk = (
        np.asarray(x, dtype=np.float64) for x in (prompt_tokens, cached_tokens, chunk_tokens)
    )
    chunks = np.ceil(prompt / chunk)
    read_back = chunks * cached + chunk * chunks * (chunks - 1.0) / 2.0
    extra = cost.prefix_s * read_back
    for rate, window in zip(cost.pair_s, cost.window_tokens, strict=True):
        extra = extra + float(rate) * attended_pairs(prompt, cached, int(window))
    return np.asarray(extra, dtype=np.float64)


def stretched(cost: StepCost, factor: float) -> StepCost:
    """Return the cost with every time multiplied: what an error band of a step time means."""
    return replace(
        cost,
        compute_s=cost.compute_s * factor,
        memory_s=cost.memory_s * factor,
        row_s=cost.row_s * factor,
        kv_s=cost.kv_s * factor,
        seq_s=cost.seq_s * factor,
        pair_s=cost.pair_s * factor,
        prefix_s=cost.prefix_s * factor,
        decode_fixed_s=cost.decode_fixed_s * factor,
        prefill_fixed_s=cost.prefill_fixed_s * factor,
        launch_s=cost.launch_s * factor,
        host_step_s=cost.host_step_s * factor,
        host_seq_s=cost.host_seq_s * factor,
        host_prefill_s=cost.host_prefill_s * factor,
        send_s_per_token=cost.send_s_per_token * factor,
        send_fixed_s=cost.send_fixed_s * factor,
    )
