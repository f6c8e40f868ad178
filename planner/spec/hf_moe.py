"""Architectures with routed experts or latent, sparse or linear attention.

As in `hf_dense`, only what shapes do not say is counted here: routers' correction vectors,
attention sinks and vision towers go to `extra_parameters` with their names.
"""

from __future__ import annotations

from planner.spec.hf_dense import mistral, qwen2, qwen3
from planner.spec.hf_fields import Fields
from planner.spec.hf_shape import Shape, add_extra, decoder, set_window
from planner.spec.hf_vision import llama4_tower, qwen3_tower
from planner.spec.model import LinearAttention, Mla, Moe, SparseAttention


def mixtral(fields: Fields) -> Shape:
    """Mixtral: Mistral with every MLP replaced by routed experts of the same width."""
    shape = mistral(fields)
    shape["moe"] = Moe(
        num_experts=fields.integer("num_local_experts"),
        experts_per_token=fields.integer("num_experts_per_tok"),
        expert_intermediate_size=shape["intermediate_size"],
        layers=shape["num_layers"],
    )
    return shape


def _sparse_layers(fields: Fields, layers: int) -> int:
    """Count Qwen's MoE layers: every `decoder_sparse_step`-th that is not in `mlp_only_layers`."""
    step = fields.integer("decoder_sparse_step", 1)
    dense = set(fields.items("mlp_only_layers"))
    return sum((i + 1) % step == 0 and i not in dense for i in range(layers))


def _qwen_moe(fields: Fields, layers: int) -> Moe:
    """Read Qwen's expert fields; a shared expert comes with a scalar gate."""
    shared = fields.integer("shared_expert_intermediate_size", 0, minimum=0)
    return Moe(
        num_experts=fields.integer("num_experts"),
        experts_per_token=fields.integer("num_experts_per_tok"),
        expert_intermediate_size=fields.integer("moe_intermediate_size"),
        shared_intermediate_size=shared,
        shared_gate=shared > 0,
        layers=_sparse_layers(fields, layers),
    )


def qwen2_moe(fields: Fields) -> Shape:
    """Qwen 2 MoE: Qwen 2 attention, routed experts and one gated shared expert."""
    shape = qwen2(fields)
    shape["moe"] = _qwen_moe(fields, shape["num_layers"])
    return shape


def qwen3_moe(fields: Fields) -> Shape:
    """Qwen 3 MoE: Qwen 3 attention, routed experts, no shared one."""
    shape = qwen3(fields)
    shape["moe"] = _qwen_moe(fields, shape["num_layers"])
    return shape


def qwen3_next(fields: Fields) -> Shape:
    """Qwen3-Next: gated-delta layers, every fourth full attention with an output gate."""
    # The MoE models of this family have no dense MLP and say nothing about its width.
    all_moe = fields.has("num_experts")
    shape = decoder(fields.with_defaults({"intermediate_size": 1}) if all_moe else fields)
    kinds = fields.items("layer_types")
    interval = fields.integer("full_attention_interval", 4)
    full = (
        sum(kind == "full_attention" for kind in kinds)
        if kinds
        else shape["num_layers"] // interval
    )
    linear = LinearAttention(
        layers=shape["num_layers"] - full,
        key_heads=fields.integer("linear_num_key_heads"),
        key_head_dim=fields.integer("linear_key_head_dim"),
        value_heads=fields.integer("linear_num_value_heads"),
        value_head_dim=fields.integer("linear_value_head_dim"),
        conv_kernel=fields.integer("linear_conv_kernel_dim", 4),
    )
    shape["linear_attention"] = linear
    shape["attn_output_gate"] = fields.flag("attn_output_gate", default=True)
    if all_moe:
        shape["moe"] = _qwen_moe(fields, shape["num_layers"])
    # The norm over heads exists in full-attention layers only, so it is no per-layer figure.
    add_extra(shape, ("query/key norms", full * 2 * shape["head_dim"]))
    return shape


def qwen3_5(fields: Fields) -> Shape:
    """Qwen 3.5 to 3.8: Qwen3-Next's layers, dense or MoE, with a vision tower."""
    text = fields.section("text_config")
    shape = qwen3_next(text)
    shape["tie_word_embeddings"] = fields.flag("tie_word_embeddings")
    shape["draft_layers"] = text.integer("mtp_num_hidden_layers", 0, minimum=0)
    if fields.has("vision_config"):
        add_extra(shape, ("vision tower", qwen3_tower(fields.section("vision_config"))))
    return shape


def _deepseek_moe(fields: Fields, layers: int) -> Moe:
    """Read the expert fields that DeepSeek, Kimi and GLM share."""
    width = fields.integer("moe_intermediate_size")
    return Moe(
        num_experts=fields.integer("n_routed_experts"),
        experts_per_token=fields.integer("num_experts_per_tok"),
        expert_intermediate_size=width,
        shared_intermediate_size=width * fields.integer("n_shared_experts", 0, minimum=0),
        layers=layers - fields.integer("first_k_dense_replace", 0, minimum=0),
    )


def _correction(moe: Moe) -> tuple[str, int]:
    """Return the router's correction vector: one value an expert and MoE layer."""
    return ("router correction", moe.num_experts * moe.layers)


