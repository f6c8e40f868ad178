"""Why a row is left out or marked: every name that a report can show.

null, 0 and −1 are three different things, so each has its own name. `arrived` says that the row is
a request that did arrive, though its tokens cannot be used: the demand lacks those requests.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_TOKENS = 10_000_000  # no model's context comes near; larger counts are corruption


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason for leaving a row out. `code` travels through SQL."""

    code: int
    name: str
    meaning: str
    arrived: bool = False


_TOKEN_REASONS = (
    ("missing", "has no {column}", True),
    ("minus_one", "has {column} = -1, the mark of an unmeasured value", True),
    ("negative", "has a negative number as {column}", False),
    ("not_a_number", "has something that is not a number as {column}", False),
    ("not_finite", "has NaN or infinity as {column}", False),
    ("fractional", "has a number that is not whole as {column}", False),
    ("absurd", f"has more than {MAX_TOKENS:,} {{column}}", False),
)
INPUT_BASE = 20
OUTPUT_BASE = 40
MISSING, MINUS_ONE, NEGATIVE, NOT_A_NUMBER, NOT_FINITE, FRACTIONAL, ABSURD, ZERO = range(1, 9)

NOT_A_REQUEST = 1
TIME_MISSING = 2
TIME_UNPARSABLE = 3
TIME_NOT_FINITE = 4
TIME_OUT_OF_RANGE = 5
TIME_NEGATIVE = 6
FAILED = 7
CANCELLED = 8
NO_CLASS = 9
DUPLICATE = 10
WRONG_COLUMN_COUNT = 11
CUT_LAST_LINE = 12
INVALID_RECORD = 13
BROKEN_LINE = 14


def _token_reasons(base: int, column: str) -> tuple[Reason, ...]:
    return tuple(
        Reason(
            code=base + offset,
            name=f"{column}_{name}",
            meaning=meaning.format(column=column),
            arrived=arrived,
        )
        for offset, (name, meaning, arrived) in enumerate(_TOKEN_REASONS, start=1)
    )


REASONS: dict[int, Reason] = {
    reason.code: reason
    for reason in (
        Reason(code=NOT_A_REQUEST, name="not_a_request", meaning="is not a request to a model"),
        Reason(code=TIME_MISSING, name="time_missing", meaning="has no arrival time"),
        Reason(
            code=TIME_UNPARSABLE,
            name="time_unparsable",
            meaning="has an arrival time that cannot be read",
        ),
        Reason(
            code=TIME_NOT_FINITE,
            name="time_not_finite",
            meaning="has NaN or infinity as arrival time",
        ),
        Reason(
            code=TIME_OUT_OF_RANGE,
            name="time_out_of_range",
            meaning=(
                "arrived outside the years 2000 to 2099 (0 is the usual stand-in) or more than ten "
                "years after the start"
            ),
        ),
        Reason(
            code=TIME_NEGATIVE,
            name="time_negative",
            meaning="has a negative time where times count from the trace's start",
        ),
        Reason(
            code=FAILED,
            name="failed",
            meaning="failed by its own status and produced nothing",
            arrived=True,
        ),
        Reason(
            code=CANCELLED,
            name="output_unknown_cancelled",
            meaning="was cancelled and has no output count (none, 0 or -1): unknown, not zero",
            arrived=True,
        ),
        Reason(code=NO_CLASS, name="no_class", meaning="matches no workload class", arrived=True),
        Reason(
            code=DUPLICATE,
            name="duplicate",
            meaning="repeats an earlier row in every column read",
        ),
        Reason(
            code=WRONG_COLUMN_COUNT,
            name="wrong_column_count",
            meaning="has more or fewer columns than the header",
        ),
        Reason(code=CUT_LAST_LINE, name="cut_last_line", meaning="is the file's last line, cut"),
        Reason(code=INVALID_RECORD, name="invalid_json", meaning="is not valid JSON"),
        Reason(
            code=BROKEN_LINE,
            name="broken_line",
            meaning="cannot be split into columns (quotes or encoding)",
        ),
        *_token_reasons(INPUT_BASE, "input_tokens"),
        Reason(
            code=INPUT_BASE + ZERO,
            name="input_tokens_zero",
            meaning="has input_tokens = 0",
            arrived=True,
        ),
        *_token_reasons(OUTPUT_BASE, "output_tokens"),
        Reason(
            code=OUTPUT_BASE + ZERO,
            name="output_tokens_zero",
            meaning="has output_tokens = 0: failed, or a stream whose usage was not logged",
            arrived=True,
        ),
    )
}

# Marks on rows that are kept, one bit each.
FLAG_THOUSANDS = 1
FLAG_DECIMAL_POINT = 2
FLAG_CACHED_UNKNOWN = 4
FLAG_LATENCY_INVALID = 8
FLAG_INCOMPLETE = 16
FLAG_BLOCK_COUNT = 32

FLAGS: dict[int, tuple[str, str]] = {
    FLAG_THOUSANDS: (
        "thousands_separator",
        "token counts written with thousands separators, read as whole numbers",
    ),
    FLAG_DECIMAL_POINT: (
        "decimal_token_count",
        "token counts written with a decimal point (7.0), read as whole numbers",
    ),
    FLAG_CACHED_UNKNOWN: (
        "cached_unknown",
        (
            "cached tokens unknown (null is not 0): taken as no cache hit, prefill load may be "
            "overstated"
        ),
    ),
    FLAG_LATENCY_INVALID: (
        "latency_invalid",
        "negative or non-finite ttft or e2e, taken as not measured; the request is kept",
    ),
    FLAG_INCOMPLETE: (
        "incomplete_output",
        "failed or cancelled by status but with output tokens: kept with the tokens logged",
    ),
    FLAG_BLOCK_COUNT: (
        "block_count_mismatch",
        (
            "number of block ids does not fit the prompt length: kept, prefix reuse of these rows "
            "is uncertain"
        ),
    ),
}
