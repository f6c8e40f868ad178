"""Models of papers that the catalogue lacks, because no `config.json` was ever published."""

from __future__ import annotations

from planner.spec.model import Model


def plain_transformer(name: str, layers: int, hidden: int, heads: int, parameters: float) -> Model:
    """Return a GPT-2-like decoder: full attention heads, MLP of 4·h, biases, learned positions."""
    return Model(
        id=name,
        architecture="OPTForCausalLM",
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_kv_heads=heads,
        head_dim=hidden // heads,
        intermediate_size=4 * hidden,
        mlp_matrices=2,
        vocab_size=50_272,
        max_model_len=8192,
        tie_word_embeddings=True,
        attention_bias=True,
        mlp_bias=True,
        position_embeddings=2050,
        norm_weights_per_layer=4 * hidden,
        final_norm_weights=2 * hidden,
        weight_dtype="fp16",
        published_parameters=parameters,
        source="shapes of table 2.1, arXiv:2005.14165, and of table 1, arXiv:2205.01068",
        date="2026-11-29",
    )


# GPT-3 175B and OPT-175B have the same shape.
GPT3_175B = plain_transformer("gpt3-175b", 96, 12_288, 96, 175e9)

LLAMA_33B = Model(
    id="llama-33b",
    architecture="LlamaForCausalLM",
    num_layers=60,
    hidden_size=6656,
    num_attention_heads=52,
    num_kv_heads=52,
    head_dim=128,
    intermediate_size=17_920,
    vocab_size=32_000,
    max_model_len=4096,
    norm_weights_per_layer=2 * 6656,
    final_norm_weights=6656,
    weight_dtype="fp16",
    published_parameters=32.5e9,
    source="table 2, arXiv:2302.13971; MLP width from the released checkpoint's parameters",
    date="2026-11-29",
)
