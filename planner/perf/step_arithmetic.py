"""The arithmetic of a step time, written once over plain arrays and scalars.

Called with numpy arrays it is vectorised, and a scalar kernel may compile the very same functions
with `numba.njit`.
"""

from __future__ import annotations

import numpy as np

from planner.perf.quantity import Quantity


def padded_tokens(decode_padding: Quantity, tokens: Quantity, prefill: Quantity) -> Quantity:
    """Return table index n: `tokens`, padded to the next graph size when `prefill` is 0.

    `tokens` are integers, `prefill` is 1 for a step that carries prefill and 0 otherwise.
    """
    return tokens + (decode_padding[tokens] - tokens) * (1 - prefill)


def kv_seconds(rate_s: Quantity, amount: Quantity) -> Quantity:
    """Return Σ_g rate_s[g]·amount[g]: the layer groups' share of a step, for KV reads or pairs."""
    total = rate_s[0] * amount[0]
    for group in range(1, len(rate_s)):
        total = total + rate_s[group] * amount[group]
    return total


def gpu_seconds(
    compute: Quantity,
    memory: Quantity,
    kv: Quantity,
    per_seq: Quantity,
    rows: Quantity,
    pairs: Quantity,
    prefix: Quantity,
    decode_fixed: Quantity,
    prefill_fixed: Quantity,
    launch: Quantity,
) -> Quantity:
    """Return GPU time of a step in s from its parts, each already in s.

    √(max(compute, memory + kv + per_seq)² + launch²) + rows + pairs + prefix + decode_fixed
    + prefill_fixed; `launch` is 0 for a step that a CUDA graph replays.
    """
    work = np.hypot(np.maximum(compute, memory + kv + per_seq), launch)
    return work + rows + pairs + prefix + decode_fixed + prefill_fixed


def host_seconds(
    host_step: Quantity,
    host_seq: Quantity,
    host_prefill: Quantity,
    rows: Quantity,
    prefill: Quantity,
) -> Quantity:
    """Return host time of a step in s: host_step + host_seq·rows + host_prefill·prefill."""
    return host_step + host_seq * rows + host_prefill * prefill


def overlap_seconds(gpu: Quantity, host: Quantity, overlapped: bool) -> Quantity:
    """Return step time in s: asynchronous scheduling hides the shorter of GPU and host."""
    if overlapped:
        return np.maximum(gpu, host)
    return gpu + host


def attended_pairs(chunk_tokens: Quantity, past_tokens: Quantity, window_tokens: int) -> Quantity:
    """Return (query, key) pairs of a chunk: Σ_j min(past + j, window), j = 1 … chunk.

    Without a window (0) it is q·p + q(q + 1)/2. Source: causal attention.

    >>> float(attended_pairs(4, 10, 0)), float(attended_pairs(4, 10, 12))
    (50.0, 47.0)
    """
    q, p = np.asarray(chunk_tokens, dtype=np.float64), np.asarray(past_tokens, dtype=np.float64)
    full = q * p + q * (q + 1.0) / 2.0
    if not window_tokens:
        return full
    growing = np.clip(window_tokens - p, 0.0, q)  # queries whose history still fits the window
    return growing * p + growing * (growing + 1.0) / 2.0 + (q - growing) * window_tokens
