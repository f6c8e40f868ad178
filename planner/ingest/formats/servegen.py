"""Samples drawn from ServeGen's per-client rates (github.com/alibaba/ServeGen)."""

from __future__ import annotations

from planner.ingest.format import Format

FORMATS = (
    Format(
        name="servegen",
        title="ServeGen sample",
        requires=("timestamp", "input_tokens", "output_tokens", "client", "category"),
        because="columns timestamp, input_tokens, output_tokens, client, category",
        fields={
            "time": "{timestamp}",
            "input_tokens": "{input_tokens}",
            "output_tokens": "{output_tokens}",
            "class": "{category}",
            "model": "{model}",
            "tenant": "{client}",
        },
        time_base="relative",
        time_unit="s",
        assumptions=(
            (
                "timestamp counts seconds from the sample's start; a ts column holds an invented "
                "date and is not read"
            ),
            "category is taken as the workload class, client as the tenant",
            (
                "output_tokens is taken to include reasoning_tokens, input_tokens to include "
                "image_tokens"
            ),
        ),
    ),
)
