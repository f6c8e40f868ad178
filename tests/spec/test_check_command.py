"""`planner check` as a user runs it."""

import json
import os

from click.testing import CliRunner

from planner.cli.check import command
from planner.cli.main import main

GOOD = "model: meta-llama/Llama-3.1-8B-Instruct\nslo: {ttft_s: {p99: 4.0}}\n"
BAD = "model: meta-llama/Llama-3.1-8B-Instruct\nslo: {ttft_ms: {p99: 4000}}\ngrowth: 15\n"


def run(tmp_path, text, *options):
    (tmp_path / "slo.yaml").write_text(text)
    return CliRunner().invoke(command, [str(tmp_path / "slo.yaml"), *options])


def test_a_good_file(tmp_path):
    result = run(tmp_path, GOOD)
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == f"{tmp_path}/slo.yaml: OK"
    assert "model   meta-llama/Llama-3.1-8B-Instruct (LlamaForCausalLM, bf16)" in lines
    assert "  all  every request" in lines
    assert "       TTFT p99 ≤ 4 s" in lines
    assert "  headroom                 0.1" in lines


def test_warnings_go_to_stderr(tmp_path):
    result = run(tmp_path, GOOD + "growth: 5\n")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: ")
    assert "slo.yaml:3:9 growth: 5 is unusual" in result.stderr
    assert "unusual" not in result.stdout


def test_json_of_a_good_file(tmp_path):
    data = json.loads(run(tmp_path, GOOD, "--json").stdout)
    assert data["ok"] is True
    assert data["slo"]["classes"][0]["targets"] == [
        {"metric": "ttft_s", "percentile": 99.0, "limit_s": 4.0}
    ]
    assert data["defaults"]["headroom"] == 0.1
    assert set(data["defaults"]) == set(data["slo"]["defaulted"])


def test_json_of_a_bad_file(tmp_path):
    result = run(tmp_path, BAD, "--json")
    assert result.exit_code == 2
    problems = json.loads(result.stdout)["problems"]
    assert [(p["line"], p["column"], p["path"]) for p in problems] == [
        (2, 7, "slo.ttft_ms"),
        (3, 9, "growth"),
    ]
    assert problems[0]["hint"] == "declare seconds as ttft_s: {p99: 4}"


def test_a_bad_file_through_the_whole_command(tmp_path, capsys):
    (tmp_path / "slo.yaml").write_text(BAD)
    try:
        main(["check", str(tmp_path / "slo.yaml")])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"error: {tmp_path}/slo.yaml:") for line in lines)


def test_the_example_at_the_top_is_valid(root, monkeypatch):
    monkeypatch.chdir(root)
    result = CliRunner().invoke(command, ["slo.yaml"])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


def test_json_of_a_file_whose_name_is_not_utf8(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/n\xff.yaml")
    result = CliRunner().invoke(command, [name, "--json"])
    assert result.exit_code == 2
    result.stdout.encode()
    assert json.loads(result.stdout)["problems"][0]["file"] == name


def test_a_model_in_the_home_of_nobody_is_a_problem_with_a_place(tmp_path):
    text = "model: ~nobody-of-that-name/config.json\nslo: {ttft_s: {p99: 4.0}}\n"
    result = run(tmp_path, text, "--json")
    assert result.exit_code == 2
    (problem,) = json.loads(result.stdout)["problems"]
    assert (problem["line"], problem["path"]) == (1, "model")
    assert "no such file" in problem["message"]
