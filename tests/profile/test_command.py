"""`planner profile` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli.main import cli
from planner.errors import InputError
from planner.profile.store import read_profile

SLO = """\
model: meta-llama/Llama-3.1-8B-Instruct
sample_rate: 0.05
classes:
  chat:
    match: {class: chat}
    slo: {ttft_s: {p99: 1.0}}
  rest:
    slo: {ttft_s: {p99: 9.0}}
"""


@pytest.fixture(scope="module")
def week(root: Path) -> str:
    return str(root / "traces" / "week42.parquet")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["profile", *arguments])


def test_the_screen_names_classes_windows_and_what_was_set_aside(week: str) -> None:
    done = run(week)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert max(len(line) for line in lines[1:]) <= 132  # the first names the file as given
    assert len(lines) < 60  # one screen
    text = done.stdout
    for name in ("all", "chat", "rag", "agent", "batch"):
        assert name in text
    assert "7 days" in lines[0]
    assert "busiest hour by prompt tokens" in text
    assert any(line.startswith("set aside") for line in lines)
    assert "prefix reuse" in done.stderr  # the log says nothing about it
    assert "warning" not in done.stdout


def test_json_is_the_profile_and_nothing_else(week: str, tmp_path: Path) -> None:
    target = tmp_path / "profile.json"
    done = run("--trace", week, "--json", "--output", str(target))
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["requests"] == read_profile(target).requests
    assert done.stdout == target.read_text()
    assert sum(item["requests"] for item in data["classes"]) == data["requests"]
    assert len(data["total"]["hour_of_week"]) == 168
    assert {item["name"] for item in data["classes"] if item["sessions"] is None} == {"batch"}


def test_classes_come_from_the_slo_file(week: str, tmp_path: Path) -> None:
    slo = tmp_path / "slo.yaml"
    slo.write_text(SLO)
    done = run(week, "--slo", str(slo), "--json")
    assert done.exit_code == 0, done.output
    assert [item["name"] for item in json.loads(done.stdout)["classes"]] == ["chat", "rest"]
    assert "sample_rate is 0.05: rates and counts here are the log's" in done.stderr
    assert "class chat" not in done.stderr  # it reaches 1,000 in its busiest hour


def test_a_class_without_requests_is_an_input_error(week: str, tmp_path: Path) -> None:
    slo = tmp_path / "slo.yaml"
    slo.write_text(SLO.replace("{class: chat}", "{class: voice}"))
    done = run(week, "--slo", str(slo))
    assert isinstance(done.exception, InputError)
    assert "voice" in str(done.exception)


def test_no_trace_is_a_usage_error() -> None:
    done = run()
    assert done.exit_code == 2
    assert "name at least one trace" in done.output


def test_a_missing_trace_is_an_input_error(tmp_path: Path) -> None:
    done = run(str(tmp_path / "absent.parquet"))
    assert isinstance(done.exception, InputError)
    assert "absent.parquet" in str(done.exception)


def test_the_unit_of_relative_times_can_be_said(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    rows = "".join(f"{i * 1000},{i + 1},5\n" for i in range(11))
    trace.write_text("timestamp,input_tokens,output_tokens\n" + rows)
    for unit, span_s in ((), 10_000.0), (("--time-unit", "ms"), 10.0):
        done = run(str(trace), "--json", *unit)
        assert json.loads(done.stdout)["span_s"] == span_s
    assert "--time-unit" in str(run(str(trace), "--time-unit", "min").exception)


def test_file_and_class_names_stay_on_their_line(tmp_path: Path) -> None:
    trace = tmp_path / "two\nlines.csv"
    trace.write_text(
        'class,timestamp,input_tokens,output_tokens\n"a\nb",1746446400,5,5\nc,1746446401,5,5\n'
    )
    done = run(str(trace))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(str(trace).replace("\n", r"\n"))
    assert r"a\nb" in done.stdout
