"""Dense architectures: what their `config.json` means, in the fields of `Model`.

Matrices follow from shapes, so only what shapes do not say is counted here: norms, biases, learned
positions, vision towers. Sources: the `config.json` files and the model classes of the
`transformers` library that read them.
"""

from __future__ import annotations

from planner.spec.hf_fields import Fields
from planner.spec.hf_shape import Shape, add_extra, decoder, set_window
from planner.spec.hf_vision import pixtral_tower, siglip_tower


def llama(fields: Fields) -> Shape:
    """Llama 2 and 3, Yi: gated MLP, RMS norms, biases only where the config says so."""
    shape = decoder(fields)
    shape["attention_bias"] = fields.flag("attention_bias")
    shape["mlp_bias"] = fields.flag("mlp_bias")
    return shape


def mistral(fields: Fields) -> Shape:
    """Mistral: Llama's shapes, every layer in the window where one is set."""
    shape = decoder(fields)
    set_window(shape, fields, shape["num_layers"])
    return shape


def qwen2(fields: Fields) -> Shape:
    """Qwen 2 and 2.5: biases on queries, keys and values; the window, if used, on upper layers."""
    shape = decoder(fields)
    shape["qkv_bias"] = True
    if fields.flag("use_sliding_window"):
        below = fields.integer("max_window_layers", shape["num_layers"], minimum=0)
        set_window(shape, fields, max(0, shape["num_layers"] - below))
    return shape


def qwen3(fields: Fields) -> Shape:
    """Qwen 3: no biases, a norm over each head's queries and keys."""
    shape = decoder(fields)
    shape["attention_bias"] = fields.flag("attention_bias")
    shape["norm_weights_per_layer"] += 2 * shape["head_dim"]
    if fields.flag("use_sliding_window"):
        below = fields.integer("max_window_layers", shape["num_layers"], minimum=0)
        set_window(shape, fields, max(0, shape["num_layers"] - below))
    return shape


def gemma2(fields: Fields) -> Shape:
    """Gemma 2: four norms a layer, tied embeddings, every other layer in the window."""
    shape = decoder(fields)
    shape["tie_word_embeddings"] = fields.flag("tie_word_embeddings", default=True)
    shape["norm_weights_per_layer"] = 4 * shape["hidden_size"]
    set_window(shape, fields, (shape["num_layers"] + 1) // 2)
    return shape


# `text_config` of the multimodal Gemma 3 leaves out what equals the class's defaults
# (transformers, Gemma3TextConfig).
GEMMA3_DEFAULTS = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262_208,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": True,
}


def gemma3(fields: Fields) -> Shape:
    """Gemma 3: Gemma 2 plus a norm over queries and keys; five layers of six in the window."""
    shape = decoder(fields.with_defaults(GEMMA3_DEFAULTS))
    shape["norm_weights_per_layer"] = 4 * shape["hidden_size"] + 2 * shape["head_dim"]
    pattern = fields.integer("sliding_window_pattern", 6)
    set_window(shape, fields, sum((i + 1) % pattern != 0 for i in range(shape["num_layers"])))
    return shape


def gemma3_multimodal(fields: Fields) -> Shape:
    """Gemma 3 with its SigLIP vision tower, which the engine loads as well."""
    shape = gemma3(fields.section("text_config"))
    if fields.has("vision_config"):
        tower = siglip_tower(fields.section("vision_config"), shape["hidden_size"])
        add_extra(shape, ("vision tower", tower))
    return shape


def phi3(fields: Fields) -> Shape:
    """Phi-3 and Phi-4: Llama's shapes, fused matrices, the window on every layer if set."""
    shape = decoder(fields)
    shape["attention_bias"] = fields.flag("attention_bias")
    set_window(shape, fields, shape["num_layers"])
    return shape


