"""The memory account of one GPU, with the engine's own arithmetic."""

from __future__ import annotations

import math

import numpy as np

from planner.perf.formats import BYTES_PER_PARAMETER, KV_BYTES
from planner.perf.kv_layout import KvLayout, kv_layout
from planner.perf.layers import (
    KvGroup,
    dense_gemms,
    index_bytes_per_token,
    kv_elements_per_token,
    kv_heads_per_rank,
    resident_groups,
    value_head_dim,
)
from planner.perf.memory_equations import (
    block_bytes,
    expert_workspace_bytes,
    forward_activation_bytes,
    kv_memory_bytes,
    sampler_bytes,
    sequence_blocks,
    static_reserve_bytes,
    waiting_hidden_bytes,
    window_blocks,
)
from planner.perf.memory_types import MemoryBudget
from planner.perf.parameters import parameters
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# Where nobody published what the driver reports: the least share of the marketing figure (GB of
# 10^9 B) seen on any published part is 0.977 (T4), the most 1.072 (MI300X, whose GB are GiB).
UNKNOWN_VISIBLE_SHARE = 0.977
UNKNOWN_VISIBLE_BAND = 0.10
# gpt-oss's mxfp4 kernels pad 2,880 to a multiple of 256.
MXFP4_TILE = 256


def memory_budget(model: Model, gpu: Gpu, engine: Engine, deployment: Deployment) -> MemoryBudget:
    """Return how one GPU of the replica divides its memory and what KV cache remains.

    The rank with the fewest blocks rules: with pipeline stages the one with the most layers and
    the larger of embedding and LM head.

    Parameters
    ----------
    model, gpu, engine
        Catalogue entries the deployment names.
    deployment
        The candidate; its `gpu_memory_utilization` is vLLM's flag or SGLang's static fraction.
    """
    visible = visible_bytes(gpu)
    weights = weight_bytes_per_gpu(model, deployment)
    activation, activation_source = _activation(model, engine, deployment)
    non_torch = _by_size(
        engine, deployment.tensor_parallel_size * deployment.pipeline_parallel_size
    )
    graphs = engine.memory.graph_bytes if engine.memory.graphs_in_budget else 0.0
    kv_bytes = kv_memory_bytes(
        visible, deployment.gpu_memory_utilization, weights, activation, non_torch, graphs
    )
    layout = _Layout(model, deployment)
    pool = kv_layout(
        model, engine, deployment, kv_bytes, layout.layer_bytes, layout.state_bytes_per_layer
    )
    blocks = layout.blocks(kv_bytes, pool)
    return MemoryBudget(
        visible_bytes=visible,
        visible_known=gpu.memory_bytes_visible is not None,
        gpu_memory_utilization=deployment.gpu_memory_utilization,
        weights_bytes=weights,
        activation_bytes=activation,
        activation_source=activation_source,
        non_torch_bytes=non_torch,
        graphs_bytes=engine.memory.graph_bytes,
        graphs_in_budget=engine.memory.graphs_in_budget,
        kv_bytes=kv_bytes,
        kv_bytes_per_token=layout.bytes_per_token,
        block_tokens=deployment.block_size,
        num_blocks=blocks,
        kv_tokens=blocks * deployment.block_size * deployment.data_parallel_size,
        layout=pool,
    )


def visible_bytes(gpu: Gpu) -> float:
    """Return what the driver reports, or the stated share of the marketing figure."""
    if gpu.memory_bytes_visible is not None:
        return gpu.memory_bytes_visible
    return UNKNOWN_VISIBLE_SHARE * gpu.memory_bytes_marketing


def static_fraction(gpu: Gpu, engine: Engine, deployment: Deployment) -> float:
    """Return the share of memory an engine gives to weights and KV when nothing is declared.

    vLLM: its default utilisation. SGLang: (visible − reserve)/visible.
    """
    reserve = engine.memory.reserve_bytes
    if engine.memory.rule != "sglang" or not reserve:
        return engine.memory.gpu_memory_utilization
    visible = visible_bytes(gpu)
    smallest = reserve["minimum_chunk_tokens"] / 2**20
    kept = static_reserve_bytes(
        reserve["base"],
        reserve["per_chunk_token"],
        max(deployment.max_num_batched_tokens, smallest),
        reserve["per_gpu"],
        deployment.tensor_parallel_size * deployment.pipeline_parallel_size,
        reserve["per_decode_graph_seq"],
        min(deployment.max_num_seqs, max(engine.cuda_graph_sizes, default=0)),
    )
    if visible > 60 * 2**30:
        kept = max(kept, reserve["floor_above_60_gib"])
    return (visible - kept) / visible


