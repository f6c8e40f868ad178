"""Matrix shapes of a model under tensor parallelism, and its KV cache by layer group."""

from __future__ import annotations

from dataclasses import dataclass

from planner.spec.deployment import Deployment
from planner.spec.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """`count` equal matrices of a rank: `inputs` × `outputs`, run on every token of a step."""

    name: str
    count: int
    inputs: float
    outputs: float
    weight_dtype: str

    @property
    def parameters(self) -> float:
        """Weights of all `count` matrices on one rank."""
        return self.count * self.inputs * self.outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class KvGroup:
    """Layers that keep the same history: all tokens (`window_tokens` 0) or a window."""

    layers: int
    window_tokens: int
    index: bool = False  # a sparse-attention indexer's keys instead of keys and values


def kv_heads_per_rank(model: Model, tensor_parallel_size: int) -> float:
    """Return KV heads of one rank: H_kv/tp, at least 1 (KV is replicated when tp > H_kv)."""
    return max(1.0, model.num_kv_heads / tensor_parallel_size)


def value_head_dim(model: Model) -> int:
    """Return elements of a value head (as wide as the key head unless the model says otherwise)."""
    return model.v_head_dim or model.head_dim


def kv_elements_per_token(model: Model, tensor_parallel_size: int) -> float:
    """Return cached elements of one token in one layer on one rank.

    GQA: H_kv/tp·(d_k + d_v). MLA: latent + rope, on every rank whatever tp.
    """
    if model.mla:
        return float(model.mla.kv_lora_rank + model.mla.qk_rope_head_dim)
    heads = kv_heads_per_rank(model, tensor_parallel_size)
    return heads * (model.head_dim + value_head_dim(model))


def index_bytes_per_token(model: Model) -> float:
    """Return bytes a sparse-attention indexer caches for one token and layer: fp8 key and scale."""
    sparse = model.sparse_attention
    return sparse.index_head_dim + 4.0 if sparse else 0.0


def resident_groups(model: Model) -> tuple[KvGroup, ...]:
    """Return the layer groups as memory sees them: full attention first, then the window."""
    full = model.attention_layers - model.sliding_layers
    groups = []
    if full or not model.sliding_layers:
        groups.append(KvGroup(layers=full, window_tokens=0))
    if model.sliding_layers:
        groups.append(KvGroup(layers=model.sliding_layers, window_tokens=model.sliding_window))
    return tuple(groups)


def kv_groups(model: Model) -> tuple[KvGroup, ...]:
    """Return the layer groups as a step reads them.

    Sparse attention is two: its indexer scans every cached token (`index`), its attention reads the
    best `top_k_tokens`, as a window of that length would.
    """
    sparse = model.sparse_attention
    if not sparse:
        return resident_groups(model)
    layers = model.attention_layers
    return (
        KvGroup(layers=layers, window_tokens=0, index=True),
        KvGroup(layers=layers, window_tokens=sparse.top_k_tokens),
    )


FOUR_BIT = ("int4", "mxfp4", "nvfp4")


def dense_dtype(model: Model, weight_dtype: str) -> str:
    """Return the format of everything but the experts.

    gpt-oss and Kimi are published with 4-bit experts and everything else at 16 bit.
    """
    return "bf16" if model.quantized_experts_only and weight_dtype in FOUR_BIT else weight_dtype


def dense_gemms(model: Model, deployment: Deployment) -> tuple[Gemm, ...]:
    """Return every matrix but the experts and the LM head, of one rank over all layers."""
    tp = deployment.tensor_parallel_size
    dtype = dense_dtype(model, deployment.weight_dtype)
    attention = "bf16" if model.unquantized_attention else dtype
    return (
        *_attention_gemms(model, tp, attention),
        *_linear_attention_gemms(model, tp, dtype),
        *_mlp_gemms(model, tp, dtype),
        *_router_gemms(model),
        *_indexer_gemms(model),
    )


def _attention_gemms(model: Model, tp: int, dtype: str) -> tuple[Gemm, ...]:
    layers, hidden = model.attention_layers, model.hidden_size
    heads = model.num_attention_heads / tp
    if model.mla:
        return _latent_gemms(model, tp, dtype)
    queries = heads * model.head_dim * (2 if model.attn_output_gate else 1)
    keys_values = kv_heads_per_rank(model, tp) * (model.head_dim + value_head_dim(model))
    return (
        Gemm(
            name="qkv",
            count=layers,
            inputs=hidden,
            outputs=queries + keys_values,
            weight_dtype=dtype,
        ),
        Gemm(
            name="attention_out",
            count=layers,
            inputs=heads * value_head_dim(model),
            outputs=hidden,
            weight_dtype=dtype,
        ),
    )


