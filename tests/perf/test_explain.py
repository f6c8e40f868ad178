"""`planner explain` and docs/equations.md."""

import json

import pytest
from click.testing import CliRunner

from planner.cli.explain import command
from planner.errors import InputError
from planner.perf.equations import EQUATIONS, find
from planner.perf.equations.document import equations_markdown
from planner.perf.explain import explain

SEED = [
    "--parameters",
    "7e9",
    "--flops",
    "300e12",
    "--bandwidth",
    "2e12",
    "--kv-bytes-per-token",
    "524288",
    "--decodes",
    "32",
    "--context",
    "2048",
]


def run(*arguments):
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_document_is_what_the_registry_says(root):
    written = (root / "docs" / "equations.md").read_text(encoding="utf-8")
    assert written == equations_markdown(), (
        "run: python -m planner.perf.equations.document > docs/equations.md"
    )


def test_document_names_every_equation():
    text = equations_markdown()
    for item in EQUATIONS.values():
        assert f"`{item.id}`" in text
        assert item.formula in text


def test_seed_chunk():
    text = run("chunk", *SEED)
    assert "C* = R·(w + D·S·k)/φ − D·(γ + 1)" in text
    assert "C* = 486.14 tokens" in text
    assert "518.14 tokens" in text  # the engine's flag beside it


def test_seed_table():
    lines = run("chunk-table", *SEED, "--prompt", "4096", "--chunks", "128,486,2048,4096")
    rows = [line.split() for line in lines.splitlines()[1:]]
    assert [row[0] for row in rows] == ["128", "486", "2048", "4096"]
    assert [row[1] for row in rows] == ["24.2", "24.2", "97.1", "192.6"]
    assert [row[3] for row in rows] == ["memory", "both", "compute", "compute"]
    assert [row[6] for row in rows] == ["32", "9", "2", "1"]


def test_catalogue_model_and_gpu():
    shown = json.loads(
        run("chunk", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "h100", "--json",
            "--decodes", "32", "--context", "2048")
    )  # fmt: skip
    # R = 989.4/3.35; k = 131,072; P = 8,030,261,248.
    ridge, weights = 989.4e12 / 3.35e12, 2 * 8_030_261_248
    assert shown["result"]["value"] == pytest.approx(
        ridge * (1 + 32 * 2048 * 131_072 / weights) - 32, rel=1e-9
    )


def test_derived_values_say_how():
    shown = explain(
        find("ttft"),
        {
            "parameters": 7e9,
            "flops_per_s": 300e12,
            "bandwidth_bytes_per_s": 2e12,
            "kv_per_token": 524_288,
            "decode_seqs": 32,
            "context_tokens": 2048,
            "prompt_tokens": 4096,
            "chunk_tokens": 128,
        },
    )
    assert shown.result == pytest.approx(0.774, abs=0.0005)
    assert [v.origin for v in shown.values] == ["given", "given", "step_s"]


def test_no_solution_is_said():
    text = run("largest-chunk", *SEED, "--limit", "0.02")
    assert "none" in text.splitlines()[-4]


def test_every_missing_number_is_named_at_once():
    with pytest.raises(InputError) as caught:
        explain(find("chunk"), {"decode_seqs": 32})
    message = str(caught.value)
    for name in ("token_flops", "weights", "kv_per_token", "context_tokens", "ridge"):
        assert f"--set {name}=" in message


def test_unknown_equation_offers_the_nearest():
    with pytest.raises(InputError, match="did you mean 'chunk'"):
        find("chunkk")


def test_bad_numbers_are_refused_together():
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(
            command, ["md1", "--set", "nonsense=1", "--set", "service_s=x"], catch_exceptions=False
        )
    assert len(caught.value.problems) == 2


def test_every_equation_prints_its_example():
    for name in EQUATIONS:
        assert EQUATIONS[name].symbol in run(name)


def test_listing_names_them_all():
    text = run()
    assert all(name in text for name in EQUATIONS)
    assert len(json.loads(run("--json"))) == len(EQUATIONS)
