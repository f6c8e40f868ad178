"""A model's architecture, read from a Hugging Face `config.json` (`schemas/model.schema.json`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mla:
    """Multi-head latent attention: one compressed latent per token instead of keys and values."""

    q_lora_rank: int  # 0: queries are projected directly
    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moe:
    """Routed experts. `layers` is how many of the model's layers have them."""

    num_experts: int
    experts_per_token: int
    expert_intermediate_size: int
    shared_intermediate_size: int = 0  # width of all shared experts together
    layers: int
    shared_gate: bool = False  # Qwen's scalar gate on the shared expert: one h-vector a layer
    expert_bias: bool = False  # gpt-oss: every expert's matrices have biases


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Gated-delta or Mamba layers: a constant state per sequence instead of a growing KV cache."""

    layers: int
    key_heads: int
    key_head_dim: int
    value_heads: int
    value_head_dim: int
    conv_kernel: int = 4
    state_dtype_bytes: float = 4.0
    head_gates: int = 2  # inputs of one value a head: decay and step; Mamba 2 has the step alone


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAttention:
    """DeepSeek's sparse attention: an indexer scores all tokens, attention reads the best ones."""

    index_heads: int
    index_head_dim: int
    top_k_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Architecture of a decoder-only transformer: everything the equations need, no weights.

    Shapes are the published ones of the whole model, before any tensor parallelism.
    `published_parameters` is the authors' count (with source) that derived counts are tested
    against; it never enters an equation.
    """

    id: str  # Hugging Face id
    architecture: str  # "LlamaForCausalLM"
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int = 0  # 0: same as head_dim
    intermediate_size: int  # dense MLP width; 0 when every layer is MoE
    mlp_matrices: int = 3  # 3 gated (SwiGLU/GeGLU), 2 plain
    vocab_size: int
    max_model_len: int
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    qkv_bias: bool = False
    mlp_bias: bool = False
    position_embeddings: int = 0  # learned absolute positions (OPT, GPT-J has none): rows
    parallel_block: bool = False  # attention and MLP share one input norm and one all-reduce
    norm_weights_per_layer: int = 0  # total norm parameters in one layer
    final_norm_weights: int = 0
    extra_parameters: int = (
        0  # named in `extra_parameters_note`: routers' biases, sinks, projections
    )
    extra_parameters_note: str = ""
    sliding_window: int = 0  # tokens; 0: every layer is full attention
    sliding_layers: int = 0  # layers that use the window (or, for Llama 4, chunked attention)
    attn_output_gate: bool = False
    moe: Moe | None = None
    mla: Mla | None = None
    linear_attention: LinearAttention | None = None
    sparse_attention: SparseAttention | None = None
    draft_layers: int = 0  # multi-token-prediction layers; loaded only when speculation is on
    weight_dtype: str = "bf16"  # as published: bf16, fp16, fp8_block, mxfp4, int4, nvfp4
    quantized_experts_only: bool = False  # gpt-oss, Kimi int4: attention stays bf16
    unquantized_attention: bool = False  # dense releases that quantise the MLPs alone
    published_parameters: float
    published_active_parameters: float | None = None
    source: str
    date: str
    notes: str = ""

    @property
    def attention_layers(self) -> int:
        """Layers with a growing KV cache (all but linear-attention ones)."""
        return self.num_layers - (self.linear_attention.layers if self.linear_attention else 0)

    @property
    def dense_mlp_layers(self) -> int:
        """Layers with a dense MLP instead of routed experts."""
        return self.num_layers - (self.moe.layers if self.moe else 0)
