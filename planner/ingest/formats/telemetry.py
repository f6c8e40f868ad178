"""OpenTelemetry spans: the GenAI semantic conventions, and vLLM's own OTLP/JSON export."""

from __future__ import annotations

from planner.ingest.format import Format

OTLP_INT = "otlp({attributes}, '%s')"

FORMATS = (
    Format(
        name="otel-genai",
        title="OpenTelemetry GenAI spans, one a line",
        requires=("start_time", "end_time", "attributes"),
        when=lambda sample: any(
            any(str(key).startswith("gen_ai.") for key in value)
            for value in sample.values("attributes")
            if isinstance(value, dict)
        ),
        because="spans with start_time, end_time and gen_ai.* attributes",
        fields={
            "time": "{start_time}",
            "input_tokens": (
                'coalesce({attributes."gen_ai.usage.input_tokens"}, '
                '{attributes."gen_ai.usage.prompt_tokens"})'
            ),
            "output_tokens": (
                'coalesce({attributes."gen_ai.usage.output_tokens"}, '
                '{attributes."gen_ai.usage.completion_tokens"})'
            ),
            "cached_tokens": '{attributes."gen_ai.usage.cache_read.input_tokens"}',
            "ttft_s": 'num({attributes."gen_ai.response.time_to_first_chunk"})',
            "e2e_s": "epoch_s({end_time}) - epoch_s({start_time})",
            "model": '{attributes."gen_ai.request.model"}',
            "session_id": '{attributes."gen_ai.conversation.id"}',
            "status": "CASE WHEN {attributes.\"error.type\"} IS NOT NULL THEN 'error' END",
        },
        time_base="absolute",
        assumptions=(
            (
                "both generations of attribute names are read: input_tokens and prompt_tokens, "
                "output_tokens and completion_tokens"
            ),
            "cached tokens are taken as part of the input tokens",
        ),
    ),
    Format(
        name="vllm-otlp",
        title="vLLM llm_request spans, OTLP/JSON",
        requires=("resourceSpans",),
        because="an OTLP/JSON document with resourceSpans",
        records=(
            "SELECT unnest(json_extract(r, '$.resourceSpans[*].scopeSpans[*].spans[*]')) AS r "
            "FROM {rows}"
        ),
        fields={
            "time": "{startTimeUnixNano}",
            "input_tokens": OTLP_INT % "gen_ai.usage.prompt_tokens",
            "output_tokens": OTLP_INT % "gen_ai.usage.completion_tokens",
            "ttft_s": f"num({OTLP_INT % 'gen_ai.latency.time_to_first_token'})",
            "e2e_s": f"num({OTLP_INT % 'gen_ai.latency.e2e'})",
            "model": OTLP_INT % "gen_ai.response.model",
            "request_id": OTLP_INT % "gen_ai.request.id",
            "keep": f"{OTLP_INT % 'gen_ai.request.id'} IS NOT NULL",
        },
        time_base="absolute",
        time_unit="ns",
        assumptions=(
            (
                "the span starts when the engine takes the request: waiting in front of the engine "
                "is not in the times, and requests refused before it are absent"
            ),
        ),
    ),
)
