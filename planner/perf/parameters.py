"""How many parameters a model has, part by part, from its published shapes.

Weight bytes and FLOPs are different questions: bytes come from everything resident, FLOPs from what
a token passes through. Both are read off here, and neither is ever a marketing figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.spec.model import LinearAttention, Mla, Model, Moe


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the whole model, before any parallelism.

    `routed_experts` are resident; a token passes through `active_routed_experts` of them.
    `attention` holds the projections (MLA matrices, output gates, the sparse indexer) without
    biases; `biases` those of attention and dense MLPs; `extra` what the model declares beyond
    shapes; `draft` the multi-token-prediction layers, in no total because engines load them only
    for speculation. `lm_head` is 0 when it is tied: the embedding's matrix then serves as both.
    """

    embedding: int
    position_embedding: int
    lm_head: int
    attention: int
    linear_attention: int
    dense_mlp: int
    routed_experts: int
    active_routed_experts: int
    shared_experts: int
    router: int
    norms: int
    biases: int
    extra: int
    draft: int
    tied: bool

    @property
    def total(self) -> int:
        """Resident parameters: what the checkpoint holds, tied matrices once."""
        return self._always + self.routed_experts

    @property
    def active(self) -> int:
        """Parameters one token passes through, embedding included."""
        return self._always + self.active_routed_experts

    @property
    def matmul_active(self) -> int:
        """Parameters that multiply a token: no embedding lookup, norms or biases, but the LM head.

        2 × this is the FLOPs of a token whose logits are computed.
        """
        head = self.embedding if self.tied else self.lm_head
        return self.matmul_active_body + head

    @property
    def matmul_active_body(self) -> int:
        """`matmul_active` without the LM head, which only sampled rows pass through."""
        return (
            self.attention
            + self.linear_attention
            + self.dense_mlp
            + self.active_routed_experts
            + self.shared_experts
            + self.router
        )

    @property
    def experts(self) -> int:
        """Routed and shared experts together."""
        return self.routed_experts + self.shared_experts

    @property
    def _always(self) -> int:
        """Everything but the routed experts."""
        return (
            self.embedding
            + self.position_embedding
            + self.lm_head
            + self.attention
            + self.linear_attention
            + self.dense_mlp
            + self.shared_experts
            + self.router
            + self.norms
            + self.biases
            + self.extra
        )


def parameters(model: Model) -> Parameters:
    """Count a model's parameters part by part.

    Examples
    --------
    Llama-2-7B holds 6,738,415,616 parameters:

    >>> from planner.spec.catalog import model
    >>> parameters(model("meta-llama/Llama-2-7b-hf")).total
    6738415616
    """
    embedding = model.vocab_size * model.hidden_size
    linear = model.linear_attention
    moe = model.moe
    return Parameters(
        embedding=embedding,
        position_embedding=model.position_embeddings * model.hidden_size,
        lm_head=0 if model.tie_word_embeddings else embedding,
        attention=model.attention_layers * attention_layer(model),
        linear_attention=linear.layers * linear_attention_layer(model, linear) if linear else 0,
        dense_mlp=model.dense_mlp_layers * mlp_layer(model, model.intermediate_size),
        routed_experts=moe.layers * moe.num_experts * expert(model, moe) if moe else 0,
        active_routed_experts=moe.layers * moe.experts_per_token * expert(model, moe) if moe else 0,
        shared_experts=moe.layers * mlp_layer(model, moe.shared_intermediate_size) if moe else 0,
        router=moe.layers * router_layer(model, moe) if moe else 0,
        norms=model.num_layers * model.norm_weights_per_layer + model.final_norm_weights,
        biases=model.num_layers * attention_biases(model)
        + model.dense_mlp_layers * mlp_biases(model),
        extra=model.extra_parameters,
        draft=model.draft_layers * draft_layer(model),
        tied=model.tie_word_embeddings,
    )


def attention_layer(model: Model) -> int:
    """Return one attention layer's matrices: Q, K, V, O; or MLA's; plus gate and indexer.

    h·H·d·(1 + gate) + h·H_kv·(d + d_v) + H·d_v·h, parameters.

    >>> from planner.spec.catalog import model
    >>> attention_layer(model("meta-llama/Llama-2-7b-hf")) == 4 * 4096**2
    True
    """
    h, H = model.hidden_size, model.num_attention_heads
    if model.mla:
        return mla_layer(h, H, model.mla) + sparse_index_layer(model, model.mla)
    d = model.head_dim
    d_v = model.v_head_dim or d
    queries = h * H * d * (2 if model.attn_output_gate else 1)
    return queries + h * model.num_kv_heads * (d + d_v) + H * d_v * h


