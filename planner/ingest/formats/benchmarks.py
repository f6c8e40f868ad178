"""Results of load generators, whose arrivals are the generator's and not the users'."""

from __future__ import annotations

from planner.ingest.format import Format

GENERATED = "arrivals come from a load generator: they say what was sent, not what users would send"

FORMATS = (
    Format(
        name="aiperf",
        title="AIPerf profile_export.jsonl",
        requires=("metadata.request_start_ns", "metrics"),
        because="records with metadata.request_start_ns and metrics",
        fields={
            "time": "{metadata.request_start_ns}",
            "input_tokens": (
                "coalesce({metrics.input_sequence_length.value}, {metrics.error_isl.value})"
            ),
            "output_tokens": "{metrics.output_sequence_length.value}",
            "ttft_s": (
                "num({metrics.time_to_first_token.value}) / "
                "CASE {metrics.time_to_first_token.unit} WHEN 'ms' THEN 1e3 WHEN 'us' THEN 1e6 "
                "WHEN 'ns' THEN 1e9 ELSE 1 END"
            ),
            "e2e_s": (
                "num({metrics.request_latency.value}) / "
                "CASE {metrics.request_latency.unit} WHEN 'ms' THEN 1e3 WHEN 'us' THEN 1e6 "
                "WHEN 'ns' THEN 1e9 ELSE 1 END"
            ),
            "session_id": "{metadata.conversation_id}",
            "request_id": "{metadata.x_request_id}",
            "status": (
                "CASE WHEN {metadata.was_cancelled} = 'true' THEN 'cancelled' "
                "WHEN {error} IS NOT NULL THEN 'error' END"
            ),
        },
        time_base="absolute",
        time_unit="ns",
        assumptions=(GENERATED, "warm-up requests are kept: they are load too"),
    ),
    Format(
        name="inference-perf",
        title="inference-perf per-request lifecycle metrics",
        requires=("start_time", "end_time", "info.request_metrics"),
        because="records with start_time, end_time and info.request_metrics",
        fields={
            "time": "{start_time}",
            "input_tokens": (
                "coalesce({info.request_metrics.text.input_tokens}, {info.input_tokens})"
            ),
            "output_tokens": (
                "coalesce({info.response_metrics.output_tokens}, {info.output_tokens})"
            ),
            "cached_tokens": (
                "{info.response_metrics.server_usage.prompt_tokens_details.cached_tokens}"
            ),
            "e2e_s": "num({end_time}) - num({start_time})",
            "session_id": "{session_id}",
            "status": "CASE WHEN {error} IS NOT NULL THEN 'error' END",
        },
        time_base="relative",
        time_unit="s",
        assumptions=(GENERATED, "start_time has an arbitrary origin: only differences are used"),
    ),
    Format(
        name="vllm-bench",
        title="vllm bench serve result with --save-detailed",
        requires=("input_lens", "output_lens", "start_times"),
        because="parallel arrays input_lens, output_lens, start_times",
        records=(
            "SELECT json_object('t', t, 'i', i, 'o', o, 'ttft', f, 'error', e, 'model', m) AS r "
            "FROM (SELECT unnest(json_extract(r, '$.start_times[*]')) AS t, "
            "unnest(json_extract(r, '$.input_lens[*]')) AS i, "
            "unnest(json_extract(r, '$.output_lens[*]')) AS o, "
            "unnest(json_extract(r, '$.ttfts[*]')) AS f, "
            "unnest(json_extract(r, '$.errors[*]')) AS e, r->>'$.model_id' AS m FROM {rows})"
        ),
        fields={
            "time": "{t}",
            "input_tokens": "{i}",
            "output_tokens": "{o}",
            "ttft_s": "CASE WHEN {o} <> '0' THEN num({ttft}) END",
            "model": "{model}",
            "status": "CASE WHEN {error} <> '' THEN 'error' END",
        },
        time_base="relative",
        time_unit="s",
        assumptions=(GENERATED, "start_times have an arbitrary origin: only differences are used"),
    ),
)
