"""Time that depends on counts alone: scheduled tokens, and sampled sequences."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from planner.perf import operators as op
from planner.perf.case import GRAPH_FIXED_SHARE, Case
from planner.perf.formats import Arithmetic, arithmetic
from planner.perf.layers import dense_gemms
from planner.spec.calibration import AllReduceEfficiency, GemmEfficiency, MoeEfficiency
from planner.spec.model import Model

FloatArray = NDArray[np.float64]

EXPERT_SHARPNESS = 3.0  # grouped GEMMs overlap reads and products well; fitted once for all
SAMPLER_BYTES_PER_LOGIT = 10.0  # 16-bit logits in, fp32 copy out and in


def token_table(case: Case, tokens: FloatArray, per_token: float) -> FloatArray:
    """Return seconds of everything that depends on the scheduled tokens alone, for each count."""
    total = per_token * tokens
    for gemm in dense_gemms(case.model, case.deployment):
        maths = arithmetic(case.gpu, gemm.weight_dtype)
        each = _gemm_s(case, tokens, gemm.inputs, gemm.outputs, maths)
        total = total + gemm.count * each
    total = total + _experts_s(case, tokens)
    total = total + _collectives_s(case, tokens)
    return np.asarray(total + _elementwise_s(case, tokens))


def _efficiency(case: Case, dtype: str) -> GemmEfficiency:
    """Return the GEMM efficiency of a dtype; formats without a table compute in 16 bit."""
    table = case.calibration.gemm
    return table[dtype] if dtype in table else table["bf16"]


def _gemm_s(
    case: Case, tokens: FloatArray, inputs: float, outputs: float, maths: Arithmetic
) -> FloatArray:
    fit = _efficiency(case, maths.calibration)
    moved = op.gemm_bytes(tokens, inputs, outputs, maths.weight_bytes, maths.activation_bytes)
    return np.asarray(
        op.gemm_s(
            op.gemm_flops(tokens, inputs, outputs),
            moved,
            maths.peak_flops_per_s,
            case.bandwidth,
            fit.compute,
            fit.memory,
            GRAPH_FIXED_SHARE * op.gemm_fixed_s(inputs, fit.fixed_s, fit.per_input_s),
            fit.sharpness,
        )
    )


def _expert_efficiency(case: Case, dtype: str) -> MoeEfficiency:
    table = case.calibration.moe
    for name in (dtype, "fp8_block" if dtype == "fp8" else dtype, "bf16"):
        if name in table:
            return table[name]
    return next(iter(table.values()))


def _experts_s(case: Case, tokens: FloatArray) -> FloatArray:
    """Routed experts of every MoE layer: the most loaded rank's."""
    moe, deployment = case.model.moe, case.deployment
    if not moe:
        return np.zeros_like(tokens)
    maths = arithmetic(case.gpu, deployment.weight_dtype)
    fit = _expert_efficiency(case, maths.calibration)
    ranks = deployment.tensor_parallel_size * deployment.data_parallel_size
    ep = ranks if deployment.expert_parallel else 1
    width = moe.expert_intermediate_size * ep / ranks
    everyone = tokens * deployment.data_parallel_size
    mean = everyone * moe.experts_per_token / ep
    popular = op.popular_rank(ep, fit.rank_skew)
    routed = mean * np.maximum(op.expert_imbalance(mean, ep), popular)
    distinct = op.distinct_experts(moe.num_experts, moe.experts_per_token, everyone, fit.skew)
    # The rank with the most touched experts finishes last.
    touched = np.minimum(
        distinct / ep * op.expert_imbalance(distinct / ep, ep), moe.num_experts / ep
    )
    weights = case.model.mlp_matrices * case.model.hidden_size * width
    moved = op.routing_bytes(
        everyone, routed, case.model.hidden_size, width, maths.activation_bytes
    )
    products = op.gemm_s(
        op.expert_flops(routed, touched, weights, fit.padding_tokens),
        op.expert_bytes(touched, weights, maths.weight_bytes),
        maths.peak_flops_per_s,
        case.bandwidth,
        fit.compute,
        fit.memory,
        fit.fixed_s,
        EXPERT_SHARPNESS,
    )
    routing = op.routing_s(moved, case.bandwidth, fit.routed_memory)
    return np.asarray(moe.layers * (products + routing))


