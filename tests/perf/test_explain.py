"""`planner explain` and docs/equations.md."""

import json

import pytest
from click.testing import CliRunner

from planner.cli.explain import command
from planner.errors import InputError
from planner.perf.equations import EQUATIONS, find
from planner.perf.equations.document import equations_markdown
from planner.perf.explain import explain, fitting, model_values
from planner.perf.kv_reads import KvReads
from planner.perf.layers import index_bytes_per_token, kv_elements_per_token
from planner.perf.memory import stored_weight_bytes
from planner.perf.parameters import parameters
from planner.spec import catalog

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


def value(*arguments):
    return json.loads(run(*arguments, "--json"))["result"]["value"]


def test_kv_of_every_build_of_model():
    """Cached elements of one token times layers and bytes, from the published shapes."""
    # MLA caches a latent of 512 and a rotary key of 64 in 61 layers, once on every GPU.
    assert value("kv", "--model", "deepseek-ai/DeepSeek-V3") == 61 * 576 * 2
    assert value("kv", "--model", "deepseek-ai/DeepSeek-V3", "--tp", "8") == 8 * 61 * 576 * 2
    # GQA: 8 heads of 128; 16 GPUs hold 16 heads, each of them twice.
    llama = ("kv", "--model", "llama-3.1-70b-instruct")
    assert value(*llama) == 2 * 80 * 8 * 128 * 2
    assert value(*llama, "--kv-cache-dtype", "fp8") == 163_840
    assert value(*llama, "--tp", "8") == 2 * 80 * 8 * 128 * 2
    assert value(*llama, "--tp", "16") == 655_360


def test_kv_format_counts_without_a_model():
    sizes = ["--set", "layers=32", "--set", "kv_heads=8", "--set", "head_dim=128"]
    assert value("kv", *sizes) == 131_072
    assert value("kv", *sizes, "--kv-cache-dtype", "fp8") == 65_536


def test_explain_kv_is_what_the_memory_account_caches():
    """Every model of the catalogue, against the elements per rank that size its KV cache."""
    for model in catalog.models():
        for tp in (1, 2, 4, 8, 16):
            rank = kv_elements_per_token(model, tp) * 2.0 + index_bytes_per_token(model)
            given = model_values(model, model.weight_dtype, "bf16", tp)
            shown = explain(fitting(find("kv"), given), given)
            assert shown.result == pytest.approx(tp * model.attention_layers * rank), (model.id, tp)


WINDOWED = ["--gpu", "h100", "--decodes", "5", "--context", "13151"]


def test_windows_are_read_no_further_than_they_reach():
    # Gemma 3 27B: 10 layers read 13,151 tokens, 52 their last 1,024; 16 heads of 128 at 16 bit.
    read = 5 * (10 * 13_151 + 52 * 1024) * 2 * 16 * 128 * 2
    phi = weights = 54.8648e9  # 2P of a dense model at 16 bit
    gemma = ("--model", "google/gemma-3-27b-it", *WINDOWED)
    floor = value("floor", *gemma)
    assert floor == pytest.approx((weights + read) / 3.35e12, rel=1e-5)
    assert floor - weights / 3.35e12 == pytest.approx(2.25e-3, rel=0.01)
    assert value("chunk", *gemma) == pytest.approx(
        989.4 / 3.35 * (weights + read) / phi - 5, rel=1e-5
    )
    assert value("chunk", *gemma) == pytest.approx(331, abs=0.5)
    # gpt-oss: 18 layers of 36 read 128 tokens; 8 heads of 64.
    oss = value("kv-read", "--model", "openai/gpt-oss-120b", "--context", "13151")
    assert oss * 13_151 == pytest.approx(18 * (13_151 + 128) * 2 * 8 * 64 * 2)


def test_a_given_k_is_taken_at_its_word():
    numbers = ["--model", "google/gemma-3-27b-it", *WINDOWED, "--kv-bytes-per-token", "0"]
    assert value("floor", *numbers) == pytest.approx(54.8648e9 / 3.35e12, rel=1e-5)


def test_memory_bound_context_of_windows_is_where_the_bytes_reach_the_ridge():
    bound = value("memory-bound", "--model", "openai/gpt-oss-120b", "--gpu", "h100",
                  "--set", "token_flops=1e13")  # fmt: skip
    read = 18 * (bound + 128) * 2 * 8 * 64 * 2
    peak = catalog.gpu("h100").peak_flops_per_s["bf16"]
    assert bound > 128
    assert 1e13 / read == pytest.approx(peak / 3.35e12)


def test_no_context_is_memory_bound_where_every_layer_forgets():
    reads = KvReads(full_bytes_per_token=0.0, window_bytes_per_token=1e5, window_tokens=128)
    assert reads.memory_bound_context_tokens(1e6, 1.0) == 10.0
    assert reads.memory_bound_context_tokens(1e9, 1.0) == float("inf")


def test_weights_keep_what_a_format_leaves_at_16_bit():
    # 8 B in fp8: one byte of 8.03e9, a second of 2 × 128,256 × 4,096 and the norms.
    eight = value("floor", "--model", "llama-3.1-8b-instruct", "--weight-dtype", "fp8",
                  "--gpu", "h100", "--decodes", "0", "--context", "1")  # fmt: skip
    kept = 2 * 128_256 * 4096 + 65 * 4096
    assert eight * 3.35e12 == pytest.approx(8_030_261_248 + kept)
    # gpt-oss-120b: experts at 4.25 bit (their biases with them), all else at 16. Its published
    # checkpoint holds 65.2e9 B.
    experts = 36 * 128 * (3 * 2880 * 2880 + 2 * 2880 + 2880)
    total = parameters(catalog.model("openai/gpt-oss-120b")).total
    stored = stored_weight_bytes(catalog.model("openai/gpt-oss-120b"), "mxfp4")
    assert stored == pytest.approx(experts * 4.25 / 8 + 2 * (total - experts))
    assert stored == pytest.approx(65.2e9, rel=0.002)


def test_weights_at_16_bit_are_two_bytes_of_every_parameter():
    for model in catalog.models():
        assert stored_weight_bytes(model, "bf16") == pytest.approx(2 * parameters(model).total)


def test_weight_format_counts_without_a_model():
    numbers = ["--parameters", "7e9", "--bandwidth", "2e12", "--kv-bytes-per-token", "0",
               "--decodes", "0", "--context", "1"]  # fmt: skip
    assert value("floor", *numbers, "--weight-dtype", "fp8") == pytest.approx(3.5e-3)


def test_a_layout_that_does_not_divide_the_heads_is_refused():
    words = ["chunk", "--model", "llama-3.1-70b-instruct", "--gpu", "h100", "--tp", "3"]
    with pytest.raises(InputError, match=r"--tp 3.*does not divide the 64 attention heads"):
        CliRunner().invoke(command, words, catch_exceptions=False)
