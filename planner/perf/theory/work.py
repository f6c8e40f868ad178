"""What tokens cost: FLOPs, bytes, and the intensity of prefill and decode."""

from __future__ import annotations

import math

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
    attention_layers: Quantity, kv_heads: Quantity, head_dim: Quantity, kv_element_bytes: Quantity
) -> Quantity:
    """Return KV-cache bytes of one token: k = 2·L·H_kv·d_h·b, keys and values in every layer.

    Source: SARATHI §2. Of a replica with more GPUs than KV heads, every GPU holds a head: H_kv
    then counts the copies.

    >>> kv_bytes_per_token(32, 32, 128, 2)
    524288
    """
    return 2 * attention_layers * kv_heads * head_dim * kv_element_bytes


def latent_kv_bytes_per_token(
    attention_layers: Quantity,
    latent_dim: Quantity,
    rope_dim: Quantity,
    kv_element_bytes: Quantity,
    index_bytes: Quantity = 0,
    copies: Quantity = 1,
) -> Quantity:
    """Return KV-cache bytes of one token of MLA: k = n·L·((r + d_r)·b + x), one latent a layer.

    Keys and values of all heads come from the latent, which every GPU of the replica keeps whole
    (n copies). x is what a sparse-attention indexer caches beside it. Source: DeepSeek-V2, §2.1.

    >>> latent_kv_bytes_per_token(61, 512, 64, 2)
    70272
    """
    per_layer = (latent_dim + rope_dim) * kv_element_bytes + index_bytes
    return copies * attention_layers * per_layer


def kv_bytes_read_per_token(
    full_kv_per_token: Quantity,
    window_kv_per_token: Quantity,
    context_tokens: Quantity,
    window_tokens: Quantity,
) -> Quantity:
    """Return KV bytes a decode reads for one token of its context: k = k_f + k_w·min(S, w)/S.

    Layers with full attention read all S tokens, layers with a window its last w. Source: own
    derivation: D·S·k is then what a step reads.

    >>> float(kv_bytes_read_per_token(40_960, 425_984, 4096, 1024))
    147456.0
    """
    seen = np.minimum(context_tokens, window_tokens) / context_tokens
    return full_kv_per_token + window_kv_per_token * seen


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


def windowed_memory_bound_context_tokens(
    token_flops: float,
    full_kv_per_token: float,
    window_kv_per_token: float,
    window_tokens: float,
    ridge: float,
) -> float:
    """Return the context above which a model with windows is memory bound: (φ/R − k_w·w)/k_f.

    Where that lies within the window, φ/(R·(k_f + k_w)). Infinite when every layer has a window
    and all of them full are read faster than φ is computed. Source: k_f·S + k_w·min(S, w) = φ/R
    solved for S.

    >>> round(windowed_memory_bound_context_tokens(54e9, 81_920, 425_984, 1024, 150), 1)
    708.8
    >>> round(windowed_memory_bound_context_tokens(270e9, 81_920, 425_984, 1024, 150), 1)
    16647.9
    """
    read = token_flops / ridge
    within = read / (full_kv_per_token + window_kv_per_token)
    if within <= window_tokens:
        return within
    left = read - window_kv_per_token * window_tokens
    return left / full_kv_per_token if full_kv_per_token else math.inf
