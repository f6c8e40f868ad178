"""The theory of chunked prefill: one roofline for the whole step, one function an equation.

Symbols, all SI: φ FLOPs per token (2P: multiply and add, whatever the dtype) · w weight bytes read
by a step (P × bytes per parameter; equal to 2P at 16 bit only) · k KV bytes per token · F peak
FLOP/s · W memory bandwidth in B/s · R = F/W · T prompt tokens · B sequences · S context tokens a
decode reads · C prefill tokens in a step · D decodes in a step · γ draft tokens · τ step time in s.

C is not the engine's flag: `max_num_batched_tokens` = C + D·(γ + 1).

Sources: SARATHI (arXiv:2308.16369), Sarathi-Serve (arXiv:2403.02310), DeepSpeed-FastGen
(arXiv:2401.08671), SGLang (arXiv:2312.07104), the vLLM V1 documentation on optimisation and tuning.
"""

from planner.perf.theory.cache import (
    kv_capacity_tokens,
    kv_transfer_bytes,
    preemption_flops,
    resident_sequences,
    speculative_decode_intensity,
    speculative_decode_intensity_per_accepted,
    ttft_with_prefix_cache_s,
)
from planner.perf.theory.step import (
    balance_chunk_tokens,
    budget_tokens,
    compute_s,
    largest_chunk_tokens,
    memory_floor_s,
    prefill_steps,
    step_s,
    tpot_s,
    ttft_s,
)
from planner.perf.theory.work import (
    decode_bytes,
    decode_flops,
    decode_intensity,
    decode_intensity_ceiling,
    flops_per_token,
    kv_bytes_per_token,
    kv_bytes_read_per_token,
    latent_kv_bytes_per_token,
    memory_bound_context_tokens,
    prefill_flops,
    prefill_intensity,
    prefill_intensity_limit,
    ridge_flops_per_byte,
    weight_bytes,
    windowed_memory_bound_context_tokens,
)

__all__ = [
    "balance_chunk_tokens",
    "budget_tokens",
    "compute_s",
    "decode_bytes",
    "decode_flops",
    "decode_intensity",
    "decode_intensity_ceiling",
    "flops_per_token",
    "kv_bytes_per_token",
    "kv_bytes_read_per_token",
    "kv_capacity_tokens",
    "kv_transfer_bytes",
    "largest_chunk_tokens",
    "latent_kv_bytes_per_token",
    "memory_bound_context_tokens",
    "memory_floor_s",
    "preemption_flops",
    "prefill_flops",
    "prefill_intensity",
    "prefill_intensity_limit",
    "prefill_steps",
    "resident_sequences",
    "ridge_flops_per_byte",
    "speculative_decode_intensity",
    "speculative_decode_intensity_per_accepted",
    "step_s",
    "tpot_s",
    "ttft_s",
    "ttft_with_prefix_cache_s",
    "weight_bytes",
    "windowed_memory_bound_context_tokens",
]