def opt(fields: Fields) -> Shape:
    """OPT: plain MLP, biases everywhere, LayerNorm with bias, learned positions, tied head."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    projection = fields.integer("word_embed_proj_dim", hidden)
    if projection != hidden:
        fields.problem(
            "word_embed_proj_dim", f"{projection} differs from hidden_size {hidden}: not modelled"
        )
    positions = fields.integer("max_position_embeddings")
    return {
        "num_layers": fields.integer("num_hidden_layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_kv_heads": heads,
        "head_dim": hidden // heads,
        "intermediate_size": fields.integer("ffn_dim"),
        "mlp_matrices": 2,
        "vocab_size": fields.integer("vocab_size"),
        "max_model_len": positions,
        "tie_word_embeddings": fields.flag("tie_word_embeddings", default=True),
        "attention_bias": True,
        "mlp_bias": True,
        "position_embeddings": positions + 2,  # the first two rows are padding's
        "norm_weights_per_layer": 4 * hidden,
        "final_norm_weights": 2 * hidden,
    }


def falcon(fields: Fields) -> Shape:
    """Falcon 40B and 180B: attention and MLP in parallel, two LayerNorms, plain MLP of 4h."""
    if not fields.flag("new_decoder_architecture"):
        fields.problem("new_decoder_architecture", "false: only Falcon 40B and 180B are modelled")
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    return {
        "num_layers": fields.integer("num_hidden_layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_kv_heads": fields.integer("num_kv_heads", heads),
        "head_dim": hidden // heads,
        "intermediate_size": fields.integer("ffn_hidden_size", 4 * hidden),
        "mlp_matrices": 2,
        "vocab_size": fields.integer("vocab_size"),
        "max_model_len": fields.integer("max_position_embeddings", 2048),
        "tie_word_embeddings": fields.flag("tie_word_embeddings", default=True),
        "attention_bias": fields.flag("bias"),
        "mlp_bias": fields.flag("bias"),
        "parallel_block": True,
        "norm_weights_per_layer": 4 * hidden,
        "final_norm_weights": 2 * hidden,
    }


def mistral_multimodal(fields: Fields) -> Shape:
    """Mistral Small 3 and Ministral 3 with Pixtral's vision tower, which engines load as well."""
    shape = mistral(fields.section("text_config"))
    if fields.has("vision_config"):
        tower = pixtral_tower(fields.section("vision_config"), shape["hidden_size"])
        add_extra(shape, ("vision tower", tower))
    return shape


def gptj(fields: Fields) -> Shape:
    """GPT-J: attention and MLP in parallel behind one LayerNorm, biases in the MLP and the head."""
    hidden, heads = fields.integer("n_embd"), fields.integer("n_head")
    vocab = fields.integer("vocab_size")
    shape: Shape = {
        "num_layers": fields.integer("n_layer"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_kv_heads": heads,
        "head_dim": hidden // heads,
        "intermediate_size": fields.integer("n_inner", 4 * hidden),
        "mlp_matrices": 2,
        "vocab_size": vocab,
        "max_model_len": fields.integer("n_positions"),
        "tie_word_embeddings": fields.flag("tie_word_embeddings"),
        "mlp_bias": True,
        "parallel_block": True,
        "norm_weights_per_layer": 2 * hidden,
        "final_norm_weights": 2 * hidden,
    }
    add_extra(shape, ("LM head bias", vocab))
    return shape


def bloom(fields: Fields) -> Shape:
    """BLOOM: ALiBi instead of positions, biases everywhere, LayerNorms, one over the embedding."""
    hidden, heads = fields.integer("hidden_size"), fields.integer("n_head")
    shape: Shape = {
        "num_layers": fields.integer("n_layer"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_kv_heads": heads,
        "head_dim": hidden // heads,
        "intermediate_size": 4 * hidden,
        "mlp_matrices": 2,
        "vocab_size": fields.integer("vocab_size"),
        "max_model_len": fields.integer("seq_length", 2048),
        "tie_word_embeddings": fields.flag("tie_word_embeddings", default=True),
        "attention_bias": True,
        "mlp_bias": True,
        "norm_weights_per_layer": 4 * hidden,
        "final_norm_weights": 2 * hidden,
    }
    add_extra(shape, ("embedding norm", 2 * hidden))
    return shape
