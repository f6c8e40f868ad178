"""`planner catalog`: lists, entries, JSON, errors, and speed of what a user waits for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli.catalog import command
from planner.errors import InputError
from planner.spec import catalog


def run(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout, result.stderr


@pytest.mark.parametrize("kind", ["gpus", "models", "engines"])
def test_a_list_has_a_line_for_every_entry(kind: str) -> None:
    stdout, stderr = run(kind)
    entries = {"gpus": catalog.gpus, "models": catalog.models, "engines": catalog.engines}[kind]()
    lines = stdout.splitlines()
    assert len(lines) == 1 + len(entries)
    assert all(line.startswith(entry.id) for line, entry in zip(lines[1:], entries, strict=True))
    assert "source" in lines[0]
    assert "date" in lines[0]
    assert stderr == ""


def test_the_gpu_list_shows_memory_price_and_evidence() -> None:
    stdout, _ = run("gpus")
    lines = {line.split()[0]: line for line in stdout.splitlines()}
    assert "79.19" in lines["h100-sxm"]
    assert "2.95 (2026-05-20)" in lines["h100-sxm"]
    assert "aiconfigurator" in lines["h100-sxm"]
    assert lines["gb200"].count("—") == 2  # neither visible memory nor a price is known
    assert "65 (fp16)" in lines["t4"]


def test_the_model_list_names_attention_and_sisters() -> None:
    stdout, _ = run("models")
    lines = {line.split()[0]: line for line in stdout.splitlines()}
    assert "MLA, best 2,048" in lines["deepseek-ai/DeepSeek-V3.2"]
    assert "GQA 8, 18 in 128" in lines["openai/gpt-oss-120b"]
    assert "36 linear" in lines["Qwen/Qwen3-Next-80B-A3B-Instruct"]
    assert "meta-llama/Llama-3.3-70B-Instruct" in lines["meta-llama/Llama-3.1-70B-Instruct"]


def test_an_entry_is_shown_whole_and_an_alias_is_explained() -> None:
    stdout, stderr = run("gpus", "H100")
    assert stdout == catalog.catalog_text("gpus", "h100-sxm")
    assert "trap:" in stdout
    assert stderr == "H100: entry h100-sxm\n"
    assert run("gpus", "h100-sxm")[1] == ""


def test_a_shown_gpu_can_be_used_as_a_file(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(run("gpus", "mi300x")[0])
    assert catalog.gpu(str(own)) == catalog.gpu("mi300x")


def test_a_model_is_shown_with_its_parameters() -> None:
    stdout, stderr = run("models", "Llama-3.3-70B-Instruct")
    assert "#   total: 70553706496" in stdout
    assert "holds" not in stdout
    assert "entry meta-llama/Llama-3.1-70B-Instruct" in stderr


def test_a_local_config_is_shown_as_it_is_read(tmp_path: Path) -> None:
    config = catalog.catalog_file("models", "Qwen/Qwen3-8B")["config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    stdout, _ = run("models", str(tmp_path))
    assert "num_layers: 36" in stdout
    assert "#   total: 8190735360" in stdout


@pytest.mark.parametrize(
    ("arguments", "key", "expected"),
    [
        (("gpus", "h100"), "id", "h100-sxm"),
        (("engines", "vllm@0.11"), "version", "0.11"),
        (("engines", "vllm"), "version", "0.33"),
        (("models", "Llama-3.3-70B-Instruct"), "id", "meta-llama/Llama-3.3-70B-Instruct"),
    ],
)
def test_json_of_one(arguments: tuple[str, ...], key: str, expected: str) -> None:
    assert json.loads(run(*arguments, "--json")[0])[key] == expected


@pytest.mark.parametrize("kind", ["gpus", "models", "engines"])
def test_json_of_all(kind: str) -> None:
    stdout, _ = run(kind, "--json")
    data = json.loads(stdout)
    assert len(data) == len(run(kind)[0].splitlines()) - 1
    assert all(entry["source"] if kind != "gpus" else entry["memory"]["source"] for entry in data)


def test_an_unknown_id_is_an_input_error() -> None:
    with pytest.raises(InputError, match="unknown GPU 'h1000'; nearest: h100"):
        CliRunner().invoke(command, ["gpus", "h1000"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "unknown model ''"),
        ("x" * 300, "unknown model"),
        ("é/😀", "unknown model"),
        ("a\0b", "unknown model"),
        ("~nobody-of-that-name/config.json", "no such file"),
        ("./", "config.json: no such file"),
        ("/dev/null", "the file is empty"),
    ],
)
def test_odd_names_are_input_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(command, ["models", name], catch_exceptions=False)
