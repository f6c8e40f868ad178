"""The golden tables of the theory: P = 7e9, bf16, L = 32, H_kv = 32, d_h = 128; R = 150."""

import math

import numpy as np
import pytest

from planner.perf import theory

P, F, W = 7e9, 300e12, 2e12
PHI, WEIGHTS = 2 * P, 2 * P
K = 524_288
D, S, T = 32, 2048, 4096


def tau(chunk, decodes=D, context=S, drafts=0):
    return float(theory.step_s(PHI, WEIGHTS, K, chunk, decodes, context, F, W, drafts))


def test_kv_bytes_per_token():
    assert theory.kv_bytes_per_token(32, 32, 128, 2) == K


def test_ridge():
    assert theory.ridge_flops_per_byte(F, W) == 150


def test_memory_floor_is_24_2_ms_weights_7_0_plus_kv_17_2():
    assert 1e3 * theory.memory_floor_s(WEIGHTS, D, S, K, W) == pytest.approx(24.18, abs=0.005)
    assert 1e3 * theory.memory_floor_s(WEIGHTS, 0, 0, K, W) == pytest.approx(7.0)
    assert 1e3 * theory.memory_floor_s(0, D, S, K, W) == pytest.approx(17.2, abs=0.05)


def test_balance_chunk_is_about_486_where_both_terms_agree_within_one_percent():
    chunk = theory.balance_chunk_tokens(PHI, WEIGHTS, K, D, S, 150)
    assert chunk == pytest.approx(486.14, abs=0.01)
    # The table rounds the chunk down to 486: compute 24.173, memory 24.180.
    assert 1e3 * theory.compute_s(PHI, 486, D, F) == pytest.approx(24.173, abs=0.001)
    assert 1e3 * theory.memory_floor_s(WEIGHTS, D, S, K, W) == pytest.approx(24.180, abs=0.001)
    exact = theory.compute_s(PHI, chunk, D, F)
    assert exact == pytest.approx(theory.memory_floor_s(WEIGHTS, D, S, K, W), rel=1e-12)


@pytest.mark.parametrize(
    ("chunk", "step_ms", "tpot_ms", "ttft_ms", "steps", "bound"),
    [
        (128, 24.2, 24, 774, 32, "memory"),
        (486, 24.2, 24, 218, 9, "both"),
        (2048, 97.0, 97, 194, 2, "compute"),
        (4096, 192.6, 193, 193, 1, "compute"),
    ],
)
def test_chunk_table(chunk, step_ms, tpot_ms, ttft_ms, steps, bound):
    step = tau(chunk)
    # Half a unit of the table's last digit.
    assert 1e3 * step == pytest.approx(step_ms, abs=0.1)
    assert 1e3 * theory.tpot_s(step) == pytest.approx(tpot_ms, abs=0.5)
    assert 1e3 * theory.ttft_s(T, chunk, step) == pytest.approx(ttft_ms, abs=0.5)
    assert theory.prefill_steps(T, chunk) == steps
    compute = theory.compute_s(PHI, chunk, D, F)
    memory = theory.memory_floor_s(WEIGHTS, D, S, K, W)
    if bound == "both":
        assert compute == pytest.approx(memory, rel=0.01)
    else:
        assert (compute > memory) == (bound == "compute")


def test_compute_side_of_chunk_128_is_7_5_ms():
    assert 1e3 * theory.compute_s(PHI, 128, D, F) == pytest.approx(7.5, abs=0.05)


def test_unchunked_ttft_is_12_percent_better_and_tpot_8_times_worse_than_at_balance():
    balance, whole = tau(486), tau(4096)
    ttft_gain = 1 - theory.ttft_s(T, 4096, whole) / theory.ttft_s(T, 486, balance)
    assert ttft_gain == pytest.approx(0.12, abs=0.01)
    assert whole / balance == pytest.approx(8, abs=0.05)


def test_flag_counts_decodes_too():
    assert theory.budget_tokens(486, 32) == 518
    assert theory.budget_tokens(4096, 32) == 4128


def test_capacity_in_gib():
    tokens = theory.kv_capacity_tokens(20 * 2**30, 0.5 * 2**20)
    assert tokens == 40_960
    assert theory.resident_sequences(tokens, 2048) == 20


@pytest.mark.parametrize(
    ("decodes", "context", "chunk", "prompt", "steps"),
    [
        (8, 2048, 234, 8000, 35),  # long prompt, low concurrency
        (64, 2048, 822, 200, 1),  # short prompt, high concurrency: no chunking needed
        (32, 2048, 486, 4096, 9),  # mixed burst
        (8, 8100, 506, 8000, 16),  # the first portrait with its true context
    ],
)
def test_portraits(decodes, context, chunk, prompt, steps):
    balance = theory.balance_chunk_tokens(PHI, WEIGHTS, K, decodes, context, 150)
    assert balance == pytest.approx(chunk, abs=0.6)
    assert theory.prefill_steps(prompt, balance) == steps


def test_short_prompt_portrait_needs_64_gib_of_kv():
    held = theory.kv_transfer_bytes(64 * 2048, K)
    assert held == 64 * 2**30
    assert held / 1e9 == pytest.approx(68.7, abs=0.05)