def _collectives_s(case: Case, tokens: FloatArray) -> FloatArray:
    """Seconds of every layer's all-reduces, and of what data-parallel ranks exchange."""
    model, deployment = case.model, case.deployment
    tp, dp = deployment.tensor_parallel_size, deployment.data_parallel_size
    total = np.zeros_like(tokens)
    if tp > 1:
        each = _all_reduce_s(case, tokens * model.hidden_size * 2.0, tp)
        total = total + (1 if model.parallel_block else 2) * model.num_layers * each
    if tp > 1 and _normalises_across_heads(model):
        total = total + model.num_layers * _all_reduce_s(case, tokens * 8.0, tp)
    if dp > 1 and model.moe:
        # Experts see every rank's tokens: gathered before, reduced and scattered after. Each is
        # half an all-reduce of the whole batch, with the start-up of a ring.
        fit = _all_reduce_fit(case, tp * dp)
        moved = tokens * dp * model.hidden_size * 2.0 / 2.0
        start = fit.large_latency_s if math.isfinite(fit.large_latency_s) else fit.latency_s
        bandwidth = min(fit.large_bandwidth_bytes_per_s, 1e30)
        slow = moved / (bandwidth if bandwidth < 1e30 else fit.bandwidth_bytes_per_s)
        total = total + 2.0 * model.moe.layers * (start + slow)
    return np.asarray(total)


def _normalises_across_heads(model: Model) -> bool:
    """Whether queries and keys are normalised over all heads, which TP must sum (MiniMax M2)."""
    return model.architecture.startswith("MiniMaxM2")


def _all_reduce_fit(case: Case, ranks: int) -> AllReduceEfficiency:
    """Return the fit of the smallest measured group that holds `ranks`, else of the largest."""
    table = case.calibration.all_reduce
    return table[min((size for size in table if size >= ranks), default=max(table))]


def _all_reduce_s(case: Case, message_bytes: FloatArray, ranks: int) -> FloatArray:
    fit = _all_reduce_fit(case, ranks)
    return np.asarray(
        op.all_reduce_s(
            message_bytes,
            fit.latency_s,
            fit.bandwidth_bytes_per_s,
            fit.sharpness,
            fit.large_latency_s,
            fit.large_bandwidth_bytes_per_s,
        )
    )


def _elementwise_s(case: Case, tokens: FloatArray) -> FloatArray:
    model, tp = case.model, case.deployment.tensor_parallel_size
    attention = (model.num_attention_heads + 2 * model.num_kv_heads) * model.head_dim / tp
    moe = model.moe
    width = moe.experts_per_token * moe.expert_intermediate_size if moe else model.intermediate_size
    moved = op.elementwise_bytes(tokens, model.hidden_size, attention, width / tp)
    if _normalises_across_heads(model):  # read, squared, scaled and cast apart, in fp32
        moved = moved + tokens * attention * 4.0 * 4.0
    return np.asarray(model.num_layers * moved / case.bandwidth)


def row_table(case: Case) -> FloatArray:
    """Return seconds of LM head and sampler by sampled sequences; nothing sampled, nothing paid."""
    rows = 1 + case.deployment.num_speculative_tokens
    sequences = np.arange(case.deployment.max_num_seqs + 1, dtype=np.float64)
    return _sampling_s(case, rows * sequences)


def draft_table(case: Case, memory_s: FloatArray) -> FloatArray:
    """Return seconds of drafting by sampled sequences: γ passes through one layer and the LM head.

    `memory_s` are seconds of all layers by tokens. A drafter is taken to be one layer of the model,
    as multi-token-prediction heads and EAGLE's are (DeepSeek-V3, arXiv:2412.19437, §2.2;
    EAGLE, arXiv:2401.15077, §3.1); its draft tokens come one after the other.
    """
    drafts, most = case.deployment.num_speculative_tokens, case.deployment.max_num_seqs
    sequences = np.arange(most + 1, dtype=np.float64)
    layer = np.interp(sequences, np.arange(len(memory_s)), memory_s) / case.model.num_layers
    table = drafts * (layer + _sampling_s(case, sequences))
    table[0] = 0.0
    return np.asarray(table)


def _sampling_s(case: Case, rows: FloatArray) -> FloatArray:
    model = case.model
    vocabulary = model.vocab_size / case.deployment.tensor_parallel_size
    maths = arithmetic(case.gpu, "bf16")
    head = _gemm_s(case, rows, model.hidden_size, vocabulary, maths)
    sampler = rows * model.vocab_size * SAMPLER_BYTES_PER_LOGIT / case.bandwidth
    table = head + sampler
    table[0] = 0.0
    return table
