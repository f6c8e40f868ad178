"""The compiled tables and the step time they give."""

import math
import time
from dataclasses import replace

import numpy as np
import perf_cases as cases
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.perf import step_cost as sc
from planner.perf import theory
from planner.perf.calibrations import calibration
from planner.perf.compile import compile_step_cost, decode_padding
from planner.perf.ideal import theory_inputs
from planner.perf.parameters import parameters


def ideal(model, gpu, **changes):
    deployment = cases.deployment(model, gpu, **changes)
    cost = compile_step_cost(model, gpu, cases.VLLM, calibration(gpu, ideal=True), deployment)
    return cost, theory_inputs(model, gpu, deployment)


def calibrated(model, gpu, engine=cases.VLLM, **changes):
    deployment = cases.deployment(model, gpu, **changes)
    return compile_step_cost(model, gpu, engine, calibration(gpu), deployment)


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("model", [cases.LLAMA_8B, cases.LLAMA_2_7B, cases.MIXTRAL])
@settings(max_examples=50, deadline=None)
@given(
    decodes=st.integers(0, 1000),
    context=st.integers(1, 100_000),
    chunk=st.integers(0, 7000),
)
def test_ideal_calibration_is_the_theory(model, tp, decodes, context, chunk):
    if decodes + chunk == 0:
        return
    cost, x = ideal(model, cases.H100, tensor_parallel_size=tp)
    ours = sc.mixed_step_s(
        cost, decode_seqs=decodes, context_tokens=context, chunk_tokens=chunk, finishing=0
    )
    theirs = theory.step_s(
        x.token_flops,
        x.weight_bytes,
        x.kv.held_bytes_per_token,
        chunk,
        decodes,
        context,
        x.flops_per_s,
        x.bandwidth_bytes_per_s,
    )
    # (w + DSk)/W against w/W + (k/W)·DS: a few roundings of 2⁻⁵³ each.
    assert float(ours) == pytest.approx(float(theirs), rel=1e-15)


def test_ideal_counts_speculated_tokens():
    cost, x = ideal(cases.LLAMA_8B, cases.H100, num_speculative_tokens=4)
    ours = sc.mixed_step_s(cost, decode_seqs=200, context_tokens=10, chunk_tokens=0)
    theirs = theory.step_s(
        x.token_flops,
        x.weight_bytes,
        x.kv.held_bytes_per_token,
        0,
        200,
        10,
        x.flops_per_s,
        x.bandwidth_bytes_per_s,
        4,
    )
    assert float(ours) == pytest.approx(float(theirs), rel=1e-15)


def test_theory_inputs_keep_flops_and_bytes_apart():
    counts = parameters(cases.MIXTRAL)
    x = theory_inputs(
        cases.MIXTRAL, cases.H100, cases.deployment(cases.MIXTRAL, cases.H100, weight_dtype="fp8")
    )
    assert x.token_flops == 2 * counts.active
    # fp8 leaves embedding and LM head (32,000 × 4,096 each) and the routers (32 of 4,096 × 8) and
    # norms (65 of 4,096) at 16 bit.
    kept = 2 * 32_000 * 4096 + 32 * 4096 * 8 + 65 * 4096
    assert x.weight_bytes == counts.total + kept
    assert x.flops_per_s == 1978.9e12
    # Mixtral's published counts: 46.7 B resident, 12.9 B active.
    assert counts.total == pytest.approx(46.7e9, rel=0.005)
    assert counts.active == pytest.approx(12.9e9, rel=0.005)


def test_fp8_without_matrix_units_saves_bytes_but_no_flops():
    deployment = cases.deployment(cases.LLAMA_8B, cases.A100, weight_dtype="fp8")
    x = theory_inputs(cases.LLAMA_8B, cases.A100, deployment)
    assert x.flops_per_s == 312e12
    # 8.03e9 at one byte, and a second one for 2 × 128,256 × 4,096 of embedding and LM head.
    assert x.weight_bytes == pytest.approx(8.03e9 + 1.0507e9, rel=0.001)