def weight_bytes_per_gpu(model: Model, deployment: Deployment) -> float:
    """Return bytes of weights on the fullest GPU of the replica.

    Matrices are split by tensor parallelism (KV heads and MLA's down-projections replicated),
    experts over all GPUs, layers over pipeline stages. Embedding, LM head, router and norms stay
    at 16 bit whatever the format.
    """
    stages = deployment.pipeline_parallel_size
    share = math.ceil(model.num_layers / stages) / model.num_layers
    layers = share * _layer_weight_bytes(model, deployment)
    return layers + _edge_weight_bytes(model, deployment) + _rotary_bytes(model)


def stored_weight_bytes(model: Model, weight_dtype: str) -> float:
    """Return bytes of all weights of a model, each part in the format it is stored in.

    The account of `weight_bytes_per_gpu` without copies, rotary tables and padding of kernels: 2P
    at 16 bit, and with a quantised format 2 B for whatever of P the format leaves alone.

    Examples
    --------
    Llama 3.1 8B in fp8 keeps 128,256 × 4,096 embeddings and as large an LM head at 16 bit.

    >>> from planner.spec.catalog import model
    >>> round(stored_weight_bytes(model("meta-llama/Llama-3.1-8B-Instruct"), "fp8") / 1e9, 2)
    9.08
    """
    whole = Deployment(
        gpu="",
        model=model.id,
        engine="",
        engine_version="",
        weight_dtype=weight_dtype,
        max_num_batched_tokens=1,
        max_num_seqs=1,
        max_model_len=1,
        gpu_memory_utilization=1.0,
    )
    counts = parameters(model)
    sizes = [(g.parameters, BYTES_PER_PARAMETER[g.weight_dtype]) for g in dense_gemms(model, whole)]
    matrices = sum(count for count, _ in sizes)
    others = counts.total - counts.routed_experts - matrices
    width = max(2.0, BYTES_PER_PARAMETER[weight_dtype])
    stored = sum(count * size for count, size in sizes)
    return stored + width * others + counts.routed_experts * BYTES_PER_PARAMETER[weight_dtype]


def _layer_weight_bytes(model: Model, deployment: Deployment) -> float:
    counts = parameters(model)
    dense = sum(
        gemm.parameters * BYTES_PER_PARAMETER[gemm.weight_dtype]
        for gemm in dense_gemms(model, deployment)
    )
    replicated = counts.norms + counts.biases + counts.extra
    return dense + 2.0 * replicated + _expert_weight_bytes(model, deployment)


def _expert_weight_bytes(model: Model, deployment: Deployment) -> float:
    if not model.moe:
        return 0.0
    ranks = deployment.tensor_parallel_size * deployment.data_parallel_size
    stored = parameters(model).routed_experts * BYTES_PER_PARAMETER[deployment.weight_dtype]
    if deployment.weight_dtype == "mxfp4":
        stored *= _padded(model.hidden_size) / model.hidden_size
    return stored / ranks


def _padded(width: int) -> int:
    return MXFP4_TILE * math.ceil(width / MXFP4_TILE)


def _rotary_bytes(model: Model) -> float:
    """Rotary cosines and sines for every position at 16 bit, one table shared by all layers."""
    if model.position_embeddings:
        return 0.0
    width = model.mla.qk_rope_head_dim if model.mla else model.head_dim
    return 2.0 * model.max_model_len * width


def _edge_weight_bytes(model: Model, deployment: Deployment) -> float:
    """Embedding and LM head, split over the vocabulary; with stages only one of them a GPU."""
    counts = parameters(model)
    tables = counts.position_embedding + counts.embedding
    if deployment.pipeline_parallel_size > 1:
        edge = max(tables, counts.embedding if counts.tied else counts.lm_head)
    else:
        edge = tables + counts.lm_head
    width = max(2.0, BYTES_PER_PARAMETER[deployment.weight_dtype])
    return width * edge / deployment.tensor_parallel_size


