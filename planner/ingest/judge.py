"""The last of the three queries: numbers, one reject code and a set of flag bits for every row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.ingest import reasons
from planner.ingest.sql import (
    FIRST_US,
    INTEGERS,
    LAST_US,
    LONGEST_S,
    TimeReading,
    number_columns,
    status_columns,
    text_value,
    time_columns,
    token_code,
    token_columns,
)

TEXT_COLUMNS = ("class", "model", "tenant", "session_id")  # what a class may match as text
KEY_COLUMNS = ("session_id", "request_id", "chat_id", "parent_chat_id")  # only equality matters
BLOCK_IDS = "try_cast(f_hash_ids AS VARCHAR[])"  # text: ids may be numbers of any size, or hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What decides how mapped rows are judged, the same for every file of a trace."""

    reading: TimeReading
    class_case: str = "0"  # SQL over the parsed columns: the class's number, -1 for none
    block_tokens: int = 0


def parsed_rows(mapped: str, types: Mapping[str, str], judgement: Judgement) -> str:
    """Return a query that turns mapped values into numbers and trimmed text.

    `types` gives the SQL type of each mapped column, without its `f_`.
    """
    columns = [
        time_columns(types["time"], judgement.reading),
        token_columns("input_tokens", types["input_tokens"]),
        token_columns("output_tokens", types["output_tokens"]),
        status_columns(types.get("status")),
        *(
            f'{text_value(f"f_{name}", types[name])} AS "{name}"'
            for name in (*TEXT_COLUMNS, *KEY_COLUMNS[1:])
            if name in types
        ),
        *(
            f"try_cast(f_{name} AS DOUBLE) AS {name}"
            for name in ("ttft_s", "e2e_s")
            if name in types
        ),
    ]
    if "cached_tokens" in types:
        columns.append(token_columns("cached_tokens", types["cached_tokens"]))
    if "hash_ids" in types:
        columns.append(f"{BLOCK_IDS} AS hash_ids")
    columns.append("coalesce(f_keep, true) AS keep" if "keep" in types else "true AS keep")
    columns.append("readable" if "readable" in types else "true AS readable")
    return f"SELECT {', '.join(columns)} FROM (SELECT *{number_columns(types)} FROM ({mapped}))"


def judged_rows(parsed: str, types: Mapping[str, str], judgement: Judgement) -> str:
    """Return the query whose columns become numpy arrays, one row for each row of the file."""
    has = types.keys()
    valid = f"BETWEEN 0 AND {reasons.MAX_TOKENS}"
    absolute = judgement.reading.absolute
    columns = [
        f"{_reject_case(types, judgement)}::UTINYINT AS reject",
        f"({_flag_sum(types, judgement)})::UTINYINT AS flags",
        "coalesce(CASE WHEN isfinite(t::DOUBLE) "
        + (
            f"AND t BETWEEN {FIRST_US} AND {LAST_US} THEN round(t)::BIGINT END, 0) AS t"
            if absolute
            else "THEN t END, 0) AS t"
        ),
        "t_kind::UTINYINT AS t_kind",
        *(
            f"(CASE WHEN {name}_v {valid} THEN {name}_v ELSE 0 END)::BIGINT AS {name}"
            for name in ("input_tokens", "output_tokens", "cached_tokens")
            if name in has
        ),
        *(
            f"CASE WHEN isfinite({name}) AND {name} >= 0 THEN {name} ELSE 'nan'::DOUBLE END "
            f"AS {name}"
            for name in ("ttft_s", "e2e_s")
            if name in has
        ),
        f"hash({', '.join(_identity(types))}) AS fingerprint",
    ]
    if judgement.class_case != "0":
        columns.append(f"({judgement.class_case})::BIGINT AS class_id")
    columns += [  # 0 stands for "none"; a hash of 0 has one chance in 2^64
        f"(CASE WHEN {name} IS NULL OR {name} = '-1' THEN 0 ELSE hash({name}) END)::UBIGINT "
        f"AS {name}"
        for name in KEY_COLUMNS
        if name in has
    ]
    if "hash_ids" in has:
        columns.append("coalesce(len(hash_ids), 0)::BIGINT AS n_blocks")
    return f"SELECT {', '.join(columns)} FROM ({parsed})"


