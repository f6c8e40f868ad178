"""Which format is it? Content decides; `--format` overrides; a tie is an error, never a guess."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from planner.errors import InputError, Problem
from planner.ingest.format import Format, Sample
from planner.ingest.formats import FORMATS, canonical
from planner.ingest.sniff import Source

NAMES = ("canonical", *(fmt.name for fmt in FORMATS if not fmt.unusable))


def detect(source: Source, fmt: str | None) -> Format:
    """Return the format of one file.

    Raises
    ------
    InputError
        No known format matches, several do, or the recognised one cannot be planned from.
    """
    chosen = _named(source, fmt) if fmt else _detected(source)
    if chosen.unusable:
        raise InputError(
            Problem(
                message=f"recognised as {chosen.title}, but {chosen.unusable}",
                file=source.path,
                hint="if the detection is wrong, name the format with --format",
            )
        )
    if "hash_ids" in chosen.fields and not chosen.block_tokens:
        raise InputError(
            Problem(
                message="the block ids do not say how many tokens a block holds",
                file=source.path,
                hint="add a column block_tokens with that one number",
            )
        )
    return chosen


def same_format(sources: Sequence[Source], formats: Sequence[Format]) -> Format:
    """Return the one format of all files.

    Raises
    ------
    InputError
        The files have different formats: their columns and clocks do not belong together.
    """
    groups: dict[str, list[str]] = {}
    for source, fmt in zip(sources, formats, strict=True):
        groups.setdefault(_kind(fmt), []).append(source.path)
    if len(groups) > 1:
        listed = "; ".join(f"{kind}: {_some(paths)}" for kind, paths in groups.items())
        raise InputError(
            Problem(
                message=f"the files have different formats ({listed})",
                hint="plan them one by one, or convert them to the canonical columns",
            )
        )
    return formats[0]


def _kind(fmt: Format) -> str:
    unit = f", times in {fmt.time_unit}" if fmt.time_unit else ""
    blocks = f", blocks of {fmt.block_tokens} tokens" if fmt.block_tokens else ""
    return f"{fmt.name}{unit}{blocks}"


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(items[:3]) + more


def _named(source: Source, name: str) -> Format:
    wanted = name.casefold().replace("_", "-")
    if wanted == "canonical":
        built = canonical.build(source.sample)
        if built is None:
            raise InputError(_wrong_columns(source))
        return built
    fmt = next((fmt for fmt in FORMATS if fmt.name == wanted), None)
    if fmt is None:
        close = difflib.get_close_matches(wanted, NAMES, n=1)
        raise InputError(
            Problem(
                message=f"unknown format {name!r}",
                path="--format",
                hint=f"did you mean {close[0]}?" if close else f"known: {', '.join(NAMES)}",
            )
        )
    if missing := fmt.missing(source.sample):
        raise InputError(
            Problem(
                message=(
                    f"not {fmt.title}: {_plain(missing)} missing; "
                    f"found {_some_columns(source.sample)}"
                ),
                file=source.path,
                hint="leave --format out to detect it",
            )
        )
    return fmt


def _plain(paths: Sequence[str]) -> str:
    return ", ".join(path.replace('"', "") for path in paths)


def _some_columns(sample: Sample) -> str:
    more = f" and {len(sample.columns) - 12} more" if len(sample.columns) > 12 else ""
    return (", ".join(sample.columns[:12]) + more) or "no names at all"


def _detected(source: Source) -> Format:
    matching = [fmt for fmt in FORMATS if fmt.matches(source.sample)]
    if len(matching) > 1:
        raise InputError(
            Problem(
                message="the columns fit more than one format: "
                + ", ".join(f"{fmt.name} ({fmt.title})" for fmt in matching),
                file=source.path,
                hint="say which: " + " or ".join(f"--format {fmt.name}" for fmt in matching),
            )
        )
    if matching:
        return matching[0]
    built = canonical.build(source.sample)
    if built is None:
        raise InputError(_wrong_columns(source))
    return built


def _wrong_columns(source: Source) -> Problem:
    sample = source.sample
    found = canonical.recognise(sample.columns)
    missing = [name for name in canonical.NEEDED if name not in found]
    wanted = {"time": "the arrival time"}
    return Problem(
        message=(
            f"no column for {' and '.join(wanted.get(name, name) for name in missing)}; "
            f"found {_some_columns(sample)}"
        ),
        file=source.path,
        line=source.skip_lines + 1 if sample.container == "csv" else 0,
        column=1 if sample.container == "csv" else 0,
        hint=_rename_hint(sample, missing, found),
    )


def _holds_objects(values: Sequence[object]) -> bool:
    return any(isinstance(value, list) and value and isinstance(value[0], dict) for value in values)


def _rename_hint(sample: Sample, missing: Sequence[str], found: dict[str, canonical.Column]) -> str:
    taken = {column.name for column in found.values()}
    free = {canonical.normalised(name): name for name in sample.columns if name not in taken}
    hints = []
    for name in missing:
        target = "timestamp" if name == "time" else name
        for alias in canonical.ALIASES[name]:
            close = difflib.get_close_matches(alias, free, n=1, cutoff=0.75)
            if close:
                hints.append(f"is {free[close[0]]} the {target}? then rename it {target}")
                break
    hints += [
        f"are the requests inside {name}? then extract them: jq -c '.{name}[]'"
        for name in sample.columns
        if len(sample.rows) == 1
        and not sample.tabular
        and _holds_objects(sample.values(f'"{name}"'))
    ]
    hints.append("needed: timestamp (or arrival_s), input_tokens, output_tokens")
    return "; ".join(hints)