def test_kv_is_replicated_beyond_the_kv_heads():
    tp8 = theory_inputs(
        cases.LLAMA_70B,
        cases.H100,
        cases.deployment(cases.LLAMA_70B, cases.H100, tensor_parallel_size=8),
    )
    tp16 = theory_inputs(
        cases.LLAMA_70B,
        cases.H100,
        cases.deployment(cases.LLAMA_70B, cases.H100, tensor_parallel_size=16),
    )
    assert tp8.kv.held_bytes_per_token == 327_680
    assert tp16.kv.held_bytes_per_token == 2 * 327_680


def test_mla_is_not_divided_by_tensor_parallelism():
    x = theory_inputs(
        cases.DEEPSEEK_V3,
        cases.H100,
        cases.deployment(cases.DEEPSEEK_V3, cases.H100, tensor_parallel_size=8),
    )
    assert x.kv.held_bytes_per_token == 8 * 70_272


def test_vectorised_steps_equal_single_ones():
    cost = calibrated(cases.GEMMA_LIKE, cases.H100)
    rng = np.random.default_rng(7)
    decodes = rng.integers(0, 300, 200)
    chunk = rng.integers(0, 4000, 200) + (decodes == 0)
    context = rng.integers(1, 9000, 200)
    together = sc.mixed_step_s(
        cost, decode_seqs=decodes, context_tokens=context, chunk_tokens=chunk, past_tokens=100
    )
    one_by_one = [
        float(
            sc.mixed_step_s(
                cost,
                decode_seqs=int(d),
                context_tokens=int(s),
                chunk_tokens=int(c),
                past_tokens=100,
            )
        )
        for d, s, c in zip(decodes, context, chunk, strict=True)
    ]
    assert together.tolist() == one_by_one


def test_step_time_by_hand():
    """Every term of the definition, added up from the tables independently."""
    cost = replace(
        calibrated(cases.GEMMA_LIKE, cases.H100),
        host_step_s=0.001,
        host_seq_s=1e-5,
        host_prefill_s=0.002,
        async_scheduling=False,
    )
    got = float(
        sc.step_s(
            cost,
            tokens=300,
            decode_seqs=20,
            kv_tokens=np.array([20_000.0, 8_000.0]),
            rows=21,
            pairs=np.array([50_000.0, 40_000.0]),
            prefix_tokens=1000.0,
        )
    )
    work = cost.memory_s[300] + cost.kv_s[0] * 20_000 + cost.kv_s[1] * 8_000 + cost.seq_s * 20
    want = (
        math.sqrt(work**2 + cost.launch_s**2)
        + cost.row_s[21]
        + cost.pair_s[0] * 50_000
        + cost.pair_s[1] * 40_000
        + cost.prefix_s * 1000
        + cost.decode_fixed_s
        + cost.prefill_fixed_s
        + (0.001 + 21 * 1e-5 + 0.002)
    )
    assert got == pytest.approx(want, rel=1e-14)


def test_asynchronous_scheduling_hides_the_host():
    base = replace(calibrated(cases.LLAMA_8B, cases.H100), host_step_s=0.5)
    arguments = {"tokens": 8, "decode_seqs": 8, "kv_tokens": 8000.0, "rows": 8}
    gpu = float(sc.gpu_step_s(base, **arguments))
    assert float(sc.step_s(base, **arguments)) == 0.5
    together = sc.step_s(replace(base, async_scheduling=False), **arguments)
    assert float(together) == pytest.approx(gpu + 0.5)


def test_decode_only_batches_are_padded_and_mixed_ones_are_not():
    cost = calibrated(cases.LLAMA_8B, cases.H100)
    at = {"kv_tokens": 1000.0, "rows": 9}
    decode = float(sc.gpu_step_s(cost, tokens=9, decode_seqs=9, **at))
    want = cost.memory_s[16] + cost.kv_s[0] * 1000 + 9 * cost.seq_s + cost.row_s[9]
    assert decode == pytest.approx(want + cost.decode_fixed_s, rel=1e-14)
    mixed = float(sc.gpu_step_s(cost, tokens=10, decode_seqs=9, **at))
    work = cost.memory_s[10] + cost.kv_s[0] * 1000 + 9 * cost.seq_s
    want = math.sqrt(work**2 + cost.launch_s**2) + cost.row_s[9]
    assert mixed == pytest.approx(want + cost.decode_fixed_s + cost.prefill_fixed_s, rel=1e-14)


