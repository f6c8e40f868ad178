"""How long a step takes, which chunk a limit allows, and what that means for TTFT and TPOT."""

from __future__ import annotations

import numpy as np

from planner.perf.quantity import Quantity
from planner.perf.theory.work import decode_bytes


def compute_s(
    token_flops: Quantity,
    chunk_tokens: Quantity,
    decode_seqs: Quantity,
    flops_per_s: Quantity,
    draft_tokens: Quantity = 0,
) -> Quantity:
    """Return the compute term of a step in s: φ(C + D(γ+1))/F.

    Source: Sarathi-Serve §3, with γ + 1 tokens verified for each decode.

    >>> round(1e3 * compute_s(14e9, 128, 32, 300e12), 1)
    7.5
    """
    return token_flops * (chunk_tokens + decode_seqs * (draft_tokens + 1)) / flops_per_s


def memory_floor_s(
    weights: Quantity,
    decode_seqs: Quantity,
    context_tokens: Quantity,
    kv_per_token: Quantity,
    bandwidth_bytes_per_s: Quantity,
) -> Quantity:
    """Return the memory term of a step in s: (w + D·S·k)/W. No chunk makes a step shorter.

    Source: Sarathi-Serve §3.

    >>> round(1e3 * memory_floor_s(14e9, 32, 2048, 524288, 2e12), 1)
    24.2
    """
    read = decode_bytes(weights, decode_seqs, context_tokens, kv_per_token)
    return read / bandwidth_bytes_per_s


def step_s(
    token_flops: Quantity,
    weights: Quantity,
    kv_per_token: Quantity,
    chunk_tokens: Quantity,
    decode_seqs: Quantity,
    context_tokens: Quantity,
    flops_per_s: Quantity,
    bandwidth_bytes_per_s: Quantity,
    draft_tokens: Quantity = 0,
) -> Quantity:
    """Return the step time in s: τ = max(φ(C + D(γ+1))/F, (w + D·S·k)/W).

    Source: Sarathi-Serve §3. It ignores overlap, graph capture sizes, quadratic attention and
    collectives; the calibrated step cost adds them.

    >>> step_s(14e9, 14e9, 524288, 2048, 32, 2048, 300e12, 2e12).round(3)
    np.float64(0.097)
    """
    return np.maximum(
        compute_s(token_flops, chunk_tokens, decode_seqs, flops_per_s, draft_tokens),
        memory_floor_s(weights, decode_seqs, context_tokens, kv_per_token, bandwidth_bytes_per_s),
    )


def balance_chunk_tokens(
    token_flops: Quantity,
    weights: Quantity,
    kv_per_token: Quantity,
    decode_seqs: Quantity,
    context_tokens: Quantity,
    ridge: Quantity,
    draft_tokens: Quantity = 0,
) -> Quantity:
    """Return the chunk that fills compute exactly: C* = R(w + DSk)/φ − D(γ+1).

    Source: compute term = memory term solved for C; R(1 + DSk/2P) − D(γ+1) at 16 bit. Negative
    when the decodes alone fill compute: then no chunk rides for free.

    >>> round(balance_chunk_tokens(14e9, 14e9, 524288, 32, 2048, 150))
    486
    """
    read = decode_bytes(weights, decode_seqs, context_tokens, kv_per_token)
    return ridge * read / token_flops - decode_seqs * (draft_tokens + 1)


def budget_tokens(
    chunk_tokens: Quantity, decode_seqs: Quantity, draft_tokens: Quantity = 0
) -> Quantity:
    """Return the engine's flag for a chunk: max_num_batched_tokens = C + D(γ+1).

    Source: vLLM V1 scheduler: every running decode takes its tokens out of the same budget.

    >>> budget_tokens(486, 32)
    518
    """
    return chunk_tokens + decode_seqs * (draft_tokens + 1)


def largest_chunk_tokens(
    limit_s: float,
    token_flops: float,
    weights: float,
    kv_per_token: float,
    decode_seqs: float,
    context_tokens: float,
    flops_per_s: float,
    bandwidth_bytes_per_s: float,
    draft_tokens: float = 0,
) -> float | None:
    """Return the chunk whose compute term reaches τ_max: C = τ_max·F/φ − D(γ+1).

    None when the memory floor alone exceeds τ_max, or when the decodes leave no room: then no
    chunk meets the limit. Source: the compute term of the step time solved for C.

    >>> round(largest_chunk_tokens(0.05, 14e9, 14e9, 524288, 32, 2048, 300e12, 2e12))
    1039
    >>> largest_chunk_tokens(0.02, 14e9, 14e9, 524288, 32, 2048, 300e12, 2e12) is None
    True
    """
    floor = memory_floor_s(
        weights, decode_seqs, context_tokens, kv_per_token, bandwidth_bytes_per_s
    )
    chunk = limit_s * flops_per_s / token_flops - decode_seqs * (draft_tokens + 1)
    return None if floor > limit_s or chunk < 0 else chunk


def prefill_steps(prompt_tokens: Quantity, chunk_tokens: Quantity) -> Quantity:
    """Return steps one prompt takes: ⌈T/C⌉.

    Source: Sarathi-Serve §3.

    >>> int(prefill_steps(4096, 486))
    9
    """
    return np.ceil(np.asarray(prompt_tokens) / chunk_tokens)


def ttft_s(prompt_tokens: Quantity, chunk_tokens: Quantity, step: Quantity) -> Quantity:
    """Return time to first token without queueing, in s: ⌈T/C⌉·τ.

    Source: Sarathi-Serve §3.

    >>> round(float(ttft_s(4096, 128, 0.02418)), 3)
    0.774
    """
    return prefill_steps(prompt_tokens, chunk_tokens) * step


def tpot_s(step: Quantity) -> Quantity:
    """Return time per output token in s: τ, one token a step.

    Source: Sarathi-Serve §3.

    >>> tpot_s(0.0242)
    0.0242
    """
    return step
