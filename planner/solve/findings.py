"""What must be said about a plan, as ids with numbers; the report holds the sentences.

FINDINGS is the contract between the two: every id with the names of its values. Units are in the
names; `*_share` are between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.solve.plan import Finding

# The fullest moment of the replay at the plan's load, and the equations' mean use in `mean_window`.
PEAK = (
    "window",
    "at",
    "peak_use_share",
    "running",
    "class_name",
    "class_requests",
    "class_input_tokens",
    "class_share",
    "kv_use_share",
    "mean_window",
)

FINDINGS: Mapping[str, tuple[str, ...]] = {
    # Decode against the ridge (theory §4.11): context above threshold 2P/(kR) is memory bound.
    "decode_memory_bound": ("context_tokens", "threshold_tokens", "decode_seqs"),
    "decode_not_memory_bound": (
        "context_tokens",
        "threshold_tokens",
        "decode_seqs",
        "crossing_seqs",  # at which decode alone reaches the ridge point
        "most_seqs",  # that run at once: slots, and what the KV cache holds
    ),
    # The chosen chunk against C* (§4.1); step_ratio = calibrated step at chosen / at C*.
    "below_balance_point": ("chosen_tokens", "balance_tokens", "step_ratio"),
    "above_balance_point": ("chosen_tokens", "balance_tokens", "step_ratio"),
    "no_free_chunk": ("decode_seqs", "balance_tokens"),  # C* ≤ 0: decodes alone fill compute
    # Whether chunking pays here (§4.4).
    "chunking_matters": (
        "one_step_share",
        "unchunked_gap_s",
        "chosen_gap_s",
        "longest_prompt_tokens",
    ),
    "chunking_does_not_matter": ("one_step_share", "chosen_tokens", "longest_prompt_tokens"),
    "no_decodes_to_protect": ("decode_seqs", "mixed_share"),
    "chunk_interval_empty": ("low_tokens", "high_tokens"),
    # C counts prefill only; the flag is C + D (§1, §4.7).
    "budget_counts_tokens": ("chosen_tokens", "decode_seqs", "flag_tokens"),
    "context_used_vs_2048": ("context_tokens", "balance_tokens", "balance_at_2048_tokens"),
    "best_measured_chunk_below_analytic": ("balance_tokens", "largest_graph_tokens"),
    # Memory and concurrency (§4.3, §4.5, §4.6, §4.8).
    "kv_caps_concurrency": ("resident_seqs", "wanted_seqs", "max_num_seqs", "window", "block_s"),
    "slots_cap_concurrency": ("max_num_seqs", "wanted_seqs", "window", "block_s"),
    # The equations' mean use, or where the replay preempts first.
    "preemption_near": (
        "load_factor",
        "kv_use_share",
        "window",
        "probability_share",
        "recompute_s",
    ),
    "preemption_far": (
        "load_factor",
        "kv_use_share",
        "window",
        "probability_share",
        "recompute_s",
    ),
    "first_preemption": (
        "without_factor",
        "with_factor",
        *PEAK,
        "preemptions",
        "first_limit",  # "kv_cache", "both" or "latency": what ends first as the load grows
        "targets_factor",
        "recompute_s",
    ),
    "no_preemption_replayed": (
        "without_factor",
        *PEAK,
        "targets_factor",
        "recompute_s",
    ),
    "utilization_fixes_slots": (
        "gpu_memory_utilization",
        "kv_tokens",
        "resident_at_mean",
        "max_num_seqs",
    ),
    "budget_is_memory_knob": ("activation_bytes", "kv_tokens", "kv_tokens_at_half_budget"),
    "sampler_sets_activation": (
        "activation_bytes",
        "max_num_seqs",
        "kv_tokens",
        "kv_tokens_at_half_seqs",
        "source_at_half_seqs",
    ),
    "visible_memory_unknown": ("visible_bytes",),
    "max_model_len_trimmed": ("model_max_tokens", "max_model_len"),
    "long_prompts_over_limit": ("requests", "max_model_len", "longest_tokens"),
    # What binds and the surge.
    "target_nearest": ("class_name", "metric", "percentile", "worst_s", "limit_s", "window"),
    # An idle replica already uses most of the limit: a little more load or length breaks it.
    "target_near_floor": (
        "class_name",
        "metric",
        "percentile",
        "idle_s",
        "slow_idle_s",
        "limit_s",
    ),
    "smaller_replica_too_slow": (
        "class_name",
        "metric",
        "percentile",
        "tensor_parallel_size",
        "idle_s",
        "limit_s",
    ),
    "surge_decides": (
        "mean_prompt_tokens_per_s",
        "busiest_10min_prompt_tokens_per_s",
        "busiest_minute_prompt_tokens_per_s",
        "mean_requests_per_s",
        "even_capacity_requests_per_s",
        "headroom_share",
        "replicas_for_mean",
        "replicas",
    ),
    "surge_does_not_decide": (
        "mean_prompt_tokens_per_s",
        "busiest_10min_prompt_tokens_per_s",
        "busiest_minute_prompt_tokens_per_s",
    ),
    "knife_edge": (
        "max_num_batched_tokens",
        "step_s",
        "supply_tokens_per_s",
        "low_supply_tokens_per_s",
        "high_supply_tokens_per_s",
        "demand_tokens_per_s",
        "fast_end",
        "launch_s",
    ),
    "budget_overloads": ("max_num_batched_tokens", "supply_tokens_per_s", "demand_tokens_per_s"),
    "one_replica_lost": (
        "class_name",
        "metric",
        "percentile",
        "limit_s",
        "attainment_share",
        "replicas",
    ),
    "node_holds_replicas": ("gpus_per_node", "replicas_per_node", "replicas", "spare"),
    "single_replica": ("replicas",),
    # Traffic portraits (§3) and interference.
    "long_prompt_low_concurrency": ("class_name", "mean_input_tokens", "mean_output_tokens"),
    "short_prompt_high_concurrency": ("class_name", "mean_input_tokens", "mean_output_tokens"),
    "mixed_burst": ("peak_to_mean_1min", "gap_cv"),
    "mixed_class_interference": ("long_class", "short_class", "long_prompt_tokens", "gap_s"),
    # What the answer rests on.
    "prefix_cache_assumption": ("reusable_share", "used_share", "replicas"),
    "prefix_reuse_unknown": (),
    "sessions_may_reuse": ("sessions",),
    "replay_pending": (),
    "verified": (
        "requests",
        "simulated_replicas",
        "replicas",
        "preemptions",
        "screen_ratio",
    ),
    "load_test_decides": ("low_tokens", "chosen_tokens", "high_tokens", "half_tokens"),
    "published_gains_are_evidence": (),
    "sampling_thins_bursts": (
        "sample_rate",
        "load_factor",
        "raw_10min_tokens_per_s",
        "raw_minute_tokens_per_s",
        "raw_10min_use_share",
        "raw_minute_use_share",
    ),
    "few_requests_windows_merged": ("class_name", "requests", "windows"),
    "quantised_timestamps": ("quantum_s",),
    "short_trace": ("span_s",),
    "unvalidated_range": ("gpu", "band_share"),
    "price_unknown": ("gpu",),
    "class_without_target": ("class_name", "requests"),
}


def finding(name: str, /, **values: float | int | str) -> Finding:
    """Return a finding; its values must be exactly those that FINDINGS documents.

    >>> finding("replay_pending").id
    'replay_pending'
    """
    expected = FINDINGS[name]
    if set(values) != set(expected):
        raise ValueError(f"finding {name} needs {sorted(expected)}, got {sorted(values)}")
    return Finding(id=name, values=values)
