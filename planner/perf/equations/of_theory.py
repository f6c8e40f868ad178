"""The theory of a token: work, traffic, intensities.

Golden cases: 7 B parameters, bf16, 300 TFLOP/s, 2 TB/s.
"""

from __future__ import annotations

from planner.perf import theory as t
from planner.perf.equations.equation import equation as eq

PHI, W, K, F, BW = 14e9, 14e9, 524_288.0, 300e12, 2e12

WORK = (
    eq(t.flops_per_token, "φ", "FLOP/token", "2·{parameters}", 14e9, parameters=7e9),
    eq(
        t.weight_bytes,
        "w",
        "B",
        "{parameters}·{bytes_per_parameter}",
        14e9,
        parameters=7e9,
        bytes_per_parameter=2.0,
    ),
    eq(
        t.ridge_flops_per_byte,
        "R",
        "FLOP/B",
        "{flops_per_s}/{bandwidth_bytes_per_s}",
        150.0,
        aliases=("ridge",),
        flops_per_s=F,
        bandwidth_bytes_per_s=BW,
    ),
    eq(
        t.kv_bytes_per_token,
        "k",
        "B/token",
        "2·{attention_layers}·{kv_heads}·{head_dim}·{kv_element_bytes}",
        524_288.0,
        aliases=("kv",),
        related=("kv_bytes_read_per_token",),
        attention_layers=32,
        kv_heads=32,
        head_dim=128,
        kv_element_bytes=2,
    ),
    eq(
        t.latent_kv_bytes_per_token,
        "k",
        "B/token",
        "{copies}·{attention_layers}·(({latent_dim} + {rope_dim})·{kv_element_bytes}"
        " + {index_bytes})",
        # DeepSeek-V3: 61 · 576 · 2.
        70_272.0,
        aliases=("latent-kv",),
        related=("kv_bytes_read_per_token",),
        attention_layers=61,
        latent_dim=512,
        rope_dim=64,
        kv_element_bytes=2,
        index_bytes=0,
        copies=1,
    ),
    eq(
        t.kv_bytes_read_per_token,
        "k",
        "B/token",
        "{full_kv_per_token} + {window_kv_per_token}"
        "·min({context_tokens}, {window_tokens})/{context_tokens}",
        # Gemma 3 27B at 13,151 tokens: (10·13,151 + 52·1,024)·8,192 B/13,151.
        115_089.159456,
        aliases=("kv-read",),
        full_kv_per_token=81_920,
        window_kv_per_token=425_984,
        context_tokens=13_151,
        window_tokens=1024,
    ),
    eq(
        t.prefill_flops,
        "f_prefill",
        "FLOP",
        "{token_flops}·{prompt_tokens}",
        5.7344e13,
        token_flops=PHI,
        prompt_tokens=4096,
    ),
    eq(
        t.decode_flops,
        "f_decode",
        "FLOP",
        "{token_flops}·{batch_seqs}",
        4.48e11,
        token_flops=PHI,
        batch_seqs=32,
    ),
    eq(
        t.decode_bytes,
        "m_decode",
        "B",
        "{weights} + {batch_seqs}·{context_tokens}·{kv_per_token}",
        48.359738368e9,
        weights=W,
        batch_seqs=32,
        context_tokens=2048,
        kv_per_token=K,
    ),
    eq(
        t.prefill_intensity,
        "I_prefill",
        "FLOP/B",
        "{token_flops}·{prompt_tokens}/({weights} + {activation_bytes_per_token}·{prompt_tokens})",
        3168.877,
        token_flops=PHI,
        weights=W,
        prompt_tokens=4096,
        activation_bytes_per_token=1e6,
    ),
    eq(
        t.prefill_intensity_limit,
        "I_∞",
        "FLOP/B",
        "{token_flops}/{activation_bytes_per_token}",
        14_000.0,
        token_flops=PHI,
        activation_bytes_per_token=1e6,
    ),
    eq(
        t.decode_intensity,
        "I_decode",
        "FLOP/B",
        "{token_flops}·{batch_seqs}/({weights} + {batch_seqs}·{context_tokens}·{kv_per_token})",
        9.263905,
        aliases=("intensity",),
        related=("decode_intensity_ceiling", "ridge_flops_per_byte"),
        token_flops=PHI,
        weights=W,
        batch_seqs=32,
        context_tokens=2048,
        kv_per_token=K,
    ),
    eq(
        t.decode_intensity_ceiling,
        "I_ceiling",
        "FLOP/B",
        "{token_flops}/({context_tokens}·{kv_per_token})",
        13.03852,
        aliases=("ceiling",),
        token_flops=PHI,
        context_tokens=2048,
        kv_per_token=K,
    ),
    eq(
        t.memory_bound_context_tokens,
        "S_bound",
        "tokens",
        "{token_flops}/({kv_per_token}·{ridge})",
        178.0192,
        aliases=("memory-bound",),
        token_flops=PHI,
        kv_per_token=K,
        ridge=150.0,
    ),
    eq(
        t.windowed_memory_bound_context_tokens,
        "S_bound",
        "tokens",
        "({token_flops}/{ridge} − {window_kv_per_token}·{window_tokens})/{full_kv_per_token}"
        " above {window_tokens}, else "
        "{token_flops}/({ridge}·({full_kv_per_token} + {window_kv_per_token}))",
        # Its bytes at that context, 16,647.85625·81,920 + 1,024·425,984, are 270e9/150.
        16_647.85625,
        aliases=("windowed-memory-bound",),
        token_flops=270e9,
        full_kv_per_token=81_920,
        window_kv_per_token=425_984,
        window_tokens=1024,
        ridge=150.0,
    ),
)
