"""The memory account: by hand and by property (start-up logs: tests/calibrate)."""

import math
from dataclasses import replace

import perf_cases as cases
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.perf.layers import kv_groups, resident_groups
from planner.perf.memory import (
    UNKNOWN_VISIBLE_SHARE,
    memory_budget,
    static_fraction,
    visible_bytes,
    weight_bytes_per_gpu,
)
from planner.perf.parameters import parameters
from planner.spec import catalog
from planner.spec.model import LinearAttention, SparseAttention

GIB = 2**30


def budget(model, gpu=cases.H100, engine=cases.VLLM, **changes):
    return memory_budget(model, gpu, engine, cases.deployment(model, gpu, **changes))


def test_8b_on_one_h100_by_hand():
    """A start-up log of vLLM 0.11 (8 B, bf16, one H100, 1,024 sequences): 51.38 GiB."""
    got = budget(cases.LLAMA_8B)
    weights = 2 * 8_030_261_248 + 131_072 * 128 * 2  # parameters and the rotary table
    activation = 38.6 * 1024 * 128_256 + 2 * 8192 * 4096 * 2  # sampler, and hidden states
    assert got.weights_bytes == weights
    assert got.activation_bytes == pytest.approx(activation)
    assert got.activation_source == "sampler at max_num_seqs"
    kv = 79.19 * GIB * 0.9 - weights - activation - 0.13 * GIB
    assert got.kv_bytes == pytest.approx(kv)
    assert got.kv_bytes / GIB == pytest.approx(51.38, rel=0.005)
    # Whole blocks of 16 tokens at 131,072 B.
    assert got.num_blocks == math.floor(kv / (16 * 131_072))
    assert got.kv_tokens == 16 * got.num_blocks


def test_forward_pass_rules_when_the_budget_is_large():
    got = budget(cases.LLAMA_8B, max_num_batched_tokens=65_536, max_num_seqs=64)
    assert got.activation_source == "forward pass at max_num_batched_tokens"
    assert got.activation_bytes == 65_536 * (2 * 4096 + 2 * 28_672) * 2


def test_graphs_count_only_inside_the_budget():
    outside = budget(cases.LLAMA_8B)
    rule = replace(cases.VLLM.memory, graphs_in_budget=True)
    inside = budget(cases.LLAMA_8B, engine=replace(cases.VLLM, memory=rule))
    assert outside.kv_bytes - inside.kv_bytes == pytest.approx(0.6 * GIB)


def test_70b_bf16_does_not_fit_one_l40s_and_says_so():
    small = replace(cases.H100, memory_bytes_visible=44.4 * GIB)
    got = budget(cases.LLAMA_70B, gpu=small)
    assert not got.fits
    assert got.kv_bytes < 0
    assert got.num_blocks == got.kv_tokens == 0


def test_unknown_visible_memory_is_a_stated_share():
    unknown = replace(cases.H100, memory_bytes_visible=None)
    got = budget(cases.LLAMA_8B, gpu=unknown)
    assert not got.visible_known
    assert got.visible_bytes == UNKNOWN_VISIBLE_SHARE * 80e9
    known = [gpu for gpu in catalog.gpus() if gpu.memory_bytes_visible is not None]
    assert min(visible_bytes(g) / g.memory_bytes_marketing for g in known) >= (
        UNKNOWN_VISIBLE_SHARE - 0.001
    ), "the assumed share is the least that any published part shows"


def test_tensor_parallelism_divides_weights_but_not_beyond_the_kv_heads():
    one, eight, sixteen = (
        weight_bytes_per_gpu(
            cases.LLAMA_70B,
            cases.deployment(cases.LLAMA_70B, cases.H100, tensor_parallel_size=tp),
        )
        for tp in (1, 8, 16)
    )
    assert eight == pytest.approx(one / 8, rel=0.005)  # norms and rotary are replicated
    replicated = 80 * 8192 * 2 * 128 * 2 * (1 - 8 / 16)  # half a KV head more than a sixteenth
    rotary, norms = 131_072 * 128 * 2, 2 * (80 * 2 * 8192 + 8192)
    assert sixteen - rotary - norms - replicated == pytest.approx(
        (one - rotary - norms) / 16, rel=1e-9
    )


def test_kv_per_token_on_a_rank():
    at = {"max_model_len": 8192}
    assert budget(cases.LLAMA_70B, tensor_parallel_size=4, **at).kv_bytes_per_token == 81_920
    fp8 = budget(cases.LLAMA_70B, tensor_parallel_size=4, kv_cache_dtype="fp8", **at)
    assert fp8.kv_bytes_per_token == 40_960
    # MLA's latent lies on every rank: 61 layers × 576 × 2 B.
    mla = budget(cases.DEEPSEEK_V3, tensor_parallel_size=8, weight_dtype="fp8_block", **at)
    assert mla.kv_bytes_per_token == 70_272


