"""Traces whose prompts are lists of hashed prefix blocks: Mooncake and Qwen-Bailian.

Both say `timestamp`, `input_length`, `output_length`, `hash_ids`. Mooncake (kvcache-ai/Mooncake)
means milliseconds and blocks of 512 tokens, Qwen-Bailian
(alibaba-edu/qwen-bailian-usagetraces-anon) seconds and blocks of 16. How many ids a prompt of known
length has tells them apart.
"""

from __future__ import annotations

from planner.ingest.format import Format, Sample

NAMES = ("timestamp", "input_length", "output_length", "hash_ids")
FIELDS = {
    "time": "{timestamp}",
    "input_tokens": "{input_length}",
    "output_tokens": "{output_length}",
    "hash_ids": "{hash_ids}",
}
MOONCAKE_BLOCK = 512
BAILIAN_BLOCK = 16
TURNS = ("chat_id", "parent_chat_id")
ORDER = "requests with equal times are taken in file order: each sees the prefixes of those before"


def blocks_fit(sample: Sample, block_tokens: int) -> bool:
    """Say whether every sampled prompt has as many ids as blocks of `block_tokens` (±1)."""
    prompts = prompt_blocks(sample, "input_length", "hash_ids")
    return bool(prompts) and all(
        abs(ids - -(-length // block_tokens)) <= 1 for length, ids in prompts
    )


def prompt_blocks(sample: Sample, length_path: str, ids_path: str) -> list[tuple[int, int]]:
    """Return (prompt tokens, number of block ids) of the sampled rows that have both."""
    lengths, ids = sample.values(length_path), sample.values(ids_path)
    if len(lengths) != len(ids):
        return []
    pairs = [(_whole(length), _count(value)) for length, value in zip(lengths, ids, strict=True)]
    return [(length, count) for length, count in pairs if length > 0 and count > 0]


def _whole(value: object) -> int:
    try:
        return int(float(str(value).replace(",", "")))
    except (ValueError, OverflowError):
        return 0


def _count(value: object) -> int:
    if isinstance(value, str):
        inside = value.strip().strip("[]").strip()
        return inside.count(",") + 1 if inside else 0
    return len(value) if isinstance(value, list) else 0


FORMATS = (
    Format(
        name="mooncake",
        title="Mooncake",
        requires=NAMES,
        forbids=TURNS,
        when=lambda sample: (
            blocks_fit(sample, MOONCAKE_BLOCK) or not blocks_fit(sample, BAILIAN_BLOCK)
        ),
        because="keys timestamp, input_length, output_length, hash_ids with one id per 512 tokens",
        fields=FIELDS,
        time_base="relative",
        time_unit="ms",
        block_tokens=MOONCAKE_BLOCK,
        assumptions=(ORDER,),
    ),
    Format(
        name="qwen-bailian",
        title="Qwen-Bailian usage trace",
        requires=NAMES,
        when=lambda sample: (
            all(sample.has(name) for name in TURNS)
            or blocks_fit(sample, BAILIAN_BLOCK)
            or not blocks_fit(sample, MOONCAKE_BLOCK)
        ),
        because="keys timestamp, input_length, output_length, hash_ids with one id per 16 tokens",
        fields={
            **FIELDS,
            "class": "{type}",
            "chat_id": "{chat_id}",
            "parent_chat_id": "{parent_chat_id}",
        },
        time_base="relative",
        time_unit="s",
        block_tokens=BAILIAN_BLOCK,
        assumptions=(
            ORDER,
            "type is taken as the workload class",
            "a session is a chat and every chat that names it, or a follower of it, as parent",
        ),
    ),
)
