"""From a recognised source to one SELECT that yields judged rows.

Three steps, each a query over the one before: `source` (the file's own rows), `mapped` (canonical
columns as the log wrote them), `judged` (numbers, one reject code and a set of flag bits a row).
The types that `mapped` has decide how a column is parsed: text needs care, integers do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.ingest import reasons
from planner.ingest.duck import MAX_LINE_BYTES, file_literal, identifier, literal
from planner.ingest.format import PLACEHOLDER, Format, path_parts, source_paths
from planner.ingest.sniff import Source

DOCUMENT_TABLE = "planner_document"
REJECTS_TABLE = "planner_rejects"
SCANS_TABLE = "planner_scans"

INTEGERS = frozenset(
    f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")
) | {"INTEGER", "UINTEGER"}
ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")
TOKEN_COLUMNS = ("input_tokens", "output_tokens", "cached_tokens")
NULL_WORDS = ("", "-", "null", "none", "n/a", "na", "nil")  # how logs write "no value"
LONGEST_NULL_WORD = 4


def raw_rows(source: Source, *, keep_rejects: bool) -> str:
    """Return a query for the file's rows: CSV and Parquet columns, or one JSON text `line`."""
    name = file_literal(source.path)
    container = source.sample.container
    if container == "parquet":
        return f"SELECT * FROM read_parquet({name})"
    if container == "json":
        return f"SELECT line FROM {DOCUMENT_TABLE}"
    compression = "gzip" if source.gzipped else "none"
    if container == "jsonl":
        # Every line is one value: no JSON text holds the control character \x01 unescaped.
        return (
            f"SELECT line FROM read_csv({name}, auto_detect=false, header=false, delim='\x01', "
            "quote='', escape='', strict_mode=false, columns={'line': 'VARCHAR'}, "
            f"max_line_size={MAX_LINE_BYTES}, compression='{compression}') "
            "WHERE trim(line) <> ''"
        )
    columns = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in source.sample.columns)
    rejects = (
        f"store_rejects=true, rejects_table='{REJECTS_TABLE}', rejects_scan='{SCANS_TABLE}'"
        if keep_rejects
        else "ignore_errors=true"
    )
    return (
        f"SELECT * FROM read_csv({name}, auto_detect=false, header=true, "
        f"skip={source.skip_lines}, delim={literal(source.delimiter)}, quote='\"', escape='\"', "
        f"columns={{{columns}}}, max_line_size={MAX_LINE_BYTES}, compression='{compression}', "
        f"{rejects})"
    )


def mapped_rows(source: Source, fmt: Format, *, keep_rejects: bool = False) -> str:
    """Return a query for the canonical columns, values as the log wrote them."""
    raw = raw_rows(source, keep_rejects=keep_rejects)
    paths = source_paths(fmt.fields)
    if source.sample.tabular:
        names = {path: source.sample.column(path) for path in paths}
        columns = {p: identifier(name) if name else "NULL::VARCHAR" for p, name in names.items()}
        inner = raw
        readable = ""
    else:
        columns = {path: f"v[{index}]" for index, path in enumerate(paths, start=1)}
        wanted = ", ".join(literal(_json_path(path)) for path in paths)
        extract = f"json_extract_string(line, [{wanted}])"
        rows = _records(fmt, raw)
        inner = f"SELECT TRY({extract}) AS v FROM ({rows})"
        readable = ", v IS NOT NULL AS readable"
    fields = ", ".join(
        f"({PLACEHOLDER.sub(lambda found: columns[found.group(1)], expression)}) "
        f"AS {identifier('f_' + name)}"
        for name, expression in fmt.fields.items()
    )
    return f"SELECT {fields}{readable} FROM ({inner})"


def _records(fmt: Format, raw: str) -> str:
    if not fmt.records:
        return raw
    valid = f"SELECT line::JSON AS r FROM ({raw}) WHERE json_valid(line)"
    return f"SELECT r AS line FROM ({fmt.records.format(rows=f'({valid})')})"


