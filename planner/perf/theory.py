"""The theory of chunked prefill: one roofline for the whole step, one function an equation.

Symbols, all SI: φ FLOPs per token (2P: multiply and add, whatever the dtype) · w weight bytes read
by a step (P × bytes per parameter; equal to 2P at 16 bit only) · k KV bytes per token · F peak
FLOP/s · W memory bandwidth in B/s · R = F/W · T prompt tokens · B sequences · S context tokens a
decode reads · C prefill tokens in a step · D decodes in a step · γ draft tokens · τ step time in s.

C is not the engine's flag: `max_num_batched_tokens` = C + D·(γ + 1).

Sources: SARATHI (arXiv:2308.16369), Sarathi-Serve (arXiv:2403.02310), DeepSpeed-FastGen
(arXiv:2401.08671), SGLang (arXiv:2312.07104), the vLLM V1 documentation on optimisation and tuning.
"""

from __future__ import annotations

import numpy as np

from planner.perf.quantity import Quantity


def flops_per_token(parameters: Quantity) -> Quantity:
    """Return FLOPs of one token: φ = 2·P, a multiply and an add per (active) parameter.

    Source: SARATHI §2. The dtype does not enter.

    >>> flops_per_token(7e9)
    14000000000.0
    """
    return 2.0 * parameters


def weight_bytes(parameters: Quantity, bytes_per_parameter: Quantity) -> Quantity:
    """Return bytes of the weights: w = P·b, over resident parameters.

    Source: definition. At 16 bit it equals 2P, which must not be mistaken for the FLOPs.

    >>> weight_bytes(7e9, 1.0)
    7000000000.0
    """
    return parameters * bytes_per_parameter


def ridge_flops_per_byte(flops_per_s: Quantity, bandwidth_bytes_per_s: Quantity) -> Quantity:
    """Return the ridge point R = F/W in FLOP/B: the intensity where compute and memory meet.

    Source: the roofline model (Williams, Waterman, Patterson 2009).

    >>> ridge_flops_per_byte(300e12, 2e12)
    150.0
    """
    return flops_per_s / bandwidth_bytes_per_s


def kv_bytes_per_token(
    layers: Quantity, kv_heads: Quantity, head_dim: Quantity, bytes_per_element: Quantity
) -> Quantity:
    """Return KV-cache bytes of one token: k = 2·L·H_kv·d_h·b, keys and values in every layer.

    Source: SARATHI §2.

    >>> kv_bytes_per_token(32, 32, 128, 2)
    524288
    """
    return 2 * layers * kv_heads * head_dim * bytes_per_element


def prefill_flops(token_flops: Quantity, prompt_tokens: Quantity) -> Quantity:
    """Return FLOPs of prefilling a prompt: φ·T (2PT).

    Source: SARATHI §2. The quadratic attention term is left out, as in the origin.

    >>> prefill_flops(14e9, 4096)
    57344000000000.0
    """
    return token_flops * prompt_tokens


def decode_flops(token_flops: Quantity, batch_seqs: Quantity) -> Quantity:
    """Return FLOPs of one decode step: φ·B (2PB).

    Source: SARATHI §2.

    >>> decode_flops(14e9, 32)
    448000000000.0
    """
    return token_flops * batch_seqs


def decode_bytes(
    weights: Quantity, batch_seqs: Quantity, context_tokens: Quantity, kv_per_token: Quantity
) -> Quantity:
    """Return bytes one decode step reads: w + B·S·k.

    Source: SARATHI §2.

    >>> decode_bytes(14e9, 32, 2048, 524288) / 1e9
    48.359738368
    """
    return weights + batch_seqs * context_tokens * kv_per_token


def prefill_intensity(
    token_flops: Quantity,
    weights: Quantity,
    prompt_tokens: Quantity,
    activation_bytes_per_token: Quantity,
) -> Quantity:
    """Return arithmetic intensity of a prefill in FLOP/B: φT / (w + αT).

    Source: SARATHI §2. α is the activation traffic of one token.

    >>> round(prefill_intensity(14e9, 14e9, 4096, 1e6), 1)
    3168.9
    """
    return token_flops * prompt_tokens / (weights + activation_bytes_per_token * prompt_tokens)


def prefill_intensity_limit(
    token_flops: Quantity, activation_bytes_per_token: Quantity
) -> Quantity:
    """Return the intensity a prefill tends to for T → ∞, in FLOP/B: φ/α (2P/α).

    Source: SARATHI §2.

    >>> prefill_intensity_limit(14e9, 1e6)
    14000.0
    """
    return token_flops / activation_bytes_per_token


def decode_intensity(
    token_flops: Quantity,
    weights: Quantity,
    batch_seqs: Quantity,
    context_tokens: Quantity,
    kv_per_token: Quantity,
) -> Quantity:
    """Return arithmetic intensity of a decode step in FLOP/B: φB / (w + BSk).

    Source: SARATHI §2.

    >>> round(decode_intensity(14e9, 14e9, 32, 2048, 524288), 2)
    9.26
    """
    flops = decode_flops(token_flops, batch_seqs)
    return flops / decode_bytes(weights, batch_seqs, context_tokens, kv_per_token)


def decode_intensity_ceiling(
    token_flops: Quantity, context_tokens: Quantity, kv_per_token: Quantity
) -> Quantity:
    """Return the intensity a decode step tends to for B → ∞, in FLOP/B: φ/(S·k).

    Source: the limit of φB/(w + BSk). No batch size lifts a decode above it.

    >>> round(decode_intensity_ceiling(14e9, 2048, 524288), 2)
    13.04
    """
    return token_flops / (context_tokens * kv_per_token)


def memory_bound_context_tokens(
    token_flops: Quantity, kv_per_token: Quantity, ridge: Quantity
) -> Quantity:
    """Return the context above which decode is memory bound at any batch size: φ/(k·R).

    Source: decode ceiling φ/(Sk) = R solved for S. Short for MHA models, long for GQA and MLA.

    >>> round(memory_bound_context_tokens(14e9, 524288, 150))
    178
    """
    return token_flops / (kv_per_token * ridge)


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