def test_padding_stops_at_the_last_graph():
    padding = decode_padding((1, 2, 4, 8), 20)
    assert padding[:10].tolist() == [0, 1, 2, 4, 4, 8, 8, 8, 8, 9]
    assert padding[20] == 20


@pytest.mark.parametrize("window", [0, 1, 7, 64, 10_000])
def test_attended_pairs_by_counting(window):
    for chunk, past in [(1, 0), (5, 0), (16, 60), (100, 3), (64, 64)]:
        counted = sum(min(past + j, window or 10**9) for j in range(1, chunk + 1))
        assert float(sc.attended_pairs(chunk, past, window)) == counted


def test_chunks_of_a_prompt_attend_as_much_as_the_whole():
    whole = sc.attended_pairs(4096, 0, 0)
    parts = sum(float(sc.attended_pairs(512, past, 0)) for past in range(0, 4096, 512))
    assert parts == float(whole)


def test_fractional_batches_lie_between_their_neighbours():
    cost = calibrated(cases.LLAMA_8B, cases.H100)
    low, middle, high = (
        float(sc.mixed_step_s(cost, decode_seqs=d, context_tokens=1000, chunk_tokens=500))
        for d in (32, 32.5, 33)
    )
    assert low < middle < high
    assert middle == pytest.approx((low + high) / 2, rel=1e-9)


def test_compiling_a_full_budget_takes_milliseconds():
    fit = calibration(cases.H100)
    deployment = cases.deployment(
        cases.LLAMA_70B, cases.H100, tensor_parallel_size=4, max_num_batched_tokens=16384
    )
    compile_step_cost(cases.LLAMA_70B, cases.H100, cases.VLLM, fit, deployment)
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        compile_step_cost(cases.LLAMA_70B, cases.H100, cases.VLLM, fit, deployment)
        best = min(best, time.perf_counter() - start)
    assert best < 0.010  # a solver compiles hundreds


def test_numpy_gives_a_million_step_times_a_second():
    cost = calibrated(cases.LLAMA_8B, cases.H100)
    rng = np.random.default_rng(1)
    n = 200_000
    decodes, tokens = rng.integers(1, 500, n), rng.integers(500, 4000, n)
    kv = rng.integers(1000, 100_000, n).astype(float)
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        sc.step_s(cost, tokens=tokens, decode_seqs=decodes, kv_tokens=kv, rows=decodes)
        best = min(best, time.perf_counter() - start)
    assert n / best > 1e6


def test_pipeline_stages_share_the_time():
    cost = calibrated(cases.LLAMA_70B, cases.H100, pipeline_parallel_size=2)
    gpu, host = 0.040, 0.0
    assert cost.slowest_stage_share == 0.5
    send = cost.send_fixed_s + 100 * cost.send_s_per_token
    assert sc.latency_s(cost, gpu, host, 100) == pytest.approx(gpu + send)
    assert sc.interval_s(cost, gpu, host, 100) == pytest.approx(gpu / 2 + send)


def test_numba_compiles_the_same_arithmetic():
    """A scalar kernel jits these functions: results must be bit-equal to numpy's."""
    numba = pytest.importorskip("numba")
    cost = calibrated(cases.GEMMA_LIKE, cases.H100)
    pad, kv, gpu = (numba.njit(f) for f in (sc.padded_tokens, sc.kv_seconds, sc.gpu_seconds))
    n = pad(cost.decode_padding, 300, 1)
    reads, pairs = np.array([20_000.0, 8_000.0]), np.array([50_000.0, 40_000.0])
    scalar = gpu(
        cost.compute_s[n],
        cost.memory_s[n],
        kv(cost.kv_s, reads),
        cost.seq_s * 20,
        cost.row_s[21],
        kv(cost.pair_s, pairs),
        cost.prefix_s * 1000.0,
        cost.decode_fixed_s,
        cost.prefill_fixed_s,
        cost.launch_s,
    )
    vector = sc.gpu_step_s(
        cost,
        tokens=300,
        decode_seqs=20,
        kv_tokens=reads,
        rows=21,
        pairs=pairs,
        prefix_tokens=1000.0,
    )
    assert scalar == float(vector)