def _json_path(path: str) -> str:
    return "$" + "".join(f'."{part}"' for part in path_parts(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReading:
    """How arrival times are read: decided once for all files of a trace."""

    absolute: bool
    guessed: bool = False  # neither format, name nor user gave the unit
    unit: str  # of numbers: "s", "ms", "us", "ns"; "" = each row by its magnitude (absolute only)


UNIT_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
# Epoch times of the years 1998 to 2255 fall into four ranges that do not meet.
EPOCH_RANGES = {"s": (9e8, 9e9), "ms": (9e11, 9e12), "us": (9e14, 9e15), "ns": (9e17, 9e18)}
KIND_TYPED, KIND_OFFSET, KIND_NAIVE = 10, 11, 12
KIND_UNIT = {1: "s", 2: "ms", 3: "us", 4: "ns"}
LONGEST_S = 10 * 366 * 86_400.0  # from the start; more is another unit or a damaged row
FIRST_US, LAST_US = 946_684_800_000_000, 4_102_444_800_000_000  # 2000-01-01, 2100-01-01


def text_value(column: str, sql_type: str) -> str:
    """Trimmed text with every spelling of "no value" as NULL."""
    value = column if sql_type == "VARCHAR" else f"{column}::VARCHAR"
    words = ", ".join(literal(word) for word in NULL_WORDS)
    return (
        f"CASE WHEN length({value}) > {LONGEST_NULL_WORD} THEN nullif(trim({value}), '') "
        f"WHEN lower(trim({value})) IN ({words}) THEN NULL ELSE trim({value}) END"
    )


def is_missing(column: str) -> str:
    """Test text for NULL or a spelling of "no value"."""
    words = ", ".join(literal(word) for word in NULL_WORDS)
    return f"({column} IS NULL OR lower(trim({column})) IN ({words}))"


def time_columns(sql_type: str, reading: TimeReading) -> str:
    """Return the columns `t` (µs since 1970, or seconds from the start), `t_kind`, `t_missing`.

    A text that fails to become a number costs DuckDB twenty microseconds, so text with a colon or
    dashes is never tried as one.
    """
    if sql_type.startswith(("TIMESTAMP", "DATE")):
        typed = KIND_TYPED if sql_type in ZONED else KIND_NAIVE
        moment = "f_time::TIMESTAMPTZ"  # without a zone: in the session's, UTC
        return (
            f"CASE WHEN isfinite({moment}) THEN epoch_us({moment}) END AS t, {typed} AS t_kind, "
            "f_time IS NULL AS t_missing"
        )
    if sql_type != "VARCHAR":
        value, kind = _number_time("try_cast(f_time AS DOUBLE)", reading)
        return f"{value} AS t, {kind} AS t_kind, f_time IS NULL AS t_missing"
    missing = f"CASE WHEN length(f_time) > {LONGEST_NULL_WORD} THEN false ELSE "
    missing += f"{is_missing('f_time')} END AS t_missing"
    value, kind = _number_time("try_cast(f_time AS DOUBLE)", reading)
    if not reading.absolute:
        return f"{value} AS t, {kind} AS t_kind, {missing}"
    stamp = "epoch_us(try_cast(f_time AS TIMESTAMPTZ))"
    tail = "substr(f_time, 20)"
    offset = f"right(f_time, 1) IN ('Z', 'z') OR contains({tail}, '+') OR contains({tail}, '-')"
    is_date = "(contains(f_time, ':') OR contains(substr(f_time, 2), '-'))"
    return (
        f"CASE WHEN {is_date} THEN {stamp} ELSE {value} END AS t, "
        f"CASE WHEN NOT {is_date} THEN {kind} WHEN {offset} THEN {KIND_OFFSET} "
        f"ELSE {KIND_NAIVE} END AS t_kind, {missing}"
    )


def _number_time(number: str, reading: TimeReading) -> tuple[str, str]:
    """Return SQL for a numeric time's value and its kind."""
    if not reading.absolute:
        return f"{number} / {UNIT_PER_S[reading.unit]}", "1"
    scales = {unit: f"{number} * {1e6 / per_s}" for unit, per_s in UNIT_PER_S.items()}
    if reading.unit:
        return scales[reading.unit], str(list(UNIT_PER_S).index(reading.unit) + 1)
    outside = f"CASE WHEN isfinite({number}) THEN 0 ELSE {number} END"
    kinds = {unit: str(kind) for kind, unit in KIND_UNIT.items()}
    return _by_magnitude(number, scales, outside), _by_magnitude(number, kinds, "0")


def _by_magnitude(number: str, results: Mapping[str, str], otherwise: str) -> str:
    cases = " ".join(
        f"WHEN {number} >= {low} AND {number} < {high} THEN {results[unit]}"
        for unit, (low, high) in EPOCH_RANGES.items()
    )
    return f"CASE {cases} ELSE {otherwise} END"


def number_columns(types: Mapping[str, str]) -> str:
    """Return a select list that adds `n_<name>`, the plain number, for every text token column."""
    return "".join(
        f", try_cast(f_{name} AS DOUBLE) AS n_{name}"
        for name in TOKEN_COLUMNS
        if types.get(name) == "VARCHAR"
    )


def token_columns(name: str, sql_type: str) -> str:
    """Return the columns `<name>_v` (the count), `<name>_missing` and `<name>_f` (flag bits)."""
    column, plain = f"f_{name}", f"n_{name}"
    if sql_type != "VARCHAR":
        value = column if sql_type in INTEGERS else f"try_cast({column} AS DOUBLE)"
        return f"{value} AS {name}_v, {column} IS NULL AS {name}_missing, 0 AS {name}_f"
    grouped = rf"regexp_full_match({column}, '\s*-?\d{{1,3}}(,\d{{3}})+(\.0*)?\s*')"
    return (
        f"CASE WHEN {plain} IS NOT NULL THEN {plain} "
        f"WHEN {grouped} THEN try_cast(replace({column}, ',', '') AS DOUBLE) END AS {name}_v, "
        f"CASE WHEN {plain} IS NOT NULL THEN false ELSE {is_missing(column)} END "
        f"AS {name}_missing, "
        f"CASE WHEN {plain} IS NULL THEN CASE WHEN {grouped} THEN {reasons.FLAG_THOUSANDS} ELSE 0 "
        f"END WHEN contains({column}, '.') THEN {reasons.FLAG_DECIMAL_POINT} ELSE 0 END "
        f"AS {name}_f"
    )


def token_code(name: str, sql_type: str, base: int) -> str:
    """Return a CASE body (without CASE and END) that names what is wrong with a token count."""
    value = f"{name}_v"
    checks = [
        (f"{name}_missing", reasons.MISSING),
        (f"{value} IS NULL", reasons.NOT_A_NUMBER),
    ]
    if sql_type not in INTEGERS:
        checks.append((f"NOT isfinite({value})", reasons.NOT_FINITE))
    checks += [
        (f"{value} = -1", reasons.MINUS_ONE),
        (f"{value} < 0", reasons.NEGATIVE),
        (f"{value} > {reasons.MAX_TOKENS}", reasons.ABSURD),
    ]
    if sql_type not in INTEGERS:
        checks.append((f"{value} <> floor({value})", reasons.FRACTIONAL))
    checks.append((f"{value} = 0", reasons.ZERO))
    return " ".join(f"WHEN {test} THEN {base + code}" for test, code in checks)


def status_columns(sql_type: str | None) -> str:
    """Return the columns `failed` and `cancelled`, from the log's own status."""
    if sql_type is None:
        return "false AS failed, false AS cancelled"
    text = f"lower({text_value('f_status', sql_type)})"
    cancelled = (
        f"coalesce({text} IN ('cancelled', 'canceled', 'cancel', 'aborted', 'abort', '499'), false)"
    )
    failed = (
        f"coalesce({text} IN ('error', 'failed', 'failure', 'fail', 'false', 'timeout') "
        f"OR regexp_full_match({text}, '[45]\\d\\d'), false)"
    )
    return f"{failed} AND NOT {cancelled} AS failed, {cancelled} AS cancelled"
