"""Logs of gateways and observers: LiteLLM, Langfuse, Helicone, Kong, Envoy, OpenRouter, Portkey."""

from __future__ import annotations

from planner.ingest.format import Format

CACHED_INCLUDED = "cached tokens are taken as part of the input tokens"
ZERO_IS_UNKNOWN = "0 output tokens may mean a cancelled or unlogged stream: those rows are not used"
OLD_LOCAL_TIME = "rows written before February 2025 may hold local time, not the UTC assumed here"

FORMATS = (
    Format(
        name="litellm",
        title="LiteLLM SpendLogs",
        requires=("request_id", "call_type", "prompt_tokens", "completion_tokens", "startTime"),
        because="columns request_id, call_type, prompt_tokens, completion_tokens, startTime",
        fields={
            "time": "{startTime}",
            "input_tokens": "{prompt_tokens}",
            "output_tokens": "{completion_tokens}",
            "cached_tokens": (
                "CASE WHEN json_valid({metadata}) THEN json_extract_string({metadata}, "
                "'$.usage_object.prompt_tokens_details.cached_tokens') END"
            ),
            "ttft_s": "epoch_s({completionStartTime}) - epoch_s({startTime})",
            "e2e_s": "epoch_s({endTime}) - epoch_s({startTime})",
            "model": "coalesce({model_group}, {model})",
            "tenant": "coalesce({team_id}, {user})",
            "session_id": "{session_id}",
            "request_id": "{request_id}",
            "status": "{status}",
        },
        time_base="absolute",
        assumptions=(
            CACHED_INCLUDED,
            ZERO_IS_UNKNOWN,
            "every retry is a request of its own",
            OLD_LOCAL_TIME,
        ),
    ),
    Format(
        name="langfuse",
        title="Langfuse observations",
        requires=("traceId", "type", "startTime", "usageDetails"),
        because="keys traceId, type, startTime, usageDetails",
        fields={
            "time": "{startTime}",
            "input_tokens": "coalesce({promptTokens}, {usageDetails.input})",
            "output_tokens": "coalesce({completionTokens}, {usageDetails.output})",
            "cached_tokens": "coalesce({usageDetails.input_cached_tokens}, '0')",
            "ttft_s": "num({timeToFirstToken})",
            "e2e_s": "num({latency})",
            "model": "{model}",
            "session_id": "coalesce({sessionId}, {traceId})",
            "request_id": "{id}",
            "status": "CASE WHEN {level} = 'ERROR' THEN 'error' END",
            "keep": "{type} = 'GENERATION'",
        },
        time_base="absolute",
        assumptions=(
            "promptTokens (all input, cached included) is used, not usageDetails.input (uncached)",
            "no cached-token key in usageDetails means no cache hit",
            "a trace without sessionId is taken as one session",
            ZERO_IS_UNKNOWN,
        ),
    ),
    Format(
        name="helicone",
        title="Helicone requests",
        requires=("request_created_at", "response_status", "prompt_tokens", "completion_tokens"),
        because="keys request_created_at, response_status, prompt_tokens, completion_tokens",
        fields={
            "time": "{request_created_at}",
            "input_tokens": "{prompt_tokens}",
            "output_tokens": "{completion_tokens}",
            "cached_tokens": "{prompt_cache_read_tokens}",
            "ttft_s": "num({time_to_first_token}) / 1000",
            "e2e_s": "num(coalesce({delay_ms}, {latency})) / 1000",
            "model": "{request_model}",
            "tenant": "{request_user_id}",
            "session_id": '{request_properties."Helicone-Session-Id"}',
            "request_id": "{request_id}",
            "status": (
                "CASE WHEN num({response_status}) < 0 THEN 'cancelled' ELSE {response_status} END"
            ),
        },
        time_base="absolute",
        assumptions=(CACHED_INCLUDED, "negative response_status is taken as cancelled"),
    ),
    Format(
        name="kong",
        title="Kong AI gateway log",
        requires=("started_at", "ai", "latencies.request"),
        because="keys started_at, ai, latencies.request",
        records=(
            "SELECT json_object('log', r, 'ai', json_extract(r->'$.ai', '$.*')[1]) AS r FROM {rows}"
        ),
        fields={
            "time": "{log.started_at}",
            "input_tokens": "{ai.usage.prompt_tokens}",
            "output_tokens": "{ai.usage.completion_tokens}",
            "e2e_s": "num({log.latencies.request}) / 1000",
            "model": "{ai.meta.request_model}",
            "tenant": "{log.consumer.username}",
            "request_id": "{log.request.id}",
            "status": "{log.response.status}",
        },
        time_base="absolute",
        time_unit="ms",
        assumptions=(
            (
                "completion_tokens may be the gateway's estimate (characters / 4) where a stream "
                "reports no usage"
            ),
            ZERO_IS_UNKNOWN,
        ),
    ),
    Format(
        name="envoy",
        title="Envoy AI Gateway access log",
        requires=("start_time", "response_code", '"gen_ai.usage.output_tokens"'),
        because="keys start_time, response_code, gen_ai.usage.output_tokens",
        fields={
            "time": "{start_time}",
            "input_tokens": '{"gen_ai.usage.input_tokens"}',
            "output_tokens": '{"gen_ai.usage.output_tokens"}',
            "e2e_s": "num({duration}) / 1000",
            "model": '{"gen_ai.request.model"}',
            "request_id": '{"x-request-id"}',
            "status": "CASE WHEN {response_flags} = 'DC' THEN 'cancelled' ELSE {response_code} END",
        },
        time_base="absolute",
        assumptions=("duration is taken as e2e_s; x-envoy-upstream-service-time is no TTFT",),
    ),
    Format(
        name="openrouter",
        title="OpenRouter activity export",
        requires=("generation_id", "created_at", "tokens_prompt", "tokens_completion"),
        because="columns generation_id, created_at, tokens_prompt, tokens_completion",
        fields={
            "time": "{created_at}",
            "input_tokens": "{tokens_prompt}",
            "output_tokens": "{tokens_completion}",
            "cached_tokens": "{tokens_cached}",
            "ttft_s": "num({time_to_first_token_ms}) / 1000",
            "e2e_s": "num({generation_time_ms}) / 1000",
            "model": "{model_permaslug}",
            "tenant": "{api_key_name}",
            "request_id": "{generation_id}",
            "status": "CASE WHEN {cancelled} = 'true' THEN 'cancelled' END",
        },
        time_base="absolute",
        assumptions=(
            CACHED_INCLUDED,
            "token counts are OpenRouter's normalised counts, not the model's own tokenizer's",
            "failed requests are absent from this export",
        ),
    ),
    Format(
        name="portkey",
        title="Portkey log export",
        requires=("created_at", "req_units", "res_units"),
        because="keys created_at, req_units, res_units",
        fields={
            "time": "{created_at}",
            "input_tokens": "{req_units}",
            "output_tokens": "{res_units}",
            "e2e_s": "num({response_time}) / 1000",
            "model": "{ai_model}",
            "tenant": "{metadata._user}",
            "session_id": "{trace_id}",
            "request_id": "{id}",
            "status": "coalesce({response_status_code}, {is_success})",
        },
        time_base="absolute",
        assumptions=("req_units and res_units are taken as tokens", ZERO_IS_UNKNOWN),
    ),
)