def deepseek(fields: Fields) -> Shape:
    """DeepSeek V2, V3, R1 and Kimi K2: latent attention, dense first layers, shared experts."""
    shape = decoder(fields)
    mla = Mla(
        q_lora_rank=fields.integer("q_lora_rank", 0, minimum=0),
        kv_lora_rank=fields.integer("kv_lora_rank"),
        qk_rope_head_dim=fields.integer("qk_rope_head_dim"),
        qk_nope_head_dim=fields.integer("qk_nope_head_dim"),
        v_head_dim=fields.integer("v_head_dim"),
    )
    frequency = fields.integer("moe_layer_freq", 1)
    if frequency != 1:
        fields.problem("moe_layer_freq", f"{frequency}: only 1 is modelled")
    moe = _deepseek_moe(fields, shape["num_layers"])
    shape |= {"mla": mla, "moe": moe, "head_dim": mla.qk_nope_head_dim + mla.qk_rope_head_dim}
    shape["v_head_dim"] = mla.v_head_dim
    shape["norm_weights_per_layer"] += mla.kv_lora_rank + mla.q_lora_rank
    if fields.text("topk_method") == "noaux_tc":
        add_extra(shape, _correction(moe))
    return shape


def deepseek_sparse(fields: Fields) -> Shape:
    """DeepSeek V3.2 and GLM-5: each query attends the `index_topk` tokens an indexer picks."""
    shape = deepseek(fields)
    shape["sparse_attention"] = SparseAttention(
        index_heads=fields.integer("index_n_heads"),
        index_head_dim=fields.integer("index_head_dim"),
        top_k_tokens=fields.integer("index_topk"),
    )
    return shape


def glm4_moe(fields: Fields) -> Shape:
    """GLM-4.5 and 4.6: biases on queries, keys and values, dense first layers, shared expert."""
    shape = decoder(fields)
    shape["qkv_bias"] = fields.flag("attention_bias")
    if fields.flag("use_qk_norm"):
        shape["norm_weights_per_layer"] += 2 * shape["head_dim"]
    shape["moe"] = _deepseek_moe(fields, shape["num_layers"])
    add_extra(shape, _correction(shape["moe"]))
    return shape


def gpt_oss(fields: Fields) -> Shape:
    """gpt-oss: biases in attention, router and experts, a sink a head, windows in turn."""
    shape = decoder(fields)
    layers = shape["num_layers"]
    width = fields.integer("intermediate_size")
    experts = fields.integer("num_local_experts")
    shape["attention_bias"] = fields.flag("attention_bias", default=True)
    shape["moe"] = Moe(
        num_experts=experts,
        experts_per_token=fields.integer("num_experts_per_tok"),
        expert_intermediate_size=width,
        layers=layers,
        expert_bias=True,
    )
    set_window(shape, fields, (layers + 1) // 2)
    add_extra(
        shape,
        ("attention sinks", shape["num_attention_heads"] * layers),
        ("router biases", experts * layers),
    )
    return shape


def llama4(fields: Fields) -> Shape:
    """Llama 4: a routed and a shared expert in every n-th layer, three of four layers chunked."""
    text = fields.section("text_config")
    shape = decoder(text)
    shape["attention_bias"] = text.flag("attention_bias")
    layers = shape["num_layers"]
    width = text.integer("intermediate_size")
    shape["intermediate_size"] = text.integer("intermediate_size_mlp")
    shape["moe"] = Moe(
        num_experts=text.integer("num_local_experts"),
        experts_per_token=text.integer("num_experts_per_tok"),
        expert_intermediate_size=width,
        shared_intermediate_size=width,
        layers=layers // text.integer("interleave_moe_layer_step", 1),
    )
    # Every fourth layer attends to everything without positions, the others inside a chunk; a
    # chunk's average reach is half its size, its KV never exceeds it.
    shape["sliding_window"] = text.integer("attention_chunk_size", 8192)
    shape["sliding_layers"] = layers - layers // 4
    if fields.has("vision_config"):
        tower = llama4_tower(fields.section("vision_config"), shape["hidden_size"])
        add_extra(shape, ("vision tower", tower))
    return shape


def minimax_m2(fields: Fields) -> Shape:
    """MiniMax M2: routed experts in every layer, a norm over all queries and all keys."""
    shape = decoder(fields)
    if fields.flag("use_qk_norm"):
        rows = shape["num_attention_heads"] + shape["num_kv_heads"]
        shape["norm_weights_per_layer"] += rows * shape["head_dim"]
    moe = Moe(
        num_experts=fields.integer("num_local_experts"),
        experts_per_token=fields.integer("num_experts_per_tok"),
        expert_intermediate_size=fields.integer("intermediate_size"),
        shared_intermediate_size=fields.integer("shared_intermediate_size", 0, minimum=0),
        layers=shape["num_layers"],
    )
    shape["moe"] = moe
    if fields.flag("use_routing_bias"):
        add_extra(shape, _correction(moe))
    return shape


def kimi_multimodal(fields: Fields) -> Shape:
    """Kimi K2.5 and later: K2's language model; of its vision tower the size is not in the file."""
    return deepseek(fields.section("text_config"))
