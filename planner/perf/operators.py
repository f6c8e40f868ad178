"""Times of the operators of a step: matrices, experts, attention, collectives. One equation each.

A measured operator is a smooth maximum of its compute and memory time plus a fixed cost; its
efficiencies come from the calibration files.
"""

from __future__ import annotations

import math

import numpy as np

from planner.perf.quantity import Quantity


def smooth_max(a: Quantity, b: Quantity, sharpness: float) -> Quantity:
    """Return (a^r + b^r)^(1/r): the larger of two overlapping costs, rounded where they are equal.

    r = 1 is a sum (no overlap), r = ∞ a maximum (perfect overlap). Source: p-norm; the fit of the
    operator tables chooses r.

    >>> round(float(smooth_max(3.0, 4.0, 2.0)), 6), float(smooth_max(3.0, 4.0, np.inf))
    (5.0, 4.0)
    """
    if sharpness == 1.0:
        return a + b
    high = np.maximum(a, b)
    if np.isinf(sharpness):
        return high
    ratio = np.minimum(a, b) / np.maximum(high, 1e-300)
    return high * (1.0 + ratio**sharpness) ** (1.0 / sharpness)


def gemm_flops(tokens: Quantity, inputs: Quantity, outputs: Quantity) -> Quantity:
    """Return FLOPs of tokens × (inputs × outputs): 2·n·K·N.

    Source: definition of a matrix product.

    >>> gemm_flops(2, 3, 4)
    48
    """
    return 2 * tokens * inputs * outputs


def gemm_bytes(
    tokens: Quantity,
    inputs: Quantity,
    outputs: Quantity,
    weight_bytes: Quantity,
    activation_bytes: Quantity,
) -> Quantity:
    """Return bytes a GEMM moves: K·N·b_w + n·K·b_a + 2·n·N (16-bit outputs).

    Source: compulsory traffic; b_w and b_a are bytes per weight and per input element.

    >>> gemm_bytes(1, 4096, 4096, 2, 2)
    33570816
    """
    return (
        inputs * outputs * weight_bytes + tokens * inputs * activation_bytes + 2 * tokens * outputs
    )


def gemm_s(
    flops: Quantity,
    moved_bytes: Quantity,
    flops_per_s: float,
    bandwidth_bytes_per_s: float,
    compute: float,
    memory: float,
    fixed_s: float,
    sharpness: float,
) -> Quantity:
    """Return the time of a GEMM in s: ((FLOPs/(F·e_c))^r + (bytes/(W·e_m))^r)^(1/r) + t₀.

    Source: fitted to operator tables (e_c, e_m, t₀, r of the calibration).

    >>> round(1e6 * float(gemm_s(8.6e11, 1.0e8, 1e15, 3.35e12, 0.8, 0.9, 4e-6, 3.0)), 1)
    1079.0
    """
    return (
        smooth_max(
            flops / (flops_per_s * compute),
            moved_bytes / (bandwidth_bytes_per_s * memory),
            sharpness,
        )
        + fixed_s
    )


def gemm_fixed_s(inputs: Quantity, fixed_s: float, per_input_s: float) -> Quantity:
    """Return the time of a GEMM that no amount of parallel hardware hides, in s: t₀ + K·κ.

    Source: fitted to operator tables: a tile's loop over the reduction is serial, so a long K costs
    microseconds even when few tokens leave most of the GPU idle.

    >>> round(1e6 * gemm_fixed_s(8192, 3e-6, 0.5e-9), 3)
    7.096
    """
    return fixed_s + inputs * per_input_s


def distinct_experts(
    num_experts: float, experts_per_token: float, tokens: Quantity, skew: float = 1.0
) -> Quantity:
    """Return how many experts a step touches: E·(1 − (1 − k/E)^(n^γ)).

    Source: n independent draws of k out of E with uniform routing (γ = 1); γ < 1 is the fitted
    skew of real routers, which meet the popular experts again. Never below k or above E.

    >>> round(float(distinct_experts(8, 2, 4)), 2), round(float(distinct_experts(256, 8, 32)), 1)
    (5.47, 163.3)
    """
    missed = (1.0 - experts_per_token / num_experts) ** (np.asarray(tokens, float) ** skew)
    touched = num_experts * (1.0 - missed)
    return np.where(np.asarray(tokens) >= 1, np.maximum(touched, experts_per_token), 0.0 * touched)