def mla_layer(h: int, H: int, mla: Mla) -> int:
    """Return multi-head latent attention's matrices, parameters.

    Queries: h·r_q + r_q·H·(d_n + d_r), or h·H·(d_n + d_r) without compression. Latent: h·(r + d_r).
    Keys and values from it: r·H·(d_n + d_v). Output: H·d_v·h. Source: DeepSeek-V2,
    arXiv:2405.04434, §2.1.

    >>> mla_layer(7168, 128, Mla(q_lora_rank=1536, kv_lora_rank=512, qk_rope_head_dim=64,
    ...                          qk_nope_head_dim=128, v_head_dim=128))
    187105280
    """
    query_dim = H * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    rank = mla.q_lora_rank
    queries = rank * (h + query_dim) if rank else h * query_dim
    latent = h * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    up = mla.kv_lora_rank * H * (mla.qk_nope_head_dim + mla.v_head_dim)
    return queries + latent + up + H * mla.v_head_dim * h


def sparse_index_layer(model: Model, mla: Mla) -> int:
    """Return the sparse indexer's matrices in one layer, 0 without one.

    Queries r_q·H_i·d_i, one shared key h·d_i with its LayerNorm 2·d_i, head weights h·H_i.
    Source: the DeepSeek-V3.2 reference model's indexer.
    """
    sparse = model.sparse_attention
    if sparse is None:
        return 0
    queries = mla.q_lora_rank * sparse.index_heads * sparse.index_head_dim
    key = model.hidden_size * sparse.index_head_dim + 2 * sparse.index_head_dim
    return queries + key + model.hidden_size * sparse.index_heads


def linear_attention_layer(model: Model, linear: LinearAttention) -> int:
    """Return one gated-delta layer's parameters.

    Input h·(2·K + 2·V) for queries, keys, values and gate, h·g·H_v for decay and step (g = 2,
    1 for Mamba 2),
    convolution (2·K + V)·kernel, output V·h, decay and step bias 2·H_v, gated norm d_v; K and V
    are all heads' widths. Source: Qwen3-Next's model class in `transformers`.
    """
    h = model.hidden_size
    keys = linear.key_heads * linear.key_head_dim
    values = linear.value_heads * linear.value_head_dim
    gates = linear.head_gates * linear.value_heads
    projections = h * (2 * keys + 2 * values + gates) + values * h
    convolution = (2 * keys + values) * linear.conv_kernel
    return projections + convolution + 2 * linear.value_heads + linear.value_head_dim


def mlp_layer(model: Model, width: int) -> int:
    """Return an MLP's matrices: 3·h·width when gated, 2·h·width when plain."""
    return model.mlp_matrices * model.hidden_size * width


def expert(model: Model, moe: Moe) -> int:
    """Return one routed expert: 3·h·width, plus 2·width + h where experts have biases."""
    width = moe.expert_intermediate_size
    bias = 2 * width + model.hidden_size if moe.expert_bias else 0
    return mlp_layer(model, width) + bias


def draft_layer(model: Model) -> int:
    """Return one multi-token-prediction layer: a decoder layer, its 2h·h input and three norms.

    Embedding and LM head are the main model's. Source: DeepSeek-V3, arXiv:2412.19437, §2.2.
    """
    h = model.hidden_size
    layer = attention_layer(model) + attention_biases(model) + model.norm_weights_per_layer
    if model.moe:
        moe = model.moe
        layer += moe.num_experts * expert(model, moe) + router_layer(model, moe)
        layer += mlp_layer(model, moe.shared_intermediate_size)
    else:
        layer += mlp_layer(model, model.intermediate_size) + mlp_biases(model)
    return layer + 2 * h * h + 3 * h


def router_layer(model: Model, moe: Moe) -> int:
    """Return one layer's router h·E, with Qwen's scalar gate h on the shared expert."""
    return model.hidden_size * (moe.num_experts + (1 if moe.shared_gate else 0))


def attention_biases(model: Model) -> int:
    """Return one layer's attention biases: Q, K, V where either flag is set, O for all biases."""
    if not (model.attention_bias or model.qkv_bias):
        return 0
    qkv = (model.num_attention_heads + 2 * model.num_kv_heads) * model.head_dim
    return qkv + (model.hidden_size if model.attention_bias else 0)


def mlp_biases(model: Model) -> int:
    """Return one dense MLP's biases: its inner widths and the output."""
    if not model.mlp_bias:
        return 0
    return (model.mlp_matrices - 1) * model.intermediate_size + model.hidden_size