def test_pipeline_rank_with_most_layers_and_the_larger_table_rules():
    whole = cases.deployment(cases.LLAMA_70B, cases.H100, tensor_parallel_size=4)
    halves = replace(whole, pipeline_parallel_size=2)
    quarter = weight_bytes_per_gpu(cases.LLAMA_70B, halves)
    counts = parameters(cases.LLAMA_70B)
    rotary = 131_072 * 128 * 2
    norms = 2 * counts.norms
    layers = counts.total - 2 * counts.embedding - counts.norms
    want = layers * 2 / 4 / 2 + norms / 2 + counts.embedding * 2 / 4 + rotary
    assert quarter == pytest.approx(want, rel=1e-12)
    got = budget(cases.LLAMA_70B, tensor_parallel_size=4, pipeline_parallel_size=2)
    assert got.kv_bytes_per_token == 81_920 / 2


def test_experts_are_divided_over_every_gpu():
    at = {"tensor_parallel_size": 4, "data_parallel_size": 2, "weight_dtype": "fp8_block"}
    deployment = cases.deployment(cases.DEEPSEEK_V3, cases.H100, **at)
    counts = parameters(cases.DEEPSEEK_V3)
    experts = counts.routed_experts * (1 + 4 / 128**2) / 8
    dense = weight_bytes_per_gpu(cases.DEEPSEEK_V3, deployment) - experts
    assert 0 < dense < 0.1 * experts


def test_window_layers_stop_growing():
    short = budget(cases.GEMMA_LIKE, max_model_len=1024, max_num_batched_tokens=2048)
    long = budget(cases.GEMMA_LIKE, max_model_len=131_072, max_num_batched_tokens=2048)
    assert short.kv_bytes_per_token == 131_072  # within the window every layer keeps everything
    # 8 full layers grow; 24 window layers hold at most 1,023 + 2,048 tokens and a block.
    window = (math.ceil((1023 + 2048) / 16) + 1) * 16
    want = 4096 * (8 + 24 * window / 131_072)
    assert long.kv_bytes_per_token == pytest.approx(want)
    assert long.kv_tokens > 3 * short.kv_tokens


def test_constant_state_is_charged_per_sequence():
    linear = LinearAttention(
        layers=24, key_heads=16, key_head_dim=128, value_heads=32, value_head_dim=128
    )
    model = replace(cases.LLAMA_8B, linear_attention=linear)
    got = budget(model, max_model_len=4096)
    state = 24 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
    assert got.kv_bytes_per_token * 4096 == pytest.approx(8 * 4096 * 4096 + state)


def test_sparse_attention_keeps_everything_and_reads_little():
    sparse = SparseAttention(index_heads=64, index_head_dim=128, top_k_tokens=2048)
    model = replace(cases.DEEPSEEK_V3, sparse_attention=sparse)
    assert [g.window_tokens for g in kv_groups(model)] == [0, 2048]
    assert [g.window_tokens for g in resident_groups(model)] == [0]
    got = budget(model, tensor_parallel_size=8, weight_dtype="fp8_block", max_model_len=8192)
    assert got.kv_bytes_per_token == 61 * (576 * 2 + 132)


def test_sglang_reserve_is_the_engines_own():
    engine, gpu = catalog.engine("sglang"), catalog.gpu("h100")
    deployment = replace(cases.deployment(cases.LLAMA_8B, cases.H100), max_num_batched_tokens=8192)
    # 512 + 1.5·8192 + 128 + 2·512 MiB = 13,952 MiB of 79.19 GiB.
    share = static_fraction(gpu, engine, deployment)
    assert share == pytest.approx(1 - 13_952 / 1024 / 79.19, abs=0.02)
    got = memory_budget(
        cases.LLAMA_8B, gpu, engine, replace(deployment, gpu_memory_utilization=share)
    )
    assert got.activation_bytes == 0
    assert got.kv_bytes == pytest.approx(79.19 * GIB * share - got.weights_bytes, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    utilization=st.floats(0.5, 0.98),
    seqs=st.integers(16, 2048),
    tokens=st.integers(256, 32_768),
    tp=st.sampled_from([1, 2, 4, 8]),
)
def test_account_adds_up(utilization, seqs, tokens, tp):
    got = budget(
        cases.LLAMA_8B,
        gpu_memory_utilization=utilization,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        tensor_parallel_size=tp,
    )
    spent = got.weights_bytes + got.activation_bytes + got.non_torch_bytes + got.kv_bytes
    assert spent == pytest.approx(got.visible_bytes * utilization, rel=1e-12)
    if got.kv_bytes > 0:
        used = got.num_blocks * 16 * got.kv_bytes_per_token
        assert used <= got.kv_bytes < used + 16 * got.kv_bytes_per_token
