"""Files as they come from broken exports: one message with a place, never a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import Problem
from planner.ingest.load import load_trace

HEADER = "timestamp,input_tokens,output_tokens\n"
Write = Callable[..., str]
Refused = Callable[..., Problem]


def rows(count: int, start: int = 1_746_446_400) -> str:
    return "".join(f"{start + i},{100 + i},{10 + i}\n" for i in range(count))


def lines(count: int, start: int = 1_746_446_400, extra: str = "") -> str:
    return "".join(
        f'{{"timestamp": {start + i}, "input_tokens": {5 + i}, "output_tokens": 6{extra}}}\n'
        for i in range(count)
    )


@pytest.mark.parametrize("closing", ["", '"1746446999,5,5\n', '1746446999",5,5\n'])
def test_a_quote_that_swallows_lines_is_refused_with_its_line(
    write: Write, refused: Refused, closing: str
) -> None:
    """How many requests are inside is unknown, so that no count would be true."""
    text = HEADER + rows(5) + '"1746446500,5,5\n' + rows(700, 1_746_446_501) + closing + rows(9)
    problem = refused(write("t.csv", text))
    assert "swallowed" in problem.message
    assert (problem.line, problem.column) == (7, 1)


def test_quoted_line_ends_in_other_columns_are_no_fault(write: Write) -> None:
    text = "prompt," + HEADER + '"a\nb",1746446400,5,5\n"c\n\nd",1746446401,6,x\n'
    report = load_trace([write("t.csv", text)]).report
    assert report.rows_used == 1
    assert report.rejected_count("output_tokens_not_a_number") == 1


@pytest.mark.parametrize("before", [0, 40_000])
def test_mixed_line_ends(write: Write, refused: Refused, before: int) -> None:
    text = HEADER + rows(before) + "1746446400,5,5\r\n" + rows(3)
    problem = refused(write("t.csv", text))
    assert "line ends are mixed" in problem.message
    assert "sed" in problem.hint


def test_bytes_that_are_not_utf8_far_into_json_lines(write: Write, refused: Refused) -> None:
    text = lines(20_000).encode() + b'{"timestamp": 1746446400, "class": "\xff"}\n'
    problem = refused(write("t.jsonl", text))
    assert "UTF-8" in problem.message
    assert problem.line == 20_001


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"a":' * 3_000 + "1" + "}" * 3_000 + "\n",
    ],
)
def test_deep_nesting_alone(write: Write, refused: Refused, text: str) -> None:
    assert "nested too deeply" in refused(write("t.json", text)).message


def test_deep_nesting_in_one_line(write: Write) -> None:
    deep = lines(1, extra=', "a": ' + "[" * 5_000 + "]" * 5_000)
    assert load_trace([write("t.jsonl", lines(5, 1_746_446_500) + deep)]).report.rows_used >= 5


def test_characters_that_only_python_takes_for_line_ends(write: Write) -> None:
    extra = ', "prompt": "a\u2028b\x85c"'
    assert load_trace([write("t.jsonl", lines(4, extra=extra))]).report.rows_used == 4
    text = HEADER.replace("\n", ",prompt\n") + '1746446400,5,5,"a\u2028b"\n'
    assert load_trace([write("t.csv", text)]).report.rows_used == 1


def test_a_list_inside_an_object_is_pointed_out(write: Write, refused: Refused) -> None:
    one = lines(1).strip()
    assert "jq -c '.data[]'" in refused(write("t.json", f'{{"data": [{one}]}}')).hint


def test_times_that_are_seconds_only_by_default(write: Write, refused: Refused) -> None:
    text = HEADER + "".join(f"{i * 10**12},{i + 1},5\n" for i in range(50))
    path = write("t.csv", text)
    problem = refused(path)
    assert "ten years" in problem.message
    assert "--time-unit" in problem.hint
    assert load_trace([path], time_unit="ns").requests.span_s == pytest.approx(49_000.0)


def test_one_damaged_time_does_not_stretch_the_trace(write: Write) -> None:
    text = HEADER + "".join(f"{i},{i + 1},5\n" for i in range(50)) + "1e300,5,5\n"
    loaded = load_trace([write("t.csv", text)])
    assert loaded.requests.span_s == 49.0
    assert loaded.report.rejected_count("time_out_of_range") == 1


def test_dates_that_are_no_iso_8601(write: Write, refused: Refused) -> None:
    problem = refused(write("t.csv", HEADER + "10/12/2026 01:00,5,5\n"))
    assert "time_unparsable" in problem.message
    assert "ISO 8601" in problem.hint


def test_class_names_cannot_break_a_line_or_steer_a_terminal(write: Write) -> None:
    text = "class," + HEADER + '"a\nb",1746446400,5,5\n\x1b[31mred,1746446401,5,5\n'
    loaded = load_trace([write("t.csv", text)])
    assert loaded.requests.class_names == (r"\x1b[31mred", r"a\nb")
    assert loaded.requests.class_id.tolist() == [1, 0]
    assert all(text.isprintable() for text in loaded.report.assumptions)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, refused: Refused) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "pipe" in refused(str(pipe)).message


@pytest.mark.parametrize("target", ["nothing", "link"])
def test_a_link_to_nothing(tmp_path: Path, refused: Refused, target: str) -> None:
    link = tmp_path / "link"
    link.symlink_to(target)
    assert f"a link to {target}" in refused(str(link)).message


def test_names_that_are_no_files(write: Write, refused: Refused) -> None:
    assert "without a name" in refused("").message
    assert "not a local file" in refused("s3://bucket/week.parquet").message
    assert load_trace([write("t.csv", HEADER + rows(3)) + "/"]).report.rows_used == 3


def test_a_name_that_is_not_utf8(tmp_path: Path, refused: Refused) -> None:
    path = os.fsencode(tmp_path) + b"/n\xff.csv"
    try:
        Path(os.fsdecode(path)).write_text(HEADER + rows(3))
    except OSError:
        pytest.skip("this file system takes no such name")
    problem = refused(os.fsdecode(path))
    assert "not UTF-8" in problem.message
    str(problem).encode()  # can be printed
