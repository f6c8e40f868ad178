"""Files, folders, globs: a fixed order, each file once."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.ingest.load import load_trace

Write = Callable[..., str]
HEADER = "arrival_s,input_tokens,output_tokens\n"


@pytest.fixture
def folder(write: Write) -> Path:
    write("logs/b.csv", HEADER + "1,2,5\n")
    write("logs/a.csv", HEADER + "1,1,5\n")
    write("logs/day=2/c.csv", HEADER + "1,3,5\n")
    write("logs/.hidden.csv", HEADER + "1,9,5\n")
    return Path(write("logs/notes.md", "hello")).parent


def test_a_folder_is_read_in_depth_in_name_order(folder: Path) -> None:
    trace = load_trace([str(folder)])
    assert trace.requests.input_tokens.tolist() == [1, 2, 3]
    assert any(
        "1 file passed over: not named like a trace" in text for text in trace.report.assumptions
    )


def test_globs_are_sorted(folder: Path) -> None:
    assert load_trace([str(folder / "*.csv")]).requests.input_tokens.tolist() == [1, 2]
    assert load_trace([str(folder / "**" / "*.csv")]).requests.input_tokens.tolist() == [1, 2, 3]


def test_the_order_given_breaks_ties(folder: Path) -> None:
    paths = [str(folder / "b.csv"), str(folder / "a.csv")]
    assert load_trace(paths).requests.input_tokens.tolist() == [2, 1]


def test_a_file_named_twice_is_read_once(folder: Path) -> None:
    trace = load_trace([str(folder / "a.csv"), str(folder / "*.csv")])
    assert trace.requests.input_tokens.tolist() == [1, 2]
    assert any("named more than once" in text for text in trace.report.assumptions)


@pytest.mark.parametrize("name", ["a[1].csv", "what?.csv", "star*.csv", "it's.csv", "ünï côdé.csv"])
def test_unusual_file_names(write: Write, name: str) -> None:
    write("a1.csv", HEADER + "1,777,5\n")
    path = write(name, HEADER + "1,2,5\n3,4,0\n")
    trace = load_trace([path])
    assert trace.requests.input_tokens.tolist() == [2]
    assert str(trace.report.rejected[0]["example"]).startswith(f"{path}:3: ")


def test_files_of_one_format_but_other_containers_and_columns(write: Write) -> None:
    one = write("a.csv", HEADER.strip() + ",model,ttft_s\n0,1,5,m,0.5\n")
    two = write("b.jsonl", '{"arrival_s": 1, "input_tokens": 2, "output_tokens": 5}\n')
    trace = load_trace([one, two])
    assert trace.requests.input_tokens.tolist() == [1, 2]
    assert trace.requests.observed_ttft_s.tolist()[0] == 0.5
    assert str(trace.requests.observed_ttft_s.tolist()[1]) == "nan"


def test_a_prompt_of_megabytes_is_no_obstacle(write: Write) -> None:
    prompt = "x" * 3_000_000
    text = HEADER.strip() + f",prompt\n1,2,5,{prompt}\n2,3,0,{prompt}\n"
    trace = load_trace([write("t.csv", text)])
    assert trace.requests.input_tokens.tolist() == [2]
    assert ":3: " in str(trace.report.rejected[0]["example"])
    line = '{"arrival_s": 1, "input_tokens": 2, "output_tokens": 5, "prompt": "%s"}\n'
    assert len(load_trace([write("t.jsonl", line % prompt)]).requests) == 1


def test_an_endless_line_is_refused_by_its_number(write: Write) -> None:
    line = '{"arrival_s": 1, "input_tokens": 2, "output_tokens": 5, "prompt": "%s"}\n'
    with pytest.raises(InputError, match="longer than 16 MiB") as caught:
        load_trace([write("t.jsonl", line % "x" + line % ("y" * 17_000_000))])
    assert caught.value.problems[0].line == 2


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(write: Write, delimiter: str) -> None:
    text = (HEADER + "1,2,5\n").replace(",", delimiter)
    assert load_trace([write("t.txt", text)]).requests.input_tokens.tolist() == [2]


def test_headers_with_spaces_quotes_and_a_trailing_delimiter(write: Write) -> None:
    text = '"arrival_s", Input Tokens ,OutputTokens,"say ""x""",a{b},\r\n1, 2 ,5,,,\r\n'
    trace = load_trace([write("t.csv", text)])
    assert trace.requests.input_tokens.tolist() == [2]
    assert "column Input Tokens is read as input_tokens" in trace.report.assumptions


def test_two_columns_for_one_thing_are_reported(write: Write) -> None:
    path = write("t.csv", "ts,timestamp,input_tokens,output_tokens\n9,1,2,5\n")
    report = load_trace([path]).report
    assert "timestamp is read, ts not: both could be the time" in report.assumptions


def test_json_lines_that_are_no_objects_are_not_requests(write: Write) -> None:
    good = '{"arrival_s": 1, "input_tokens": 2, "output_tokens": 5}\n'
    report = load_trace([write("t.jsonl", good + '[1, 2]\n5\n"x"\nnull\n{}\n')]).report
    assert report.rejected_count("time_missing") == 5
    assert report.rows_used == 1


@pytest.mark.parametrize("step_s", [1, 60])  # 60: coarse times, so that rows of one file tie too
def test_a_copy_under_another_name_is_not_counted_twice(write: Write, step_s: int) -> None:
    """Twice the demand would buy twice the fleet."""
    rows = "".join(
        f"{1_746_446_400 + i // step_s * step_s},{i * 37 % 2999 + 1},{i * 11 % 499 + 1}\n"
        for i in range(2_000)
    )
    content = "timestamp,input_tokens,output_tokens\n" + rows
    one = load_trace([write("a.csv", content)])
    files = [write("a.csv", content), write("b.csv.gz", gzip.compress(content.encode()))]
    both = load_trace(files)
    assert len(both.requests) == len(one.requests) == 2_000
    assert both.report.rejected_count("duplicate") == 2_000
    assert both.requests.input_tokens.tolist() == one.requests.input_tokens.tolist()


def test_equal_rows_of_two_replicas_that_chance_explains_are_kept(write: Write) -> None:
    """Two logs of one service with constant lengths and whole seconds: equal rows are requests."""
    content = "timestamp,input_tokens,output_tokens\n" + "".join(
        f"{1_746_446_400 + i},100,20\n" for i in range(500)
    )
    both = load_trace([write("a.csv", content), write("b.csv", content)])
    assert len(both.requests) == 1_000
    assert both.report.rejected_count("duplicate") == 0
