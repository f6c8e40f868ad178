"""Time that depends on what a batch attends to: contexts, prompts, sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.perf import operators as op
from planner.perf.case import GRAPH_FIXED_SHARE, Case
from planner.perf.formats import KV_BYTES
from planner.perf.layers import (
    index_bytes_per_token,
    kv_elements_per_token,
    kv_groups,
    value_head_dim,
)
from planner.spec.model import Model

FloatArray = NDArray[np.float64]

# A chunk of linear attention costs 12 FLOPs per state element and token (chunked delta rule).
LINEAR_FLOPS_PER_STATE_ELEMENT = 12.0
# Query heads to which the kernels of sparse prefill pad (`op.sparse_pair_flops`).
SPARSE_HEAD_TILE, SPARSE_HEAD_TILE_BLACKWELL = 64, 128


def attention_rates(case: Case) -> tuple[FloatArray, FloatArray]:
    """Return seconds per cached token of a decode, and per pair of prefill, by layer group."""
    read, pair = _kv_rates(case)
    index_read, index_pair = _index_rates(case)
    groups = kv_groups(case.model)
    reads = [group.layers * (index_read if group.index else read) for group in groups]
    pairs = [group.layers * (index_pair if group.index else pair) for group in groups]
    return np.array(reads, dtype=np.float64), np.array(pairs, dtype=np.float64)


def _kv_rates(case: Case) -> tuple[float, float]:
    model, tp = case.model, case.deployment.tensor_parallel_size
    fit = case.attention
    mla = model.mla
    heads = model.num_attention_heads / tp
    token_flops = 2.0 * heads * (2 * mla.kv_lora_rank + mla.qk_rope_head_dim) if mla else 0.0
    element = KV_BYTES[case.deployment.kv_cache_dtype]
    read = op.kv_read_s(
        kv_elements_per_token(model, tp) * element,
        token_flops,
        case.bandwidth,
        fit.decode_memory,
        case.half_peak,
        fit.latent_compute,
    )
    return read, _prefill_pair_flops(case, heads) / (case.half_peak * fit.prefill_compute)


def _prefill_pair_flops(case: Case, heads: float) -> float:
    """FLOPs of one attended pair of a prefill in one layer; a sparse one works on the latent."""
    mla = case.model.mla
    if not (mla and case.model.sparse_attention):
        return _pair_flops(case.model, heads)
    blackwell = "fp4" in case.gpu.peak_flops_per_s
    tile = SPARSE_HEAD_TILE_BLACKWELL if blackwell else SPARSE_HEAD_TILE
    return op.sparse_pair_flops(heads, mla.kv_lora_rank, mla.qk_rope_head_dim, tile)


def _index_rates(case: Case) -> tuple[float, float]:
    """Return (read, pair) of the sparse indexer: every rank scores every token with all heads."""
    sparse = case.model.sparse_attention
    if not sparse:
        return 0.0, 0.0
    fit = case.attention
    flops = op.attention_pair_flops(sparse.index_heads, sparse.index_head_dim, 0.0)
    peak = case.gpu.peak_flops_per_s.get("fp8", case.half_peak)
    scanned = index_bytes_per_token(case.model)
    read = op.kv_read_s(scanned, flops, case.bandwidth, fit.index_memory, peak, fit.prefill_compute)
    return read, flops / (peak * fit.prefill_compute)


def _pair_flops(model: Model, heads: float) -> float:
    """FLOPs of one pair in one layer; MLA prefills with decompressed keys and values."""
    if model.mla:
        keys = model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim
        return op.attention_pair_flops(heads, keys, model.mla.v_head_dim)
    return op.attention_pair_flops(heads, model.head_dim, value_head_dim(model))


def attention_fixed_s(case: Case, *, decode: bool) -> float:
    """Return seconds of attention kernels that no batch makes shorter, over all layers."""
    fit = case.attention
    if not decode:
        return case.model.attention_layers * fit.prefill_fixed_s
    fixed = case.model.num_layers * fit.decode_fixed_s * GRAPH_FIXED_SHARE
    if case.model.sparse_attention:
        fixed += case.model.attention_layers * fit.index_fixed_s
    return fixed


def prefill_token_s(case: Case) -> float:
    """Return seconds per prefill token beside the matrices: attention tiles, linear chunks."""
    model = case.model
    tp = case.deployment.tensor_parallel_size
    fit = case.attention
    pair = _pair_flops(model, model.num_attention_heads / tp)
    attention = model.attention_layers * pair * fit.prefill_extra_tokens / 2.0
    total = attention / (case.half_peak * fit.prefill_compute)
    linear = model.linear_attention
    if linear:
        state = linear.value_heads * linear.key_head_dim * linear.value_head_dim / tp
        flops = LINEAR_FLOPS_PER_STATE_ELEMENT * state * linear.layers
        total += flops / (case.half_peak * fit.linear_compute)
    return total


def sequence_s(case: Case) -> float:
    """Return seconds per decode sequence: the states of constant-state layers."""
    total = 0.0
    fit = case.attention
    linear = case.model.linear_attention
    if linear:
        heads = linear.value_heads / case.deployment.tensor_parallel_size
        moved = op.state_bytes(
            heads, linear.key_head_dim, linear.value_head_dim, linear.state_dtype_bytes
        )
        total += linear.layers * moved / (case.bandwidth * fit.linear_memory)
    return total
