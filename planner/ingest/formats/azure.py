"""Azure's public LLM inference traces (github.com/Azure/AzurePublicDataset).

2023: naive wall clock with seven fractional digits. 2024: an offset, no fraction where it is zero.
2025, multimodal: a count of images beside the tokens.
"""

from __future__ import annotations

import re

from planner.ingest.format import Format, Sample

OFFSET = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")
NAMES = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
FIELDS = {
    "time": "{TIMESTAMP}",
    "input_tokens": "{ContextTokens}",
    "output_tokens": "{GeneratedTokens}",
}
NO_PREFIX = "the trace has no prefix or cached-token information: no prefix cache hits are assumed"


def _has_offset(sample: Sample) -> bool:
    return any(OFFSET.search(str(value)) for value in sample.values("TIMESTAMP")[:5])


FORMATS = (
    Format(
        name="azure-2023",
        title="Azure LLM inference trace 2023",
        requires=NAMES,
        forbids=("NumImages",),
        when=lambda sample: not _has_offset(sample),
        because="columns TIMESTAMP, ContextTokens, GeneratedTokens and times without an offset",
        fields=FIELDS,
        time_base="absolute",
        assumptions=(NO_PREFIX,),
    ),
    Format(
        name="azure-2024",
        title="Azure LLM inference trace 2024",
        requires=NAMES,
        forbids=("NumImages",),
        when=_has_offset,
        because="columns TIMESTAMP, ContextTokens, GeneratedTokens and times with an offset",
        fields=FIELDS,
        time_base="absolute",
        assumptions=(NO_PREFIX,),
    ),
    Format(
        name="azure-multimodal",
        title="Azure multimodal inference trace 2025",
        requires=(*NAMES, "NumImages"),
        because="columns TIMESTAMP, NumImages, ContextTokens, GeneratedTokens",
        fields=FIELDS,
        time_base="absolute",
        assumptions=(
            NO_PREFIX,
            "NumImages is not used: ContextTokens is taken as the whole prompt, images included",
        ),
    ),
)
