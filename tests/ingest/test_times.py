"""Arrival times: units, zones, calendars and clocks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from planner.ingest.load import load_trace

Write = Callable[..., str]
HEADER = "timestamp,input_tokens,output_tokens\n"
UTC = dt.UTC


@pytest.mark.parametrize(
    ("times", "arrival_s", "origin", "unit"),
    [
        (["0", "1.5"], [0, 1.5], "", "seconds from the start of the trace"),
        (["1746446400", "1746446401.5"], [0, 1.5], "2025-05-05T12:00:00.000000+00:00",
         "seconds since 1970"),
        (["1746446400000", "1746446401500"], [0, 1.5], "2025-05-05T12:00:00.000000+00:00",
         "milliseconds since 1970"),
        (["1746446400000000", "1746446401500000"], [0, 1.5], "2025-05-05T12:00:00.000000+00:00",
         "microseconds since 1970"),
        (["1746446400000000000", "1746446401500000000"], [0, 1.5],
         "2025-05-05T12:00:00.000000+00:00", "nanoseconds since 1970"),
        (["2025-05-05T12:00:00Z", "2025-05-05T12:00:01.500Z"], [0, 1.5],
         "2025-05-05T12:00:00.000000+00:00", "ISO 8601 text with an offset"),
        (["2025-05-05T14:00:00+02:00", "2025-05-05T07:00:01.5-05:00"], [0, 1.5],
         "2025-05-05T12:00:00.000000+00:00", "ISO 8601 text with an offset"),
        (["2025-05-05 12:00:00", "2025-05-05 12:00:01.5000000"], [0, 1.5],
         "2025-05-05T12:00:00.000000+00:00", "timestamps without a zone"),
        (["2025-05-05", "2025-05-06"], [0, 86400], "2025-05-05T00:00:00.000000+00:00",
         "timestamps without a zone"),
    ],
)  # fmt: skip
def test_text_times(
    write: Write, times: list[str], arrival_s: list[float], origin: str, unit: str
) -> None:
    trace = load_trace([write("t.csv", HEADER + "".join(f"{t},5,5\n" for t in times))])
    # Epoch nanoseconds pass through a float (256 ns); all else is exact to the microsecond.
    np.testing.assert_allclose(trace.requests.arrival_s, arrival_s, atol=1e-6)
    assert trace.requests.origin == origin
    assert trace.report.time_unit == unit


@pytest.mark.parametrize(
    ("name", "scale"),
    [("arrival_s", 1), ("arrival_ms", 1e3), ("timestamp_us", 1e6), ("arrival_time_ns", 1e9)],
)
def test_the_name_of_the_column_fixes_the_unit(write: Write, name: str, scale: float) -> None:
    rows = "".join(f"{int(t * scale)},5,5\n" for t in (0, 2, 3))
    trace = load_trace([write("t.csv", f"{name},input_tokens,output_tokens\n" + rows)])
    assert trace.requests.arrival_s.tolist() == [0, 2, 3]
    epoch = "".join(f"{int((1_746_446_400 + t) * scale)},5,5\n" for t in (0, 2, 3))
    trace = load_trace([write("e.csv", f"{name},input_tokens,output_tokens\n" + epoch)])
    np.testing.assert_allclose(trace.requests.arrival_s, [0, 2, 3], atol=1e-6)
    assert trace.requests.origin.startswith("2025-05-05T12:00:00")


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_a_declared_unit(write: Write, unit: str, scale: float) -> None:
    path = write("t.csv", HEADER + f"0,5,5\n{int(4 * scale)},5,5\n")
    assert load_trace([path], time_unit=unit).requests.arrival_s.tolist() == [0, 4]


def test_a_guessed_unit_is_an_assumption(write: Write) -> None:
    report = load_trace([write("t.csv", HEADER + "0,5,5\n60000,5,5\n")]).report
    assert any("--time-unit" in text and "seconds" in text for text in report.assumptions)


def test_negative_times_count_only_from_a_calendar(write: Write) -> None:
    report = load_trace([write("t.csv", HEADER + "-1,5,5\n0,5,5\n3,5,5\n")]).report
    assert report.rejected_count("time_negative") == 1


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_parquet_timestamps(tmp_path: Path, unit: str, zone: str | None) -> None:
    moments = [dt.datetime(2025, 5, 5, 12, 0, s, tzinfo=UTC) for s in (0, 2, 5)]
    column = pl.Series(moments).dt.cast_time_unit(unit)
    column = (
        column.dt.replace_time_zone(None) if zone is None else column.dt.convert_time_zone(zone)
    )
    path = tmp_path / "t.parquet"
    pl.DataFrame(
        {"timestamp": column, "input_tokens": [5, 6, 7], "output_tokens": [1, 2, 3]}
    ).write_parquet(path)
    trace = load_trace([str(path)])
    assert trace.requests.arrival_s.tolist() == [0, 2, 5]
    assert trace.requests.origin == "2025-05-05T12:00:00.000000+00:00"
    naive = [text for text in trace.report.assumptions if "carry no zone" in text]
    assert len(naive) == (zone is None)


def test_parquet_null_timestamp(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame(
        {"timestamp": [dt.datetime(2025, 5, 5, tzinfo=UTC), None],
         "input_tokens": [5, 5], "output_tokens": [5, 5]}
    ).write_parquet(path)  # fmt: skip
    report = load_trace([str(path)]).report
    assert report.rejected_count("time_missing") == 1
    assert "row 2" in str(report.rejected[0]["example"])


def test_several_files_share_one_clock(write: Write) -> None:
    one = write("a.csv", HEADER + "2025-05-05T12:00:00Z,1,5\n2025-05-05T12:00:10Z,3,5\n")
    two = write("b.csv", HEADER + "2025-05-05T12:00:05Z,2,5\n2025-05-05T12:00:10Z,4,5\n")
    trace = load_trace([one, two])
    assert trace.requests.input_tokens.tolist() == [1, 2, 3, 4]  # the tie keeps file order
    assert trace.requests.arrival_s.tolist() == [0, 5, 10, 10]
    assert not trace.report.flagged  # two files that overlap are not out of order
    assert trace.report.files == (one, two)


def test_relative_files_are_merged_and_it_is_said(write: Write) -> None:
    one = write("a.csv", "arrival_s,input_tokens,output_tokens\n0,1,5\n10,3,5\n")
    two = write("b.csv", "arrival_s,input_tokens,output_tokens\n5,2,5\n")
    trace = load_trace([one, two])
    assert trace.requests.input_tokens.tolist() == [1, 2, 3]
    assert any("merged, not joined" in text for text in trace.report.assumptions)
