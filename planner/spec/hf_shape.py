"""What the readers of `config.json` share: every decoder's fields, windows, extra parameters."""

from __future__ import annotations

from typing import Any

from planner.spec.hf_fields import Fields

Shape = dict[str, Any]


def decoder(fields: Fields) -> Shape:
    """Return what every decoder has: depth, width, heads, vocabulary; two RMS norms a layer."""
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    return {
        "num_layers": fields.integer("num_hidden_layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_kv_heads": fields.integer("num_key_value_heads", heads),
        "head_dim": fields.integer("head_dim", max(1, hidden // heads)),
        "intermediate_size": fields.integer("intermediate_size"),
        "vocab_size": fields.integer("vocab_size"),
        "max_model_len": fields.integer("max_position_embeddings"),
        "tie_word_embeddings": fields.flag("tie_word_embeddings"),
        "norm_weights_per_layer": 2 * hidden,
        "final_norm_weights": hidden,
        "draft_layers": fields.integer("num_nextn_predict_layers", 0, minimum=0),
    }


def add_extra(shape: Shape, *parts: tuple[str, int]) -> None:
    """Add parameters that no shape implies, each with its name."""
    named = [(name, count) for name, count in parts if count]
    notes = [shape.get("extra_parameters_note", "")] + [
        f"{name} {count:,}" for name, count in named
    ]
    shape["extra_parameters"] = shape.get("extra_parameters", 0) + sum(n for _, n in named)
    shape["extra_parameters_note"] = ", ".join(note for note in notes if note)


def set_window(shape: Shape, fields: Fields, layers: int) -> None:
    """Set the attention window on `layers` layers, or on those `layer_types` names."""
    kinds = fields.items("layer_types")
    if kinds:
        layers = sum(kind == "sliding_attention" for kind in kinds)
    window = fields.integer("sliding_window", 0, minimum=0)
    if window and layers:
        shape["sliding_window"] = window
        shape["sliding_layers"] = layers
