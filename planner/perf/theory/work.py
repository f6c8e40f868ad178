"""What tokens cost: FLOPs, bytes, and the intensity of prefill and decode."""

from __future__ import annotations

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
