"""The token budget's theory in a plan, against arithmetic from the published shapes."""

from __future__ import annotations

import re

import pytest
from solve_cases import poisson, slo_of
from test_recommend import CONTEXT

from planner.report.chunk_words import balance_equation
from planner.solve.recommend import solve

PEAK, BANDWIDTH = 989.4e12, 3.35e12  # an H100's dense 16-bit FLOP/s and B/s


@pytest.fixture(scope="module")
def windowed(make_case):
    """Gemma 3 27B: 10 layers see everything, 52 the last 1,024 tokens; 16 KV heads of 128."""
    slo = slo_of(
        ("ttft_s", 99.0, 10.0), ("tpot_s", 99.0, 0.1),
        model="google/gemma-3-27b-it", tensor_parallel_sizes=(2,),
        max_num_batched_tokens=(2048,), max_num_seqs=(64,),
    )  # fmt: skip
    traffic = poisson(0.3, 600.0, input_mean=8000, output_mean=200, spread=0.1)
    return solve(make_case(traffic, slo), CONTEXT)


def test_window_layers_read_their_window(windowed):
    chunk = windowed.chunk
    assert chunk.context_tokens > 4 * 1024
    read = chunk.decode_seqs * (10 * chunk.context_tokens + 52 * 1024) * 2 * 16 * 128 * 2
    assert chunk.floor_kv_s == pytest.approx(read / (2 * BANDWIDTH), rel=1e-6)
    weights = 54.8648e9
    balance = PEAK / BANDWIDTH * (weights + read) / weights - chunk.decode_seqs
    assert chunk.balance_chunk_tokens == pytest.approx(balance, rel=1e-5)
    assert all(point.floor_s == pytest.approx(chunk.memory_floor_s) for point in chunk.curve)


def test_the_textbook_context_reads_its_own_windows(windowed):
    (said,) = [each for each in windowed.findings if each.id == "context_used_vs_2048"]
    read = windowed.chunk.decode_seqs * (10 * 2048 + 52 * 1024) * 8192
    balance = PEAK / BANDWIDTH * (1 + read / 54.8648e9) - windowed.chunk.decode_seqs
    assert said.values["balance_at_2048_tokens"] == pytest.approx(balance, rel=1e-5)


def test_the_memory_bound_context_counts_what_is_read(windowed):
    """Within the window 62 layers are read: S·62·8,192 B at the ridge take φ's time."""
    (said,) = [each for each in windowed.findings if each.id == "decode_memory_bound"]
    bound = 54.8648e9 / (PEAK / BANDWIDTH) / (62 * 8192)
    assert bound < 1024
    assert said.values["threshold_tokens"] == pytest.approx(bound, rel=1e-5)


def test_a_mixture_of_experts_prints_c_star_with_its_own_numbers(make_case):
    """Weights resident, FLOPs active, 16-bit parts at 16 bit: nothing of C* is C* again."""
    slo = slo_of(
        ("ttft_s", 99.0, 10.0), ("tpot_s", 99.0, 0.1),
        model="openai/gpt-oss-120b", tensor_parallel_sizes=(2,),
        max_num_batched_tokens=(2048,), max_num_seqs=(64,),
    )  # fmt: skip
    plan = solve(make_case(poisson(1.0, 300.0), slo), CONTEXT)
    formula, line = balance_equation(plan).splitlines()
    assert formula == "C* = R·(w + D·S·k)/φ − D"
    found = re.findall(r"[\d,]+\.?\d*", line)
    ridge, weights, seqs, context, per, flops, decodes, answer = (
        float(number.replace(",", "")) for number in found
    )
    assert ridge == pytest.approx(PEAK / BANDWIDTH, rel=1e-3)
    assert weights == pytest.approx(65.2e9, rel=0.002)
    assert flops == pytest.approx(2 * 5.7e9, rel=0.02)  # 5.1 B published without the embedding
    assert per * context == pytest.approx(18 * (context + min(context, 128)) * 2048, rel=1e-3)
    balance = ridge * (weights + seqs * context * per) / flops - decodes
    assert answer == pytest.approx(balance, rel=2e-3)
    assert answer == pytest.approx(plan.chunk.balance_chunk_tokens, abs=0.51)
