"""What the reader runs and watches: load-test command and metric names, in the engine's own words.

Sources: vLLM `vllm/v1/metrics/loggers.py` and `vllm bench serve`; SGLang `docs/references/
production_metrics` and `sglang.bench_serving`; AIPerf `docs/benchmark-modes/trace-replay.md`; read
November 2026.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from planner.report import format as fmt
from planner.solve.plan import LoadTest, Plan

METRIC_NAMES: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv_use": "vllm:kv_cache_usage_perc",
        "preemptions": "vllm:num_preemptions_total",
        "prompt_tokens": "vllm:prompt_tokens_total",
        "prefix_hits": "vllm:prefix_cache_hits_total / vllm:prefix_cache_queries_total",
        "ttft_s": "vllm:time_to_first_token_seconds",
        "tpot_s": "vllm:request_time_per_output_token_seconds",
        "itl_s": "vllm:inter_token_latency_seconds",
        "e2e_s": "vllm:e2e_request_latency_seconds",
    },
    "sglang": {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "kv_use": "sglang:token_usage",
        "preemptions": "sglang:num_retracted_reqs",
        "prompt_tokens": "sglang:prompt_tokens_total",
        "prefix_hits": "sglang:cache_hit_rate",
        "ttft_s": "sglang:time_to_first_token_seconds",
        "tpot_s": "sglang:inter_token_latency_seconds",
        "itl_s": "sglang:inter_token_latency_seconds",
        "e2e_s": "sglang:e2e_request_latency_seconds",
    },
}


def metric_names(engine: str) -> Mapping[str, str]:
    """Return what the engine calls each quantity; empty for an engine nobody has looked up."""
    return METRIC_NAMES.get(engine, {})


def load_test_argv(plan: Plan, test: LoadTest) -> tuple[str, ...]:
    """Return the command of the constant load on one replica."""
    percentiles = sorted({row.percentile for row in plan.latency})
    rate = test.requests_per_s
    shape = (
        "--dataset-name", "random",
        "--random-input-len", str(test.input_tokens),
        "--random-output-len", str(test.output_tokens),
        "--request-rate", f"{rate:.3g}" if math.isfinite(rate) else "inf",
        "--num-prompts", str(test.prompts),
    )  # fmt: skip
    if plan.deployment.engine == "sglang":
        return (
            "python", "-m", "sglang.bench_serving", "--backend", "sglang",
            "--model", plan.deployment.model, *shape, "--random-range-ratio", "1",
        )  # fmt: skip
    return (
        "vllm", "bench", "serve", "--backend", "vllm", "--model", plan.deployment.model,
        *shape, "--ignore-eos",
        "--percentile-metrics", "ttft,tpot,itl,e2el",
        "--metric-percentiles", ",".join(fmt.percentile(p).removeprefix("p") for p in percentiles),
    )  # fmt: skip


def of_load_test(plan: Plan) -> dict[str, Any]:
    """Return what is said of the constant load beside its table."""
    rows = () if plan.load_test is None else plan.load_test.rows
    means = [row for row in rows if row.percentile is None and math.isfinite(row.expected_s)]
    slower = [
        row
        for row in plan.sensitivity
        if row.assumption == "step_time" and row.change.startswith("+")
    ]
    return {
        "steady": means[-1] if means else None,
        "slow_steps": slower[0] if slower else None,
        "beyond_limit": [
            row for row in rows if row.limit_s is not None and row.expected_s > row.limit_s
        ],
    }


def trace_replay_argv(plan: Plan) -> tuple[str, ...]:
    """Return AIPerf's command that sends a window of the trace with its own times and lengths."""
    return (
        "aiperf", "profile", "--model", plan.deployment.model, "--endpoint-type", "chat",
        "--streaming", "--url", "localhost:30000" if plan.deployment.engine == "sglang" else
        "localhost:8000", "--input-file", "window.jsonl",
        "--custom-dataset-type", "mooncake_trace", "--fixed-schedule",
        "--extra-inputs", "ignore_eos:true",
    )  # fmt: skip


def window_argv(plan: Plan) -> tuple[str, ...]:
    """Return the command that writes the trace's lines for `trace_replay_argv`."""
    words = shlex.split(plan.provenance.command)
    pairs = [pair for pair in pairwise(words) if pair[0] in ("--trace", "--format", "--time-unit")]
    return ("planner", "window", "--plan", "plan.json", *(word for pair in pairs for word in pair))


def shell(argv: tuple[str, ...], width: int = 96) -> str:
    r"""Return a command as shell text, a flag and its value together, broken before `width`.

    >>> print(shell(("vllm", "serve", "a b", "--max-num-seqs", "8"), width=24))
    vllm serve 'a b' \
      --max-num-seqs 8
    """
    groups: list[str] = []
    for word in argv:
        quoted = shlex.quote(word)
        if groups and (not word.startswith("-") or word.lstrip("-").replace(".", "").isdigit()):
            groups[-1] += f" {quoted}"
        else:
            groups.append(quoted)
    lines = [groups[0]]
    for group in groups[1:]:
        if len(lines[-1]) + len(group) + 3 > width:
            lines.append(f"  {group}")
        else:
            lines[-1] += f" {group}"
    return " \\\n".join(lines)