def _latent_gemms(model: Model, tp: int, dtype: str) -> tuple[Gemm, ...]:
    """MLA: down-projections are replicated, up-projections split; W_kv is absorbed at 16 bit."""
    mla, layers, hidden = model.mla, model.attention_layers, model.hidden_size
    assert mla is not None
    heads = model.num_attention_heads / tp
    query_dim = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    down = mla.q_lora_rank + mla.kv_lora_rank + mla.qk_rope_head_dim
    query_inputs = mla.q_lora_rank or hidden
    return (
        Gemm(name="qkv_down", count=layers, inputs=hidden, outputs=down, weight_dtype=dtype),
        Gemm(name="q_up", count=layers, inputs=query_inputs, outputs=query_dim, weight_dtype=dtype),
        Gemm(
            name="q_absorb",
            count=layers,
            inputs=mla.qk_nope_head_dim,
            outputs=heads * mla.kv_lora_rank,
            weight_dtype="bf16",
        ),
        Gemm(
            name="v_up",
            count=layers,
            inputs=mla.kv_lora_rank,
            outputs=heads * mla.v_head_dim,
            weight_dtype="bf16",
        ),
        Gemm(
            name="attention_out",
            count=layers,
            inputs=heads * mla.v_head_dim,
            outputs=hidden,
            weight_dtype=dtype,
        ),
    )


def _linear_attention_gemms(model: Model, tp: int, dtype: str) -> tuple[Gemm, ...]:
    """Gated-delta layers: queries, keys, values and a gate as wide as the values; output."""
    linear = model.linear_attention
    if not linear:
        return ()
    keys, values = (
        linear.key_heads * linear.key_head_dim,
        linear.value_heads * linear.value_head_dim,
    )
    return (
        Gemm(
            name="linear_in",
            count=linear.layers,
            inputs=model.hidden_size,
            outputs=(2 * keys + 2 * values) / tp,
            weight_dtype=dtype,
        ),
        Gemm(
            name="linear_out",
            count=linear.layers,
            inputs=values / tp,
            outputs=model.hidden_size,
            weight_dtype=dtype,
        ),
    )


def _router_gemms(model: Model) -> tuple[Gemm, ...]:
    """One 16-bit matrix a MoE layer, on every rank."""
    if not model.moe:
        return ()
    return (
        Gemm(
            name="router",
            count=model.moe.layers,
            inputs=model.hidden_size,
            outputs=model.moe.num_experts,
            weight_dtype="bf16",
        ),
    )


def _indexer_gemms(model: Model) -> tuple[Gemm, ...]:
    """Sparse attention's indexer: queries from MLA's query latent, one key, head weights."""
    sparse, mla = model.sparse_attention, model.mla
    if not (sparse and mla):
        return ()
    width, layers = sparse.index_heads * sparse.index_head_dim, model.attention_layers
    return (
        Gemm(
            name="index_q",
            count=layers,
            inputs=mla.q_lora_rank,
            outputs=width,
            weight_dtype="bf16",
        ),
        Gemm(
            name="index_k",
            count=layers,
            inputs=model.hidden_size,
            outputs=sparse.index_head_dim + sparse.index_heads,
            weight_dtype="bf16",
        ),
    )


def _mlp_gemms(model: Model, tp: int, dtype: str) -> tuple[Gemm, ...]:
    gemms = []
    shared = model.moe.shared_intermediate_size if model.moe else 0
    for name, layers, width in (
        ("mlp", model.dense_mlp_layers, model.intermediate_size),
        ("shared_expert", model.moe.layers if model.moe else 0, shared),
    ):
        if not layers or not width:
            continue
        up = (model.mlp_matrices - 1) * width / tp
        gemms += [
            Gemm(
                name=f"{name}_up",
                count=layers,
                inputs=model.hidden_size,
                outputs=up,
                weight_dtype=dtype,
            ),
            Gemm(
                name=f"{name}_down",
                count=layers,
                inputs=width / tp,
                outputs=model.hidden_size,
                weight_dtype=dtype,
            ),
        ]
    return tuple(gemms)
