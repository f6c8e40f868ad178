"""Dirty rows: each is left out or marked under its own name, counted, and shown with its place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import numpy as np
import pytest

from planner.ingest.load import load_trace
from planner.ingest.report import IngestReport

HEADER = "timestamp,input_tokens,output_tokens\n"
GOOD = "2025-05-05T12:00:00Z,100,20\n2025-05-05T12:00:01Z,200,30\n"


def entry(report: IngestReport, reason: str) -> dict[str, object]:
    found = [dict(e) for e in (*report.rejected, *report.flagged) if e["reason"] == reason]
    assert len(found) == 1, [e["reason"] for e in (*report.rejected, *report.flagged)]
    assert set(found[0]) == {"reason", "count", "example", "effect"}
    assert found[0]["effect"]
    return found[0]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2025-05-05T12:00:02Z,,5", "input_tokens_missing"),
        ("2025-05-05T12:00:02Z,null,5", "input_tokens_missing"),
        ("2025-05-05T12:00:02Z,-,5", "input_tokens_missing"),
        ("2025-05-05T12:00:02Z,-1,5", "input_tokens_minus_one"),
        ("2025-05-05T12:00:02Z,0,5", "input_tokens_zero"),
        ("2025-05-05T12:00:02Z,-7,5", "input_tokens_negative"),
        ("2025-05-05T12:00:02Z,NaN,5", "input_tokens_not_finite"),
        ("2025-05-05T12:00:02Z,inf,5", "input_tokens_not_finite"),
        ("2025-05-05T12:00:02Z,many,5", "input_tokens_not_a_number"),
        ("2025-05-05T12:00:02Z,7.5,5", "input_tokens_fractional"),
        ("2025-05-05T12:00:02Z,10000001,5", "input_tokens_absurd"),
        ("2025-05-05T12:00:02Z,1e300,5", "input_tokens_absurd"),
        ("2025-05-05T12:00:02Z,5,", "output_tokens_missing"),
        ("2025-05-05T12:00:02Z,5,-1", "output_tokens_minus_one"),
        ("2025-05-05T12:00:02Z,5,0", "output_tokens_zero"),
        ("2025-05-05T12:00:02Z,5,-2", "output_tokens_negative"),
        ("2025-05-05T12:00:02Z,5,nan", "output_tokens_not_finite"),
        ("2025-05-05T12:00:02Z,5,-Infinity", "output_tokens_not_finite"),
        ("2025-05-05T12:00:02Z,5,x", "output_tokens_not_a_number"),
        ("2025-05-05T12:00:02Z,5,0.5", "output_tokens_fractional"),
        ("2025-05-05T12:00:02Z,5,99999999", "output_tokens_absurd"),
        (",5,5", "time_missing"),
        ("-,5,5", "time_missing"),
        ("yesterday,5,5", "time_unparsable"),
        ("2025-13-05T12:00:02Z,5,5", "time_unparsable"),
        ("0,5,5", "time_out_of_range"),
        ("12345,5,5", "time_out_of_range"),
        ("1970-01-01T00:00:00Z,5,5", "time_out_of_range"),
        ("9999-01-01T00:00:00Z,5,5", "time_out_of_range"),
        ("nan,5,5", "time_not_finite"),
        ("2025-05-05T12:00:02Z,5", "wrong_column_count"),
        ("2025-05-05T12:00:02Z,5,5,5", "wrong_column_count"),
    ],
)
def test_unusable_row_of_a_csv(write: Callable[..., str], row: str, reason: str) -> None:
    path = write("t.csv", HEADER + GOOD + row + "\n" + "2025-05-05T12:00:09Z,300,40\n")
    trace = load_trace([path])
    assert trace.requests.input_tokens.tolist() == [100, 200, 300]
    found = entry(trace.report, reason)
    assert found["count"] == 1
    assert str(found["example"]).startswith(f"{path}:4: ")
    assert trace.report.rows_read == 4
    assert trace.report.rejected_count() == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"input_tokens": None}, "input_tokens_missing"),
        ({"input_tokens": -1}, "input_tokens_minus_one"),
        ({"input_tokens": 0}, "input_tokens_zero"),
        ({"input_tokens": float("nan")}, "input_tokens_not_finite"),
        ({"input_tokens": True}, "input_tokens_not_a_number"),
        ({"input_tokens": [5]}, "input_tokens_not_a_number"),
        ({"output_tokens": None}, "output_tokens_missing"),
        ({"output_tokens": "-1"}, "output_tokens_minus_one"),
        ({"timestamp": None}, "time_missing"),
        ({"timestamp": {"at": 5}}, "time_unparsable"),
    ],
)
def test_unusable_record_of_json_lines(
    write: Callable[..., str], fields: dict[str, object], reason: str
) -> None:
    good = {"timestamp": 1_746_446_400.5, "input_tokens": 10, "output_tokens": 5}
    rows = [good, {**good, "timestamp": 1_746_446_401.5, **fields}]
    path = write("t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    trace = load_trace([path])
    assert len(trace.requests) == 1
    assert entry(trace.report, reason)["count"] == 1
    assert str(entry(trace.report, reason)["example"]).startswith(f"{path}:2: ")


def test_null_zero_and_minus_one_are_three_things(write: Callable[..., str]) -> None:
    rows = "".join(f"2025-05-05T12:00:{10 + i}Z,5,{v}\n" for i, v in enumerate(["", 0, -1, -1, ""]))
    report = load_trace([write("t.csv", HEADER + GOOD + rows + "2025-05-05T12:00:20Z,5,\n")]).report
    assert {e["reason"]: e["count"] for e in report.rejected} == {
        "output_tokens_missing": 3,
        "output_tokens_minus_one": 2,
        "output_tokens_zero": 1,
    }
    assert report.requests_seen == 8
    assert report.input_tokens_seen == 300 + 6 * 5


def test_what_is_missing_from_the_demand_is_said_with_the_factor(write: Callable[..., str]) -> None:
    rows = "".join(f"2025-05-05T12:01:{i:02}Z,5,5\n" for i in range(7))
    report = load_trace(
        [write("t.csv", HEADER + GOOD + rows + "2025-05-05T12:02:00Z,5,0\n")]
    ).report
    effect = str(entry(report, "output_tokens_zero")["effect"])
    assert "10.00%" in effect
    assert "multiply sample_rate by 0.9" in effect


@pytest.mark.parametrize(
    ("status", "output", "reason"),
    [
        ("error", "0", "failed"),
        ("error", "", "failed"),
        ("failure", "-1", "failed"),
        ("500", "0", "failed"),
        ("429", "", "failed"),
        ("499", "0", "output_unknown_cancelled"),
        ("cancelled", "0", "output_unknown_cancelled"),
        ("Aborted", "", "output_unknown_cancelled"),
        ("ok", "0", "output_tokens_zero"),
        ("200", "0", "output_tokens_zero"),
        ("", "0", "output_tokens_zero"),
    ],
)
def test_status_says_what_no_output_means(
    write: Callable[..., str], status: str, output: str, reason: str
) -> None:
    text = "timestamp,input_tokens,output_tokens,status\n2025-05-05T12:00:00Z,9,9,ok\n"
    report = load_trace(
        [write("t.csv", text + f"2025-05-05T12:00:01Z,5,{output},{status}\n")]
    ).report
    assert entry(report, reason)["count"] == 1
    assert report.requests_seen == 2


def test_partial_output_of_a_failed_request_is_load_and_is_kept(write: Callable[..., str]) -> None:
    text = "timestamp,input_tokens,output_tokens,status\n2025-05-05T12:00:00Z,9,9,error\n"
    trace = load_trace([write("t.csv", text)])
    assert trace.requests.output_tokens.tolist() == [9]
    assert entry(trace.report, "incomplete_output")["count"] == 1


def test_numbers_as_text(write: Callable[..., str]) -> None:
    rows = '2025-05-05T12:00:02Z,"1,234,567",7.0\n2025-05-05T12:00:03Z," 15,872 ",12\n'
    trace = load_trace([write("t.csv", HEADER + GOOD + rows)])
    assert trace.requests.input_tokens.tolist() == [100, 200, 1_234_567, 15_872]
    assert trace.requests.output_tokens.tolist() == [20, 30, 7, 12]
    assert entry(trace.report, "thousands_separator")["count"] == 2
    assert entry(trace.report, "decimal_token_count")["count"] == 1


def test_a_comma_that_separates_no_thousands_is_no_number(write: Callable[..., str]) -> None:
    path = write("t.csv", HEADER + GOOD + '2025-05-05T12:00:02Z,"12,34",7\n')
    assert entry(load_trace([path]).report, "input_tokens_not_a_number")["count"] == 1


def test_cut_last_line_of_a_csv(write: Callable[..., str]) -> None:
    path = write("t.csv", HEADER + GOOD + "2025-05-05T12:0")
    report = load_trace([path]).report
    assert entry(report, "cut_last_line")["example"] == f"{path}:4: 2025-05-05T12:0"


def test_cut_last_line_of_json_lines(write: Callable[..., str]) -> None:
    good = '{"timestamp": 1746446400, "input_tokens": 5, "output_tokens": 5}\n'
    path = write("t.jsonl", good + '{"timestamp": 1746446401, "inp')
    report = load_trace([path]).report
    assert str(entry(report, "cut_last_line")["example"]).startswith(f"{path}:2: ")
    path = write("u.jsonl", good + '{"timestamp": 1746446401, "inp\n' + good)
    report = load_trace([path]).report
    assert str(entry(report, "invalid_json")["example"]).startswith(f"{path}:2: ")


def test_cut_line_of_a_log_with_many_requests_a_line(write: Callable[..., str]) -> None:
    line = '{"timestamp": 0, "requests": [{"Prompt Length": 5, "Output Length": 5}]}\n'
    report = load_trace([write("t.jsonl", line + line[:-20])]).report
    assert entry(report, "cut_last_line")["count"] == 1


def test_unclosed_quote(write: Callable[..., str]) -> None:
    path = write("t.csv", HEADER + GOOD + '2025-05-05T12:00:02Z,"5,7\n')
    report = load_trace([path]).report
    assert report.rows_used == 2
    assert entry(report, "broken_line")["count"] == 1


def test_bom_crlf_and_blank_lines(write: Callable[..., str]) -> None:
    text = "\r\n" + HEADER + "\n" + GOOD + "\n\n" + "2025-05-05T12:00:02Z,-1,7\n\n"
    path = write(
        "t.csv", b"\xef\xbb\xbf" + text.replace("\r\n", "\n").replace("\n", "\r\n").encode()
    )
    trace = load_trace([path])
    assert len(trace.requests) == 2
    assert entry(trace.report, "byte_order_mark")["count"] == 1
    assert entry(trace.report, "blank_lines")["count"] == 5
    # Line 1 blank, 2 header, 3 blank, 4 and 5 good, 6 and 7 blank, 8 the bad row.
    assert str(entry(trace.report, "input_tokens_minus_one")["example"]).startswith(f"{path}:8: ")


def test_blank_lines_of_json_lines_do_not_shift_places(write: Callable[..., str]) -> None:
    good = '{"timestamp": 1746446400, "input_tokens": 5, "output_tokens": 5}'
    bad = good.replace("400", "401").replace('"output_tokens": 5', '"output_tokens": 0')
    path = write("t.jsonl", f"\ufeff{good}\r\n\r\n  \n{bad}\n\n")
    report = load_trace([path]).report
    assert str(entry(report, "output_tokens_zero")["example"]).startswith(f"{path}:4: ")
    assert entry(report, "blank_lines")["count"] == 3


def test_unreadable_lines_do_not_shift_places(write: Callable[..., str]) -> None:
    path = write("t.csv", HEADER + "a,b\n" + GOOD + "c,d,e,f\n" + "2025-05-05T12:00:05Z,0,7\n")
    report = load_trace([path]).report
    assert entry(report, "wrong_column_count")["count"] == 2
    assert str(entry(report, "wrong_column_count")["example"]).startswith(f"{path}:2: ")
    assert str(entry(report, "input_tokens_zero")["example"]).startswith(f"{path}:6: ")


def test_quoted_line_ends_do_not_shift_places(write: Callable[..., str]) -> None:
    text = 'timestamp,input_tokens,output_tokens,note\n2025-05-05T12:00:00Z,5,5,"two\nlines"\n'
    path = write("t.csv", text + "2025-05-05T12:00:05Z,0,7,x\n")
    report = load_trace([path]).report
    assert str(entry(report, "input_tokens_zero")["example"]).startswith(f"{path}:4: ")


def test_the_example_never_shows_the_prompt(write: Callable[..., str]) -> None:
    row = {"timestamp": 1746446400, "input_tokens": 5, "output_tokens": 5, "prompt": "secret"}
    text = json.dumps(row) + "\n" + json.dumps({**row, "input_tokens": 0}) + "\n"
    report = load_trace([write("t.jsonl", text)]).report
    assert "secret" not in str(report.rejected)


def test_out_of_order_is_sorted_and_counted(write: Callable[..., str]) -> None:
    rows = "".join(f"2025-05-05T12:00:{s:02}Z,{s},1\n" for s in (5, 3, 4, 9, 8))
    trace = load_trace([write("t.csv", HEADER + rows)])
    assert trace.requests.input_tokens.tolist() == [3, 4, 5, 8, 9]
    assert entry(trace.report, "out_of_order")["count"] == 2


def test_ties_keep_file_order(write: Callable[..., str]) -> None:
    rows = "".join(f"2025-05-05T12:00:{s:02}Z,{t},1\n" for s, t in [(5, 1), (3, 2), (5, 3), (3, 4)])
    trace = load_trace([write("t.csv", HEADER + rows)])
    assert trace.requests.input_tokens.tolist() == [2, 4, 1, 3]


def test_rows_logged_twice_are_dropped(write: Callable[..., str]) -> None:
    rng = np.random.default_rng(7)
    rows = [
        f"2025-05-05T12:{i // 60:02}:{i % 60:02}.{rng.integers(1000):03}Z,"
        f"{rng.integers(1, 9000)},{rng.integers(1, 900)}\n"
        for i in range(300)
    ]
    text = "".join(row * (2 if i in (10, 20, 299) else 1) for i, row in enumerate(rows))
    trace = load_trace([write("t.csv", HEADER + text)])
    assert len(trace.requests) == 300
    found = entry(trace.report, "duplicate")
    assert found["count"] == 3
    assert ":13: " in str(found["example"])  # header, ten rows, the first copy, the second


def test_equal_rows_that_chance_explains_are_kept(write: Callable[..., str]) -> None:
    # Whole seconds, two kinds of request: equal rows in one second are what one expects.
    rng = np.random.default_rng(3)
    seconds = np.sort(rng.integers(0, 3000, 2000))
    rows = "".join(
        f"{1_746_446_400 + s},{100 * (1 + k)},{10 * (1 + k)}\n"
        for s, k in zip(seconds, rng.integers(0, 2, 2000), strict=True)
    )
    trace = load_trace([write("t.csv", HEADER + rows)])
    assert len(trace.requests) == 2000
    found = entry(trace.report, "possible_duplicate")
    assert found["count"] > 100
    assert "kept" in str(found["effect"])


def test_request_ids_settle_what_is_a_duplicate(write: Callable[..., str]) -> None:
    head = "timestamp,input_tokens,output_tokens,request_id\n"
    rows = [f"{1_746_446_400 + i // 3},5,5,r{i}\n" for i in range(30)]
    trace = load_trace([write("t.csv", head + "".join(rows) + rows[4])])
    assert len(trace.requests) == 30  # three equal rows a second, but each with its own id
    assert entry(trace.report, "duplicate")["count"] == 1


def test_a_retry_under_the_same_id_is_load_and_is_marked(write: Callable[..., str]) -> None:
    head = "timestamp,input_tokens,output_tokens,request_id\n"
    trace = load_trace([write("t.csv", head + "1746446400,5,5,a\n1746446401,5,5,a\n")])
    assert len(trace.requests) == 2
    assert entry(trace.report, "repeated_request_id")["count"] == 1


def test_cached_tokens(write: Callable[..., str]) -> None:
    head = "timestamp,input_tokens,output_tokens,cached_tokens\n"
    rows = "1746446400,50,5,\n1746446401,50,5,60\n1746446402,50,5,0\n1746446403,50,5,-1\n"
    trace = load_trace([write("t.csv", head + rows)])
    assert trace.requests.cached_tokens.tolist() == [0, 50, 0, 0]
    assert entry(trace.report, "cached_unknown")["count"] == 2  # null and −1, not 0
    assert entry(trace.report, "cached_exceeds_input")["count"] == 1


def test_false_full_hit_rate_of_disaggregated_logs(write: Callable[..., str]) -> None:
    head = "timestamp,input_tokens,output_tokens,cached_tokens\n"
    rows = "".join(f"{1_746_446_400 + i},{i + 2},5,{i + 1}\n" for i in range(120))
    report = load_trace([write("t.csv", head + rows)]).report
    assert entry(report, "cached_always_all")["count"] == 120


def test_latencies_that_cannot_be(write: Callable[..., str]) -> None:
    head = "timestamp,input_tokens,output_tokens,ttft_ms,e2e_s\n"
    rows = "1746446400,50,5,250,1.5\n1746446401,50,5,-1,1.5\n1746446402,50,5,,nan\n"
    trace = load_trace([write("t.csv", head + rows)])
    np.testing.assert_array_equal(trace.requests.observed_ttft_s, [0.25, np.nan, np.nan])
    np.testing.assert_array_equal(trace.requests.observed_e2e_s, [1.5, 1.5, np.nan])
    assert entry(trace.report, "latency_invalid")["count"] == 2


def test_block_count_that_does_not_fit_the_prompt(write: Callable[..., str]) -> None:
    rows = [
        {"timestamp": i * 1000, "input_length": 1000, "output_length": 5, "hash_ids": [i, i + 100]}
        for i in range(5)
    ]
    rows[3]["hash_ids"] = [3]
    path = write("t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    report = load_trace([path]).report
    assert report.format == "mooncake"
    assert entry(report, "block_count_mismatch")["count"] == 1


def test_mixed_time_notations_are_each_read_and_marked(write: Callable[..., str]) -> None:
    times = [
        "1746446400.25",
        "1746446401250",
        "2025-05-05T12:00:02.25Z",
        "2025-05-05T12:00:03.25",
        "2025-05-05T14:00:04.250+02:00",
        "1746446405250000",
        "1746446406250000000",
    ]
    path = write("t.csv", HEADER + "".join(f"{t},{i + 1},1\n" for i, t in enumerate(times)))
    trace = load_trace([path])
    # Epoch nanoseconds pass through a float: resolution 256 ns.
    np.testing.assert_allclose(trace.requests.arrival_s, range(7), atol=1e-6)
    assert trace.requests.input_tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert entry(trace.report, "mixed_time_formats")["count"] == 5
    assert "1 arrival times carry no zone: taken as UTC" in trace.report.assumptions


def test_failed_rows_of_burstgpt_keep_their_reason(write: Callable[..., str]) -> None:
    text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    text += "5,ChatGPT,10,20,30,API log\n7,ChatGPT,10,0,10,API log\n"
    report = load_trace([write("t.csv", text)]).report
    assert entry(report, "output_tokens_zero")["count"] == 1


def test_rag_style_text_seconds(write: Callable[..., str]) -> None:
    rows = [{"timestamp": str(i), "input_tokens": 5, "output_tokens": 5} for i in (0, 3, 2)]
    trace = load_trace([write("t.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + "\n")])
    assert trace.requests.arrival_s.tolist() == [0.0, 2.0, 3.0]
    assert trace.report.time_unit == "seconds from the start of the trace"


def test_gzip_is_transparent(write: Callable[..., str]) -> None:
    data = (HEADER + GOOD + "2025-05-05T12:00:05Z,0,7\n").encode()
    path = write("t.csv.gz", gzip.compress(data))
    trace = load_trace([path])
    assert len(trace.requests) == 2
    assert str(entry(trace.report, "input_tokens_zero")["example"]).startswith(f"{path}:4: ")
    renamed = write("t.log", gzip.compress(data))  # content decides, not the name
    assert len(load_trace([renamed]).requests) == 2
