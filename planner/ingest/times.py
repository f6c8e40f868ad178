"""What the arrival times are: a calendar or seconds from a start, and in which unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.errors import InputError, Problem
from planner.ingest.format import Format
from planner.ingest.sql import (
    EPOCH_RANGES,
    KIND_NAIVE,
    KIND_OFFSET,
    KIND_TYPED,
    KIND_UNIT,
    UNIT_PER_S,
    TimeReading,
)

UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
KIND_NAMES = {
    **{kind: f"{UNIT_NAMES[unit]} since 1970" for kind, unit in KIND_UNIT.items()},
    KIND_TYPED: "timestamps with a zone",
    KIND_OFFSET: "ISO 8601 text with an offset",
    KIND_NAIVE: "timestamps without a zone",
}


def decide(
    fmt: Format,
    sql_types: Sequence[str],
    samples: Sequence[Sequence[str]],
    paths: Sequence[str],
    time_unit: str | None,
) -> tuple[TimeReading, tuple[str, ...]]:
    """Decide once, for all files, how times are read; returns the reading and what it assumes.

    Raises
    ------
    InputError
        `time_unit` is unknown or does not apply, or the files keep different clocks.
    """
    unit = _declared_unit(time_unit, sql_types, samples) or fmt.time_unit
    bases = [
        _is_absolute(fmt, sql_type, sample, unit)
        for sql_type, sample in zip(sql_types, samples, strict=True)
    ]
    known = [base for base in bases if base is not None]
    if len(set(known)) > 1:
        calendar = next(path for path, base in zip(paths, bases, strict=True) if base)
        relative = next(path for path, base in zip(paths, bases, strict=True) if base is False)
        raise InputError(
            Problem(
                message=f"{calendar} has calendar times, {relative} counts from its own start",
                hint="plan them one by one: their clocks cannot be joined",
            )
        )
    if known and known[0]:
        return TimeReading(absolute=True, unit=unit), ()
    note = "all files count from the same moment: they are merged, not joined end to end"
    reading = TimeReading(absolute=False, unit=unit or "s", guessed=not unit)
    return reading, (note,) if len(paths) > 1 else ()


def _declared_unit(
    time_unit: str | None, sql_types: Sequence[str], samples: Sequence[Sequence[str]]
) -> str:
    if time_unit is None:
        return ""
    if time_unit not in UNIT_PER_S:
        raise InputError(
            Problem(
                message=f"unknown time unit {time_unit!r}",
                path="--time-unit",
                hint=f"one of {', '.join(UNIT_PER_S)}",
            )
        )
    typed = any(sql_type.startswith(("TIMESTAMP", "DATE")) for sql_type in sql_types)
    values = [value for sample in samples for value in sample]
    if typed or (values and not any(_number(value) is not None for value in values)):
        raise InputError(
            Problem(
                message="the arrival times are dates, not numbers: a unit does not apply",
                path="--time-unit",
                hint="leave --time-unit out",
            )
        )
    return time_unit


def _is_absolute(fmt: Format, sql_type: str, sample: Sequence[str], unit: str) -> bool | None:
    if fmt.time_base != "auto":
        return fmt.time_base == "absolute"
    if sql_type.startswith(("TIMESTAMP", "DATE")):
        return True
    calendar = relative = 0
    for value in sample:
        number = _number(value)
        if number is None:
            calendar += any(char.isdigit() for char in value)
        elif _in_epoch_range(number, unit):
            calendar += 1
        elif math.isfinite(number):
            relative += 1
    if calendar == relative == 0:
        return None
    return calendar >= relative


def _in_epoch_range(number: float, unit: str) -> bool:
    ranges = [EPOCH_RANGES[unit]] if unit else EPOCH_RANGES.values()
    return any(low <= number < high for low, high in ranges)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def unit_text(reading: TimeReading, kinds: Sequence[int]) -> str:
    """Say in words what the arrival times are; `kinds` occur in them, most frequent first."""
    if not reading.absolute:
        return f"{UNIT_NAMES[reading.unit]} from the start of the trace"
    return ", ".join(KIND_NAMES[kind] for kind in kinds)