def expert_flops(
    routed_tokens: Quantity,
    touched: Quantity,
    weights_per_expert: Quantity,
    padding_tokens: float,
) -> Quantity:
    """Return FLOPs of the grouped expert GEMMs: 2·W_e·(n_routed + touched·pad).

    Source: each touched expert rounds its tokens up to a tile, on average `padding_tokens` extra.

    >>> expert_flops(100, 10, 1e6, 16)
    520000000.0
    """
    return 2.0 * weights_per_expert * (routed_tokens + touched * padding_tokens)


def expert_bytes(touched: Quantity, weights_per_expert: Quantity, weight_bytes: float) -> Quantity:
    """Return bytes of weights the grouped expert GEMMs read: touched·W_e·b_w.

    Source: only touched experts are read.

    >>> expert_bytes(10, 1e6, 0.5)
    5000000.0
    """
    return touched * weights_per_expert * weight_bytes


def routing_bytes(
    tokens: Quantity,
    routed_tokens: Quantity,
    hidden: Quantity,
    width: Quantity,
    activation_bytes: float,
) -> Quantity:
    """Return bytes that gather, scatter and sum move: 4·n·h + n_routed·(h·(4 + 2·b_a) + 6·m).

    Source: tokens in and out at 16 bit (4·h); each routed copy is written and read at the GEMMs'
    input format (2·h·b_a), its result written and read for the weighted sum (4·h); gate, up and
    product of the expert at 16 bit (6·m). Tensor parallelism divides m alone.

    >>> routing_bytes(1, 8, 4096, 1536, 1)
    286720
    """
    each = hidden * (4 + 2 * activation_bytes) + 6 * width
    return 4 * tokens * hidden + routed_tokens * each


def routing_s(moved_bytes: Quantity, bandwidth_bytes_per_s: float, efficiency: float) -> Quantity:
    """Return the time of moving tokens to experts and back in s: bytes/(W·e_r).

    Source: kernels of their own before and after the grouped GEMMs, which nothing hides; e_r is
    fitted to operator tables.

    >>> round(1e6 * routing_s(1e8, 2e12, 0.5), 3)
    100.0
    """
    return moved_bytes / (bandwidth_bytes_per_s * efficiency)


def expert_imbalance(mean_tokens: Quantity, ranks: int) -> Quantity:
    """Return most loaded expert-parallel rank over the mean: min(1 + √(2·ln EP/n̄), EP).

    n̄ is the mean of routed tokens on a rank. Source: expected maximum of EP nearly normal loads.

    >>> round(float(expert_imbalance(100.0, 8)), 3), float(expert_imbalance(5.0, 1))
    (1.204, 1.0)
    """
    mean = np.maximum(np.asarray(mean_tokens, dtype=np.float64), 1e-9)
    return np.minimum(1.0 + np.sqrt(2.0 * np.log(ranks) / mean), float(ranks))


def popular_rank(ranks: Quantity, rank_skew: float) -> Quantity:
    """Return routed tokens of the rank with the most popular experts over the mean: EP^σ.

    Source: fitted to expert-parallel operator tables under skewed routing. Popularity does not
    average out over many tokens: σ = 0 is balanced, σ = 1 one rank with everything.

    >>> popular_rank(4.0, 0.5)
    2.0
    """
    return ranks**rank_skew


def kv_read_s(
    bytes_per_token: float,
    flops_per_token: float,
    bandwidth_bytes_per_s: float,
    memory: float,
    flops_per_s: float,
    compute: float,
) -> float:
    """Return decode-attention time per cached token in s: max(bytes/(W·e_m), FLOPs/(F·e_c)).

    Source: fitted decode kernels. GQA is always bound by the read; absorbed MLA reads little and
    multiplies a lot.

    >>> kv_read_s(4096.0, 0.0, 2e12, 0.8, 3e14, 0.5)
    2.56e-09
    """
    read = bytes_per_token / (bandwidth_bytes_per_s * memory)
    return max(read, flops_per_token / (flops_per_s * compute))


