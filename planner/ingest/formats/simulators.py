"""Inputs of published serving simulators: Vidur, splitwise-sim, LLMServingSim, AIBrix."""

from __future__ import annotations

from planner.ingest.format import Format

FORMATS = (
    Format(
        name="vidur",
        title="Vidur trace",
        requires=("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
        because="columns arrived_at, num_prefill_tokens, num_decode_tokens",
        fields={
            "time": "{arrived_at}",
            "input_tokens": "{num_prefill_tokens}",
            "output_tokens": "{num_decode_tokens}",
        },
        time_base="relative",
        time_unit="s",
    ),
    Format(
        name="splitwise-sim",
        title="splitwise-sim trace",
        requires=("request_id", "arrival_timestamp", "prompt_size", "token_size"),
        because="columns request_id, arrival_timestamp, prompt_size, token_size",
        fields={
            "time": "{arrival_timestamp}",
            "input_tokens": "{prompt_size}",
            "output_tokens": "{token_size}",
            "request_id": "{request_id}",
        },
        time_base="relative",
        time_unit="s",
    ),
    Format(
        name="llmservingsim",
        title="LLMServingSim trace",
        requires=("input_toks", "output_toks", "arrival_time_ns"),
        because="keys input_toks, output_toks, arrival_time_ns",
        fields={
            "time": "{arrival_time_ns}",
            "input_tokens": "{input_toks}",
            "output_tokens": "{output_toks}",
        },
        time_base="relative",
        time_unit="ns",
    ),
    Format(
        name="aibrix",
        title="AIBrix workload",
        requires=("timestamp", "requests"),
        when=lambda sample: any(
            isinstance(value, list) and value and "Prompt Length" in value[0]
            for value in sample.values("requests")
        ),
        because="lines with a timestamp and several requests with Prompt Length, Output Length",
        records=(
            "SELECT json_object('t', r->'$.timestamp', 'q', "
            "unnest(json_extract(r, '$.requests[*]'))) AS r FROM {rows}"
        ),
        fields={
            "time": "{t}",
            "input_tokens": '{q."Prompt Length"}',
            "output_tokens": '{q."Output Length"}',
        },
        time_base="relative",
        time_unit="ms",
    ),
)
