"""Hybrid architectures: most layers keep a constant state, a few attend to the whole history."""

from __future__ import annotations

from planner.spec.hf_fields import Fields
from planner.spec.hf_moe import deepseek
from planner.spec.hf_shape import Shape, add_extra, decoder
from planner.spec.model import LinearAttention, Moe


def nemotron_h(fields: Fields) -> Shape:
    """Nemotron-H, Nano and 3: a pattern of Mamba 2 (M), attention (*), MLP (-), expert (E) blocks.

    A block is one mixer with one norm, so a layer in the planner's sense, a mixer and an MLP, is
    two of them. MLPs and experts are plain (squared ReLU).
    """
    shape = decoder(fields.with_defaults({"intermediate_size": 1}))
    pattern = fields.text("hybrid_override_pattern")
    count = {kind: pattern.count(kind) for kind in "M*-E"}
    if sum(count.values()) != len(pattern) or not pattern:
        fields.problem("hybrid_override_pattern", f"{pattern!r}: only M, *, - and E are modelled")
    if fields.has("moe_latent_size"):
        fields.problem("moe_latent_size", "experts in a latent space are not modelled")
    hidden, blocks = shape["hidden_size"], len(pattern)
    mamba = LinearAttention(
        layers=count["M"],
        key_heads=fields.integer("n_groups"),
        key_head_dim=fields.integer("ssm_state_size"),
        value_heads=fields.integer("mamba_num_heads"),
        value_head_dim=fields.integer("mamba_head_dim"),
        conv_kernel=fields.integer("conv_kernel", 4),
        head_gates=1,
    )
    shape["num_layers"] = count["M"] + count["*"]
    shape["mlp_matrices"] = 2
    shape["linear_attention"] = mamba
    shape["norm_weights_per_layer"] = 0
    add_extra(shape, ("block norms", blocks * hidden), ("Mamba vectors", _mamba_vectors(mamba)))
    if count["E"]:
        moe = _experts(fields, count["E"])
        shape["moe"] = moe
        add_extra(shape, ("router correction", moe.num_experts * moe.layers))
    return shape | _mlp_width(shape, count)


def _experts(fields: Fields, layers: int) -> Moe:
    return Moe(
        num_experts=fields.integer("n_routed_experts"),
        experts_per_token=fields.integer("num_experts_per_tok"),
        expert_intermediate_size=fields.integer("moe_intermediate_size"),
        shared_intermediate_size=fields.integer("moe_shared_expert_intermediate_size", 0, minimum=0)
        * fields.integer("n_shared_experts", 1, minimum=0),
        layers=layers,
    )


def _mlp_width(shape: Shape, count: dict[str, int]) -> Shape:
    """Spread the MLP blocks over the layers that have no experts: fewer blocks, narrower MLPs."""
    layers = shape["num_layers"] - count["E"]
    if not count["-"] or layers <= 0:
        return {"intermediate_size": 0}
    return {"intermediate_size": shape["intermediate_size"] * count["-"] // layers}


def _mamba_vectors(mamba: LinearAttention) -> int:
    """Return what Mamba 2 mixers hold beyond gated-delta ones: biases, D, a norm as wide as V."""
    keys, values = (
        mamba.key_heads * mamba.key_head_dim,
        mamba.value_heads * mamba.value_head_dim,
    )
    each = (2 * keys + values) + mamba.value_heads + values - mamba.value_head_dim
    return mamba.layers * each


def kimi_linear(fields: Fields) -> Shape:
    """Kimi Linear: three gated-delta layers to one of latent attention, DeepSeek's experts."""
    renamed = {
        "num_experts_per_tok": fields.integer("num_experts_per_token", 8),
        "n_routed_experts": fields.integer("num_experts", 256),
        "n_shared_experts": fields.integer("num_shared_experts", 1, minimum=0),
        "topk_method": "noaux_tc",
    }
    shape = deepseek(fields.with_defaults(renamed))
    linear = fields.section("linear_attn_config")
    heads, width = linear.integer("num_heads"), linear.integer("head_dim")
    layers = len(linear.items("kda_layers"))
    shape["linear_attention"] = LinearAttention(
        layers=layers,
        key_heads=heads,
        key_head_dim=width,
        value_heads=heads,
        value_head_dim=width,
        conv_kernel=linear.integer("short_conv_kernel_size", 4),
        head_gates=1,
    )
    # Decay and output gate are low-rank pairs h·d + d·(H·d) each, instead of one full gate.
    hidden, total = shape["hidden_size"], heads * width
    pairs = 2 * (hidden * width + width * total) - hidden * total
    add_extra(shape, ("low-rank gates less a full one", layers * pairs))
    return shape