def attention_pair_flops(heads: float, key_dim: float, value_dim: float) -> float:
    """Return FLOPs of one (query, key) pair in one layer: 2·H·(d_k + d_v).

    Source: one dot product for the score, one multiply-add for the value (4·H·d when equal).

    >>> attention_pair_flops(32, 128, 128)
    16384
    """
    return 2 * heads * (key_dim + value_dim)


def sparse_pair_flops(heads: float, latent_dim: float, rope_dim: float, head_tile: float) -> float:
    """Return FLOPs of one pair of a sparse prefill in one layer: 2·⌈H/t⌉·t·(2·r + d_r).

    Every query attends tokens of its own, so heads alone fill the rows of a product, in the latent
    space that they share: the kernels pad them to t = 64, on Blackwell to 128, however few a rank
    has. Source: head padding of the sparse prefill in vLLM's `flashmla_sparse` and SGLang's
    `dsa_backend`; scores over r + d_r, values over r (DeepSeek-V2, arXiv:2405.04434, §2.1).

    >>> sparse_pair_flops(8, 512, 64, 128) == 16 * sparse_pair_flops(8, 512, 64, 8) == 278528
    True
    """
    return 2 * math.ceil(heads / head_tile) * head_tile * (2 * latent_dim + rope_dim)


def all_reduce_s(
    message_bytes: Quantity,
    latency_s: float,
    bandwidth_bytes_per_s: float,
    sharpness: float,
    large_latency_s: float = np.inf,
    large_bandwidth_bytes_per_s: float = np.inf,
) -> Quantity:
    """Return the time of one all-reduce in s: min((a^r + (m/b)^r)^(1/r), a₂ + m/b₂).

    Source: fitted to measured all-reduces: a peer-to-peer kernel has the lower latency, a pipelined
    ring the higher bandwidth; engines take whichever is faster.

    >>> round(1e6 * float(all_reduce_s(1e6, 4e-6, 200e9, 1.0, 20e-6, 400e9)), 3)
    9.0
    """
    message = np.asarray(message_bytes, dtype=np.float64)
    small = smooth_max(latency_s, message / bandwidth_bytes_per_s, sharpness)
    return np.minimum(small, large_latency_s + message / large_bandwidth_bytes_per_s)


def ring_bandwidth_bytes_per_s(
    link_bytes_per_s: float, world_size: int, efficiency: float
) -> float:
    """Return bytes a ring all-reduce reduces per second: e·link/(2(t − 1)/t).

    Source: each of t GPUs sends and receives 2(t − 1)/t of the message over its link.

    >>> ring_bandwidth_bytes_per_s(450e9, 2, 0.6) / 1e9
    270.0
    """
    return efficiency * link_bytes_per_s / (2.0 * (world_size - 1) / world_size)


def elementwise_bytes(
    tokens: Quantity, hidden: float, attention_width: float, mlp_width: float
) -> Quantity:
    """Return bytes of norms, residuals, rotary and activation in one layer: n·(16h + 2a + 6m).

    Source: two norms and two residual adds at 16 bit (16·h), the attention inputs once (2·a), gate,
    up and product of the MLP (6·m).

    >>> elementwise_bytes(1, 4096, 6144, 14336)
    163840
    """
    return tokens * (16 * hidden + 2 * attention_width + 6 * mlp_width)


def state_bytes(value_heads: float, key_dim: float, value_dim: float, bytes_each: float) -> float:
    """Return bytes a linear-attention layer moves per decode: 2·H_v·d_k·d_v·b (read and write).

    Source: gated delta rule; the state replaces the KV cache.

    >>> state_bytes(32, 128, 128, 4)
    4194304
    """
    return 2 * value_heads * key_dim * value_dim * bytes_each