def block_rows(parsed: str) -> str:
    """Return a query for the block ids of all rows, one after the other, as 64-bit fingerprints."""
    return f"SELECT hash(unnest(hash_ids)) AS id FROM ({parsed})"


def _identity(types: Mapping[str, str]) -> list[str]:
    present = ["t", "input_tokens_v", "output_tokens_v"]
    names = ("class", "model", "tenant", "session_id", "request_id", "ttft_s", "e2e_s", "hash_ids")
    present += [f'"{name}"' for name in names if name in types]
    if "cached_tokens" in types:
        present.append("cached_tokens_v")
    return present


def _reject_case(types: Mapping[str, str], judgement: Judgement) -> str:
    nothing = "(output_tokens_missing OR output_tokens_v IN (0, -1))"
    checks = [
        ("NOT readable", reasons.INVALID_RECORD),
        ("NOT keep", reasons.NOT_A_REQUEST),
        ("t_missing", reasons.TIME_MISSING),
        ("t IS NULL", reasons.TIME_UNPARSABLE),
        ("NOT isfinite(t::DOUBLE)", reasons.TIME_NOT_FINITE),
    ]
    if judgement.reading.absolute:
        checks.append((f"t < {FIRST_US} OR t >= {LAST_US}", reasons.TIME_OUT_OF_RANGE))
    else:
        checks += [
            ("t < 0", reasons.TIME_NEGATIVE),
            (f"t > {LONGEST_S}", reasons.TIME_OUT_OF_RANGE),
        ]
    before = _whens([*checks, (f"failed AND {nothing}", reasons.FAILED)])
    cancelled = _whens([(f"cancelled AND {nothing}", reasons.CANCELLED)])
    after = (
        _whens([(f"({judgement.class_case}) < 0", reasons.NO_CLASS)])
        if judgement.class_case != "0"
        else ""
    )
    return (
        f"CASE {before} "
        f"{token_code('input_tokens', types['input_tokens'], reasons.INPUT_BASE)} {cancelled} "
        f"{token_code('output_tokens', types['output_tokens'], reasons.OUTPUT_BASE)} {after} "
        "ELSE 0 END"
    )


def _whens(checks: list[tuple[str, int]]) -> str:
    return " ".join(f"WHEN {test} THEN {code}" for test, code in checks)


def _flag_sum(types: Mapping[str, str], judgement: Judgement) -> str:
    terms = []
    text_tokens = [name for name in ("input_tokens", "output_tokens") if types[name] == "VARCHAR"]
    if text_tokens:
        terms.append(" | ".join(f"{name}_f" for name in text_tokens))
    if "status" in types:
        terms.append(f"CASE WHEN failed OR cancelled THEN {reasons.FLAG_INCOMPLETE} ELSE 0 END")
    if "cached_tokens" in types:
        finite = "" if types["cached_tokens"] in INTEGERS else "AND isfinite(cached_tokens_v) "
        terms.append(
            f"CASE WHEN cached_tokens_v >= 0 {finite}THEN 0 ELSE {reasons.FLAG_CACHED_UNKNOWN} END"
        )
    latencies = [name for name in ("ttft_s", "e2e_s") if name in types]
    if latencies:
        bad = " OR ".join(f"{name} < 0 OR NOT isfinite({name})" for name in latencies)
        terms.append(f"CASE WHEN {bad} THEN {reasons.FLAG_LATENCY_INVALID} ELSE 0 END")
    if "hash_ids" in types and judgement.block_tokens:
        terms.append(
            f"CASE WHEN coalesce(len(hash_ids), 0) <> "
            f"ceil(input_tokens_v / {judgement.block_tokens}.0) "
            f"THEN {reasons.FLAG_BLOCK_COUNT} ELSE 0 END"
        )
    return " | ".join(f"({term})" for term in terms) or "0"
