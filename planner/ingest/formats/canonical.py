"""The planner's own columns, and the usual other names for them.

A file is canonical when it has an arrival time, input tokens and output tokens under any of these
names. The first name of each list is the canonical one; every other name that is used is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from planner.ingest.format import Format, Sample
from planner.ingest.formats.hashed import prompt_blocks
from planner.resources import resource_dir


def _aliases() -> Mapping[str, tuple[str, ...]]:
    """Read every name of every canonical column from the schema, the canonical one first."""
    text = (resource_dir("schemas") / "trace.schema.json").read_text(encoding="utf-8")
    columns = json.loads(text)["properties"]
    return {
        "time" if name == "timestamp" else name: (name, *column["x-aliases"])
        for name, column in columns.items()
    }


ALIASES = _aliases()
NEEDED = ("time", "input_tokens", "output_tokens")
BLOCK_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
UNUSUAL = frozenset('"{}')  # characters that a path to a column cannot hold
LATENCIES = ("ttft_s", "e2e_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the file that was recognised as a canonical one."""

    name: str  # as the file writes it
    canonical: bool  # under its canonical name
    unit: str  # of a time or latency; "" where the name does not say
    unused: tuple[str, ...] = ()  # other columns of the file with a name for the same thing


def normalised(name: str) -> str:
    """Fold spelling: case, spaces, dots, camelCase.

    >>> normalised("Prompt Tokens"), normalised("ContextTokens"), normalised("input.tokens")
    ('prompt_tokens', 'context_tokens', 'input_tokens')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", words.casefold()).strip("_")


def recognise(columns: tuple[str, ...]) -> dict[str, Column]:
    """Map canonical columns to the file's columns; the earliest known name wins."""
    by_name: dict[str, str] = {}
    for column in columns:
        if not UNUSUAL & set(column):
            by_name.setdefault(normalised(column), column)
    found = {}
    for canonical, names in ALIASES.items():
        known = [name for name in names if name in by_name]
        if known:
            chosen = known[0]
            suffix = re.search(r"_(s|ms|us|ns)$", chosen)
            found[canonical] = Column(
                name=by_name[chosen],
                canonical=by_name[chosen] in (names[0], "arrival_s"),
                unit=suffix.group(1) if suffix else "",
                unused=tuple(by_name[name] for name in known[1:]),
            )
    return found


def build(sample: Sample) -> Format | None:
    """Return the format of a file with canonical or commonly named columns, None if any lacks."""
    found = recognise(sample.columns)
    if any(name not in found for name in NEEDED):
        return None
    fields = {
        name: _expression(name, column) for name, column in found.items() if name != "block_tokens"
    }
    renamed = [
        f"column {column.name} is read as {name if name != 'time' else 'the arrival time'}"
        for name, column in found.items()
        if not column.canonical
    ]
    block_tokens, block_note = _block_tokens(sample, found)
    notes = (*renamed, *_assumptions(found), *([block_note] if block_note else []))
    return Format(
        name="canonical",
        title="one row a request, columns named",
        requires=(),
        because="columns " + ", ".join(found[name].name for name in NEEDED),
        fields=fields,
        time_unit=found["time"].unit,
        block_tokens=block_tokens,
        assumptions=notes,
    )


def _expression(name: str, column: Column) -> str:
    source = '{"' + column.name + '"}'
    if name in LATENCIES and column.unit == "ms":
        return f"num({source}) / 1000"
    return source


def _assumptions(found: Mapping[str, Column]) -> tuple[str, ...]:
    notes = [
        f"{column.name} is read, {', '.join(column.unused)} not: both could be the {name}"
        for name, column in found.items()
        if column.unused
    ]
    if "hash_ids" not in found and "cached_tokens" in found:
        notes.append(
            "cached tokens are taken as part of the input tokens, as the log measured them"
        )
    if "hash_ids" in found and "cached_tokens" in found:
        notes.append("cached tokens are computed from the block ids; the log's own are not used")
    return tuple(notes)


def _block_tokens(sample: Sample, found: Mapping[str, Column]) -> tuple[int, str]:
    """Return the size of a block and how it is known; 0 where it is not."""
    if "hash_ids" not in found:
        return 0, ""
    if "block_tokens" in found:
        column = found["block_tokens"].name
        sizes = {str(value).removesuffix(".0") for value in sample.values(f'"{column}"')}
        if len(sizes) == 1 and (size := sizes.pop()).isdigit() and int(size) > 0:
            return int(size), ""
        return 0, ""
    prompts = prompt_blocks(
        sample, f'"{found["input_tokens"].name}"', f'"{found["hash_ids"].name}"'
    )
    fitting = [
        size
        for size in BLOCK_SIZES
        if prompts and all(ids == -(-length // size) for length, ids in prompts)
    ]
    if len(fitting) != 1:
        return 0, ""
    return fitting[0], f"a block id stands for {fitting[0]} tokens: the only usual size that fits"
