"""Parameters part by part, against arithmetic done by hand."""

from __future__ import annotations

import pytest

from planner.perf.parameters import parameters
from planner.spec import catalog


def test_llama_2_7b_part_by_part() -> None:
    counted = parameters(catalog.model("meta-llama/Llama-2-7b-hf"))
    assert counted.embedding == counted.lm_head == 32_000 * 4096
    assert counted.attention == 32 * 4 * 4096 * 4096
    assert counted.dense_mlp == 32 * 3 * 4096 * 11_008
    assert counted.norms == 65 * 4096
    assert counted.biases == counted.routed_experts == counted.router == counted.extra == 0


def test_mixtral_resident_and_active_experts() -> None:
    counted = parameters(catalog.model("mistralai/Mixtral-8x7B-v0.1"))
    one = 3 * 4096 * 14_336
    assert counted.routed_experts == 32 * 8 * one
    assert counted.active_routed_experts == 32 * 2 * one
    assert counted.router == 32 * 8 * 4096
    assert counted.dense_mlp == 0
    assert counted.total - counted.active == 32 * 6 * one


def test_qwen_2_5_biases_are_on_queries_keys_and_values_only() -> None:
    counted = parameters(catalog.model("Qwen/Qwen2.5-7B-Instruct"))
    assert counted.biases == 28 * (28 + 2 * 4) * 128


def test_opt_has_biases_positions_and_a_tied_head() -> None:
    counted = parameters(catalog.model("facebook/opt-13b"))
    h = 5120
    assert counted.lm_head == 0
    assert counted.tied
    assert counted.position_embedding == 2050 * h
    assert counted.biases == 40 * (4 * h + 4 * h + h)
    assert counted.dense_mlp == 40 * 2 * h * 4 * h
    assert counted.matmul_active == counted.matmul_active_body + 50_272 * h


def test_deepseek_v3_dense_layers_shared_expert_and_mla() -> None:
    counted = parameters(catalog.model("deepseek-ai/DeepSeek-V3"))
    h = 7168
    # W_DQ, W_UQ, W_DKV with W_KR, W_UK with W_UV, W_O.
    mla = h * 1536 + 1536 * 128 * 192 + h * 576 + 512 * 128 * 256 + 128 * 128 * h
    assert counted.attention == 61 * mla
    assert counted.dense_mlp == 3 * 3 * h * 18_432
    assert counted.shared_experts == 58 * 3 * h * 2048
    assert counted.routed_experts == 58 * 256 * 3 * h * 2048
    assert counted.active_routed_experts == 58 * 8 * 3 * h * 2048
    assert counted.norms == 61 * (2 * h + 1536 + 512) + h


def test_deepseek_v2_lite_projects_queries_directly() -> None:
    model = catalog.model("deepseek-ai/DeepSeek-V2-Lite")
    h, heads = 2048, 16
    mla = h * heads * 192 + h * 576 + 512 * heads * 256 + heads * 128 * h
    assert parameters(model).attention == 27 * mla


def test_the_sparse_indexer_is_the_whole_difference_of_v3_2() -> None:
    v3 = parameters(catalog.model("deepseek-ai/DeepSeek-V3"))
    v32 = parameters(catalog.model("deepseek-ai/DeepSeek-V3.2"))
    indexer = 1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64
    assert v32.total - v3.total == 61 * indexer


def test_draft_layers_are_in_no_total() -> None:
    counted = parameters(catalog.model("deepseek-ai/DeepSeek-V3"))
    # DeepSeek states 11.5B parameters of its own for the draft layer (README_WEIGHTS), rounded.
    assert counted.draft / 1e9 == pytest.approx(11.5, abs=0.15)
    assert counted.total < 671.1e9


def test_gemma_3_counts_its_vision_tower() -> None:
    model = catalog.model("google/gemma-3-12b-it")
    # SigLIP-So400m without its head: 416.9 M parameters; projector: 1152 × 3840 and a norm.
    assert model.extra_parameters == pytest.approx(416.9e6 + 1152 * 3841, rel=1e-3)
    assert "vision tower" in model.extra_parameters_note


def test_llama_4_maverick_alternates_dense_and_expert_layers() -> None:
    model = catalog.model("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    assert model.moe is not None
    assert (model.moe.layers, model.dense_mlp_layers) == (24, 24)
    counted = parameters(model)
    assert counted.dense_mlp == 24 * 3 * 5120 * 16_384
    assert counted.shared_experts == 24 * 3 * 5120 * 8192