def test_mha_decode_is_memory_bound_above_178_tokens():
    assert theory.memory_bound_context_tokens(PHI, K, 150) == pytest.approx(178, abs=0.1)


def test_70b_on_h100_is_memory_bound_only_above_1460_tokens():
    ridge = theory.ridge_flops_per_byte(989.4e12, 3.35e12)
    bound = theory.memory_bound_context_tokens(2 * 70.55e9, 327_680, ridge)
    assert bound == pytest.approx(1460, abs=5)  # the table rounds to tens


def test_decode_intensity_tends_to_its_ceiling_from_below():
    ceiling = theory.decode_intensity_ceiling(PHI, S, K)
    batches = np.array([1, 32, 1e3, 1e6, 1e9])
    intensity = theory.decode_intensity(PHI, WEIGHTS, batches, S, K)
    assert np.all(np.diff(intensity) > 0)
    assert np.all(intensity < ceiling)
    assert intensity[-1] == pytest.approx(ceiling, rel=1e-6)


def test_prefill_intensity_tends_to_its_limit():
    limit = theory.prefill_intensity_limit(PHI, 1e6)
    assert theory.prefill_intensity(PHI, WEIGHTS, 1e9, 1e6) == pytest.approx(limit, rel=1e-4)


def test_speculation_reads_kv_once_and_shrinks_the_chunk():
    batch, gamma = 32, 4
    expected = 2 * P * batch * (gamma + 1) / (2 * P + batch * S * K)
    assert theory.speculative_decode_intensity(PHI, WEIGHTS, batch, S, K, gamma) == pytest.approx(
        expected
    )
    published = 2 * P * batch * gamma / (2 * P + batch * S * K * 2)
    assert theory.speculative_decode_intensity_per_accepted(
        PHI, WEIGHTS, batch, S, K, gamma, 2
    ) == pytest.approx(published)
    plain = theory.balance_chunk_tokens(PHI, WEIGHTS, K, D, S, 150)
    drafting = theory.balance_chunk_tokens(PHI, WEIGHTS, K, D, S, 150, gamma)
    assert plain - drafting == pytest.approx(D * gamma)
    # 150·(1 + 32·2048·524288/14e9) − 32·5
    assert drafting == pytest.approx(358.1, abs=0.05)


def test_no_drafts_is_plain_decoding():
    assert theory.speculative_decode_intensity(PHI, WEIGHTS, 32, S, K, 0) == (
        theory.decode_intensity(PHI, WEIGHTS, 32, S, K)
    )


def test_largest_chunk_within_a_limit():
    chunk = theory.largest_chunk_tokens(0.1, PHI, WEIGHTS, K, D, S, F, W)
    assert chunk is not None
    assert tau(chunk) == pytest.approx(0.1)
    assert theory.largest_chunk_tokens(0.0241, PHI, WEIGHTS, K, D, S, F, W) is None
    # Decodes alone exceed the limit's compute: no chunk either.
    assert theory.largest_chunk_tokens(0.05, PHI, 0.0, 0.0, 2000, 1, F, W) is None


def test_prefix_hits_shorten_the_prefill_but_never_to_nothing():
    step = tau(486)
    assert theory.ttft_with_prefix_cache_s(T, 0.0, 486, step) == theory.ttft_s(T, 486, step)
    half = theory.ttft_with_prefix_cache_s(T, 0.5, 486, step)
    assert half == pytest.approx(math.ceil(2048 / 486) * step)
    assert theory.ttft_with_prefix_cache_s(T, 1.0, 486, step) == pytest.approx(step)


def test_preemption_cost_grows_with_how_late_the_victim_is_taken():
    assert theory.preemption_flops(PHI, 2048) == pytest.approx(2 * 7e9 * 2048)
    assert theory.preemption_flops(PHI, 4096) > theory.preemption_flops(PHI, 2048)


def test_flops_do_not_depend_on_the_dtype_but_bytes_do():
    assert theory.flops_per_token(P) == PHI
    assert theory.weight_bytes(P, 2.0) == PHI  # the coincidence at 16 bit
    assert theory.weight_bytes(P, 1.0) == PHI / 2
    # fp8 halves the weights: the balance point moves because bytes change and FLOPs do not.
    fp8 = theory.balance_chunk_tokens(PHI, theory.weight_bytes(P, 1.0), K, D, S, 150)
    bf16 = theory.balance_chunk_tokens(PHI, WEIGHTS, K, D, S, 150)
    assert bf16 - fp8 == pytest.approx(75)


def test_below_balance_a_smaller_chunk_is_pure_loss():
    assert tau(100) == tau(400)
    assert theory.ttft_s(T, 100, tau(100)) > theory.ttft_s(T, 400, tau(400))


def test_equations_broadcast():
    chunks = np.array([128, 486, 2048, 4096])
    together = theory.step_s(PHI, WEIGHTS, K, chunks, D, S, F, W)
    assert together.tolist() == [tau(chunk) for chunk in chunks]
