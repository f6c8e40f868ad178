"""Formats that are recognised only to say why no plan can be made from them, and what to use."""

from __future__ import annotations

from planner.ingest.format import Format

NO_TOKENS = "it holds no token counts, and bytes are no substitute (±25–30 %)"
NO_TIMES = "it holds no arrival times"

FORMATS = (
    Format(
        name="lengths-only",
        title="table of prompt and output lengths",
        requires=("num_prefill_tokens", "num_decode_tokens"),
        forbids=("arrived_at", "timestamp", "arrival_s", "arrival_time", "time"),
        unusable=f"{NO_TIMES}: lengths alone do not say how many requests a second to plan for",
    ),
    Format(
        name="sglang-bench",
        title="SGLang bench_serving result",
        requires=("input_lens", "output_lens"),
        forbids=("start_times",),
        unusable=f"{NO_TIMES}; use the log of the service itself",
    ),
    Format(
        name="sglang-metrics",
        title="SGLang --export-metrics-to-file log",
        requires=("request_parameters", "prompt_tokens", "completion_tokens", "e2e_latency"),
        unusable=f"{NO_TIMES} (only the hour in the file's name); use the gateway's log",
    ),
    Format(
        name="nginx",
        title="NGINX JSON access log",
        requires=("msec", "request_time", "upstream_response_time"),
        unusable=f"{NO_TOKENS}; log usage at the gateway or the engine",
    ),
    Format(
        name="azure-openai-diagnostics",
        title="Azure OpenAI diagnostic log",
        requires=("operationName", "durationMs", "properties"),
        unusable=f"{NO_TOKENS}; export the usage of each response instead",
    ),
    Format(
        name="trtllm-perf-metrics",
        title="TensorRT-LLM perf_metrics",
        requires=("perf_metrics.timing_metrics", "request_id"),
        unusable="it holds no token counts; join it with the usage of each response",
    ),
    Format(
        name="genai-perf",
        title="genai-perf profile_export.json",
        requires=("experiments", "service_kind"),
        unusable="it holds no token counts; use AIPerf's profile_export.jsonl",
    ),
    Format(
        name="openai-usage",
        title="OpenAI usage API page",
        requires=("object", "data"),
        when=lambda sample: "page" in sample.values("object"),
        unusable="one row sums many requests: neither arrivals nor lengths can be recovered; use a "
        "log with one row a request",
    ),
)
