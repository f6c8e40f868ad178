"""KV memory, reused prefixes, preempted work, drafts and transfers."""

from __future__ import annotations

import numpy as np

from planner.perf.quantity import Quantity
from planner.perf.theory.step import prefill_steps
from planner.perf.theory.work import decode_bytes, decode_flops


def ttft_with_prefix_cache_s(
    prompt_tokens: Quantity, hit_rate: Quantity, chunk_tokens: Quantity, step: Quantity
) -> Quantity:
    """Return time to first token with prefix-cache hit rate h, in s: ⌈T(1−h)/C⌉·τ.

    Source: SGLang §3, automatic prefix caching. At least one step remains: the last token of a
    prompt is always computed.

    >>> round(float(ttft_with_prefix_cache_s(4096, 0.5, 486, 0.02418)), 3)
    0.121
    """
    return np.maximum(prefill_steps(prompt_tokens * (1.0 - hit_rate), chunk_tokens), 1.0) * step


def kv_capacity_tokens(kv_memory_bytes: Quantity, kv_per_token: Quantity) -> Quantity:
    """Return tokens the KV cache holds: S_cap = M_kv/k.

    Source: SARATHI §2.

    >>> kv_capacity_tokens(20 * 2**30, 2**19)
    40960.0
    """
    return kv_memory_bytes / kv_per_token


def resident_sequences(capacity_tokens: Quantity, context_tokens: Quantity) -> Quantity:
    """Return sequences of one context that fit at once: B_max = S_cap/S.

    Source: SARATHI §2. Chunking never raises it.

    >>> resident_sequences(40960, 2048)
    20.0
    """
    return capacity_tokens / context_tokens


def preemption_flops(token_flops: Quantity, preempted_tokens: Quantity) -> Quantity:
    """Return FLOPs thrown away by a preemption with recompute: φ·S_preempt.

    Source: vLLM V1, which preempts by recompute. It grows with how late the victim is taken.

    >>> preemption_flops(14e9, 2048) / 1e12
    28.672
    """
    return token_flops * preempted_tokens


def speculative_decode_intensity(
    token_flops: Quantity,
    weights: Quantity,
    batch_seqs: Quantity,
    context_tokens: Quantity,
    kv_per_token: Quantity,
    draft_tokens: Quantity,
) -> Quantity:
    """Return intensity of a verify pass in FLOP/B: φB(γ+1) / (w + BSk).

    Source: own derivation: a verify pass scores γ drafts and the next token and reads the KV once.
    Accepted tokens are counted apart.

    >>> round(speculative_decode_intensity(14e9, 14e9, 32, 2048, 524288, 4), 2)
    46.32
    """
    flops = decode_flops(token_flops, batch_seqs) * (draft_tokens + 1)
    return flops / decode_bytes(weights, batch_seqs, context_tokens, kv_per_token)


def speculative_decode_intensity_per_accepted(
    token_flops: Quantity,
    weights: Quantity,
    batch_seqs: Quantity,
    context_tokens: Quantity,
    kv_per_token: Quantity,
    draft_tokens: Quantity,
    accepted_tokens: Quantity,
) -> Quantity:
    """Return the intensity as first published, in FLOP/B: φBγ / (w + BSkγ′).

    Kept for comparison only: it charges the KV read once per accepted token, a verify pass reads
    it once (`speculative_decode_intensity`). Source: the original derivation.

    >>> round(
    ...     speculative_decode_intensity_per_accepted(14e9, 14e9, 32, 2048, 524288, 4, 2), 2
    ... )
    21.66
    """
    flops = decode_flops(token_flops, batch_seqs) * draft_tokens
    return flops / (weights + batch_seqs * context_tokens * kv_per_token * accepted_tokens)


def kv_transfer_bytes(context_tokens: Quantity, kv_per_token: Quantity) -> Quantity:
    """Return KV bytes moved per request between disaggregated pools: S·k.

    Source: prefill/decode disaggregation (DistServe, Splitwise).

    >>> kv_transfer_bytes(2048, 524288) / 2**30
    1.0
    """
    return context_tokens * kv_per_token