def _activation(model: Model, engine: Engine, deployment: Deployment) -> tuple[float, str]:
    """Return the peak the engine's profile run sees, and which of its two parts it is."""
    if engine.memory.rule == "sglang":
        return 0.0, "reserved outside the static fraction"
    tp = deployment.tensor_parallel_size
    mlp = (model.mlp_matrices - 1) * model.intermediate_size / tp
    heads = model.num_attention_heads / tp
    kv = kv_heads_per_rank(model, tp) * (model.head_dim + value_head_dim(model))
    forward = forward_activation_bytes(
        deployment.max_num_batched_tokens, model.hidden_size, max(mlp, heads * model.head_dim + kv)
    )
    if model.moe:
        width = model.moe.expert_intermediate_size / tp
        forward += expert_workspace_bytes(
            deployment.max_num_batched_tokens,
            model.moe.experts_per_token,
            model.hidden_size,
            width,
        )
    sampler = sampler_bytes(
        deployment.max_num_seqs, model.vocab_size, engine.memory.sampler_bytes_per_seq_vocab
    ) + waiting_hidden_bytes(deployment.max_num_batched_tokens, model.hidden_size)
    if forward > sampler:
        return forward, "forward pass at max_num_batched_tokens"
    return sampler, "sampler at max_num_seqs"


def _by_size(engine: Engine, gpus: int) -> float:
    """Non-torch memory (NCCL, context) of the largest measured group that is not larger."""
    table = engine.memory.non_torch_bytes_by_tp
    return table[max(size for size in table if size <= gpus)]


class _Layout:
    """How a sequence of a deployment occupies KV pages on its fullest rank."""

    def __init__(self, model: Model, deployment: Deployment) -> None:
        self.model = model
        self.deployment = deployment
        self.groups = resident_groups(model)
        stages = deployment.pipeline_parallel_size
        self.share = math.ceil(model.num_layers / stages) / model.num_layers
        element = KV_BYTES[deployment.kv_cache_dtype]
        cached = kv_elements_per_token(model, deployment.tensor_parallel_size) * element
        self.layer_bytes = cached + index_bytes_per_token(model)

    @property
    def bytes_per_token(self) -> float:
        """Bytes of a token in a sequence of max_model_len, windows and states included."""
        return self._sequence_bytes(self._length) / self._length

    def blocks(self, kv_bytes: float, pool: KvLayout | None) -> int:
        """Return blocks of the pool, counted as blocks of a full-length sequence.

        One group of full-attention layers: whole blocks, exactly as the engine rounds. Several
        groups share a pool of pages, so a block here is what one costs in all of them together.
        """
        if pool is not None:
            sequence = int(pool.peak_blocks(np.array([self._length]))[0])
            whole = sequence_blocks(self._length, self.deployment.block_size)
            return int(pool.num_blocks * whole / sequence)
        if kv_bytes <= 0:
            return 0
        size = self.deployment.block_size
        if len(self.groups) == 1 and not self.groups[0].window_tokens and not self._state_bytes:
            layers = self.groups[0].layers * self.share
            return int(kv_bytes // block_bytes(size, layers * self.layer_bytes))
        sequences = kv_bytes / self._sequence_bytes(self._length)
        return int(sequences * sequence_blocks(self._length, size))

    @property
    def _length(self) -> int:
        return self.deployment.max_model_len

    @property
    def _state_bytes(self) -> float:
        """Constant state of linear-attention layers, per sequence."""
        linear = self.model.linear_attention
        return linear.layers * self.share * self.state_bytes_per_layer if linear else 0.0

    @property
    def state_bytes_per_layer(self) -> float:
        """Constant state of one linear-attention layer on one rank, per sequence."""
        linear = self.model.linear_attention
        if not linear:
            return 0.0
        state = linear.value_heads * linear.key_head_dim * linear.value_head_dim
        width = 2 * linear.key_heads * linear.key_head_dim
        conv = (width + linear.value_heads * linear.value_head_dim) * (linear.conv_kernel - 1)
        per_layer = state * linear.state_dtype_bytes + conv * 2.0
        return per_layer / self.deployment.tensor_parallel_size

    def _sequence_bytes(self, tokens: int) -> float:
        """Bytes one sequence of `tokens` takes, in whole blocks of every group."""
        held = sum(self._group_bytes(group, tokens) for group in self.groups)
        return held + self._state_bytes

    def _group_bytes(self, group: KvGroup, tokens: int) -> float:
        size = self.deployment.block_size
        blocks = sequence_blocks(tokens, size)
        if group.window_tokens:
            in_flight = self.deployment.max_num_batched_tokens
            blocks = window_blocks(tokens, group.window_tokens, in_flight, size)
        return blocks * block_bytes(size, group.layers * self.share * self.layer_bytes)
