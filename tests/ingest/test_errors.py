"""What cannot be planned from is refused with one message: what, where, and what to do."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from planner.errors import InputError, Problem
from planner.ingest.detect import NAMES
from planner.ingest.load import load_trace

HEADER = "timestamp,input_tokens,output_tokens\n"
GOOD = HEADER + "2025-05-05T12:00:00Z,100,20\n2025-05-05T12:00:01Z,200,30\n"
Write = Callable[..., str]
Refused = Callable[..., Problem]


def test_nothing_given(refused: Refused) -> None:
    assert "no trace" in refused().message


def test_missing_file_names_the_nearest(write: Write, refused: Refused) -> None:
    path = write("week42.csv", GOOD)
    problem = refused(path.replace("week42", "week24"))
    assert problem.message == "no such file"
    assert path in problem.hint


def test_all_missing_files_at_once() -> None:
    with pytest.raises(InputError) as caught:
        load_trace(["nowhere/a.csv", "nowhere/b.csv"])
    assert [problem.file for problem in caught.value.problems] == ["nowhere/a.csv", "nowhere/b.csv"]


def test_glob_without_a_match(tmp_path: Path, refused: Refused) -> None:
    assert refused(str(tmp_path / "*.parquet")).message == "no file matches this pattern"


def test_folder_without_a_trace(write: Write, refused: Refused) -> None:
    path = write("README.md", "hello")
    problem = refused(str(Path(path).parent))
    assert "README.md" in problem.message
    assert ".parquet" in problem.hint


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.csv.gz"])
def test_empty_file(write: Write, refused: Refused, name: str) -> None:
    assert refused(write(name, "")).message == "the file is empty"


def test_empty_inside_gzip(write: Write, refused: Refused) -> None:
    problem = refused(write("t.csv.gz", gzip.compress(b"", mtime=0)))
    assert (problem.message, problem.hint) == ("the file is empty", "export the trace again")


def test_blank_file(write: Write, refused: Refused) -> None:
    assert "blank lines" in refused(write("t.csv", "\n \n")).message


def test_header_without_rows(write: Write, refused: Refused) -> None:
    assert "no rows" in refused(write("t.csv", HEADER)).message


def test_parquet_without_rows(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame(
        {"timestamp": [], "input_tokens": [], "output_tokens": []},
        schema={"timestamp": pl.Float64, "input_tokens": pl.Int64, "output_tokens": pl.Int64},
    )
    frame.write_parquet(path)
    assert "no rows" in refused(str(path)).message


def test_no_usable_row_counts_the_reasons(write: Write, refused: Refused) -> None:
    rows = "2025-05-05T12:00:00Z,5,0\n2025-05-05T12:00:01Z,5,0\n2025-05-05T12:00:02Z,,4\n"
    problem = refused(write("t.csv", HEADER + rows))
    assert "none of 3 rows" in problem.message
    assert "2 output_tokens_zero" in problem.message
    assert "1 input_tokens_missing" in problem.message
    assert "t.csv:2: " in problem.message


def test_wrong_columns_name_found_needed_and_nearest(write: Write, refused: Refused) -> None:
    path = write("t.csv", "when,inputTokenz,output_tokns,x\n1,2,3,4\n")
    problem = refused(path)
    assert problem.line == 1
    assert "when, inputTokenz, output_tokns, x" in problem.message
    assert "input_tokens" in problem.message
    assert "is inputTokenz the input_tokens?" in problem.hint
    assert "is output_tokns the output_tokens?" in problem.hint
    assert "needed: timestamp" in problem.hint


def test_wrong_columns_of_json_and_parquet(tmp_path: Path, write: Write, refused: Refused) -> None:
    assert "found a, b" in refused(write("t.jsonl", '{"a": 1, "b": 2}\n')).message
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1], "input_tokens": [5], "output_tokens": [5]}).write_parquet(path)
    problem = refused(str(path))
    assert problem.message.startswith("no column for the arrival time; found a, input_tokens")


def test_lengths_without_times_say_what_is_missing(write: Write, refused: Refused) -> None:
    problem = refused(write("t.csv", "num_prefill_tokens,num_decode_tokens\n5,5\n"))
    assert "no arrival times" in problem.message


def test_a_file_without_a_header(write: Write, refused: Refused) -> None:
    problem = refused(write("t.csv", "1746446400,100,20\n1746446401,200,30\n"))
    assert "values, not column names" in problem.message
    assert "header" in problem.hint


def test_a_header_that_repeats_itself(write: Write, refused: Refused) -> None:
    problem = refused(
        write("t.csv", "timestamp,input_tokens,Input_Tokens,output_tokens\n1,2,3,4\n")
    )
    assert "more than once" in problem.message


def test_prose_is_no_trace(write: Write, refused: Refused) -> None:
    assert "no column for" in refused(write("t.csv", "Dear colleague\nplease find\n")).message


def test_cut_parquet(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"timestamp": range(5000)}).write_parquet(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    problem = refused(str(path))
    assert "cut" in problem.message
    assert "again" in problem.hint


def test_damaged_parquet(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"timestamp": [float(i) for i in range(5000)], "input_tokens": [7] * 5000,
                  "output_tokens": [5] * 5000}).write_parquet(path)  # fmt: skip
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[footer : footer + 60] = b"\xff" * 60
    path.write_bytes(data)
    assert "damaged" in refused(str(path)).message
    path.write_bytes(b"PAR1" + b"\x00" * 200 + b"PAR1")
    assert "damaged" in refused(str(path)).message


@pytest.mark.parametrize("rows", [3, 200_000])
def test_cut_gzip(write: Write, refused: Refused, rows: int) -> None:
    text = HEADER + "".join(
        f"{1_746_446_400 + i * 7 % 99},{i * 37 % 999 + 1},5\n" for i in range(rows)
    )
    data = gzip.compress(text.encode(), mtime=0)
    problem = refused(write("t.csv.gz", data[: len(data) * 2 // 3]))
    assert "cut" in problem.message
    assert problem.hint


@pytest.mark.parametrize("rows", [3, 100_000])
def test_cut_gzip_of_json_lines(write: Write, refused: Refused, rows: int) -> None:
    line = '{"timestamp": %d, "input_tokens": %d, "output_tokens": 5}\n'
    text = "".join(line % (1_746_446_400 + i, i * 37 % 999 + 1) for i in range(rows))
    data = gzip.compress(text.encode(), mtime=0)
    assert "cut" in refused(write("t.jsonl.gz", data[: len(data) * 2 // 3])).message


def test_cut_json_document_shows_line_and_column(write: Write, refused: Refused) -> None:
    text = json.dumps([{"arrived_at": 1, "num_prefill_tokens": 5}], indent=1)
    problem = refused(write("t.json", text[: text.index("5")]))
    assert "not valid JSON" in problem.message
    assert text.splitlines()[3] == '  "num_prefill_tokens": 5'
    assert (problem.line, problem.column) == (4, 25)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"PK\x03\x04rest", "zip"),
        (b"\x28\xb5\x2f\xfdrest", "Zstandard"),
        (b"ARROW1\x00\x00", "Arrow"),
        (b"\x7fELF\x02\x01\x00\x00", "binary"),
        ("timestamp".encode("utf-16"), "UTF-16"),
        (gzip.compress(b"PAR1....", mtime=0), "gzip"),
    ],
)
def test_files_of_another_kind(write: Write, refused: Refused, data: bytes, word: str) -> None:
    problem = refused(write("t.csv", data))
    assert word in problem.message + problem.hint
    assert problem.hint


def test_text_that_is_not_utf8_shows_the_byte(write: Write, refused: Refused) -> None:
    problem = refused(write("t.csv", (HEADER + "2025,caf\xe9,5\n").encode("latin-1")))
    assert "0xe9" in problem.message
    assert (problem.line, problem.column) == (2, 9)
    assert "iconv" in problem.hint


def test_bytes_that_are_not_utf8_far_into_a_file(write: Write) -> None:
    """Behind the sampled head such a line is one broken line, not the end of the trace."""
    rows = "".join(f"{1_746_446_400 + i},{i % 999 + 1},5\n" for i in range(80_000))
    path = write("t.csv", (HEADER + rows + "1746446400,caf\xe9,5\n").encode("latin-1"))
    report = load_trace([path]).report
    assert report.rows_used == 80_000
    assert report.rejected_count("broken_line") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(write: Write, refused: Refused) -> None:
    path = write("t.csv", GOOD)
    Path(path).chmod(0)
    assert "permission" in refused(path).message


def test_permission_denied_is_told_apart(
    write: Write, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("t.csv", GOOD)

    def deny(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    assert "no permission" in refused(path).message


def test_different_formats_in_one_call(write: Write, refused: Refused) -> None:
    one = write("a.csv", GOOD)
    two = write("b.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2025-05-05 12:00:00,5,5\n")
    problem = refused(one, two)
    assert "canonical" in problem.message
    assert "azure-2023" in problem.message
    assert one in problem.message


def test_different_time_units_in_one_call(write: Write, refused: Refused) -> None:
    one = write("a.csv", "arrival_s,input_tokens,output_tokens\n1,5,5\n")
    two = write("b.csv", "arrival_ms,input_tokens,output_tokens\n1,5,5\n")
    assert "times in ms" in refused(one, two).message


def test_different_clocks_in_one_call(write: Write, refused: Refused) -> None:
    one = write("a.csv", GOOD)
    two = write("b.csv", HEADER + "0.5,5,5\n")
    problem = refused(one, two)
    assert "counts from its own start" in problem.message


def test_unknown_format_names_the_nearest(write: Write, refused: Refused) -> None:
    problem = refused(write("t.csv", GOOD), fmt="azur-2023")
    assert "azure-2023" in problem.hint
    assert problem.path == "--format"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "canonical"])
def test_a_named_format_that_does_not_fit(write: Write, refused: Refused, name: str) -> None:
    problem = refused(write("t.csv", "a,b\n1,2\n"), fmt=name)
    assert "missing" in problem.message
    assert "found a, b" in problem.message


def test_ambiguous_block_trace_names_both_candidates(write: Write, refused: Refused) -> None:
    # Blocks of 128 tokens: neither Mooncake's 512 nor Qwen-Bailian's 16.
    row = {"timestamp": 0, "input_length": 1280, "output_length": 5, "hash_ids": list(range(10))}
    path = write("t.jsonl", json.dumps(row) + "\n")
    problem = refused(path)
    assert "mooncake" in problem.message
    assert "qwen-bailian" in problem.message
    assert "--format mooncake" in problem.hint
    assert load_trace([path], fmt="mooncake").report.format == "mooncake"


def test_block_ids_without_a_block_size(write: Write, refused: Refused) -> None:
    row = {"arrival_s": 0, "input_tokens": 100, "output_tokens": 5, "hash_ids": [1, 2, 3]}
    problem = refused(write("t.jsonl", json.dumps(row) + "\n"))
    assert "how many tokens a block holds" in problem.message
    assert "block_tokens" in problem.hint


@pytest.mark.parametrize(
    ("unit", "text", "word"),
    [("minutes", HEADER + "1,5,5\n", "unknown time unit"), ("ms", GOOD, "dates, not numbers")],
)
def test_time_unit_that_does_not_apply(
    write: Write, refused: Refused, unit: str, text: str, word: str
) -> None:
    problem = refused(write("t.csv", text), time_unit=unit)
    assert word in problem.message
    assert problem.path == "--time-unit"


def test_json_without_objects(write: Write, refused: Refused) -> None:
    assert "no objects" in refused(write("t.json", "[1, 2]")).message
