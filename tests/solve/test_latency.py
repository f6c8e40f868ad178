"""Latencies of an idle replica by hand, and limits that hold whatever the load."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solve_cases import linear_cost, poisson, requests_of

from planner.solve.estimate import Check, estimate, percentile_s, window_attainment
from planner.solve.latency import waits
from planner.solve.sharing import kv_sequences, mixed_steps
from planner.solve.steady import lanes, steady
from planner.solve.steps import prompt_extra_s, step, stretched
from planner.solve.stretch import stretch_of
from planner.solve.traffic import traffic_of
from planner.solve.windows import class_windows
from planner.spec.slo import Target

FLOOR, SLOPE = 0.010, 20e-6


def stretch(requests, **options):
    traffic = traffic_of(requests, max_model_len=1_000_000)
    windows = class_windows(
        traffic.arrival_s,
        traffic.class_id,
        1,
        span_s=traffic.span_s,
        window_s=3600,
        min_requests=100,
    )
    return stretch_of(traffic, windows, start_s=0.0, end_s=traffic.span_s, **options)


def test_idle_replica_ttft_is_the_own_prefill():
    # One request every ten minutes: nothing queues and nothing decodes beside it.
    requests = requests_of(np.arange(0, 36_000, 600.0), 4000, 20)
    cost = linear_cost(floor_s=FLOOR, per_token_s=SLOPE)
    part = stretch(requests)
    found = waits(cost, part, lanes(1.0, 1000.0, 64.0, 1e6))
    # 4,000 tokens in chunks of 1,000: four steps of max(10, 20) ms.
    value = percentile_s(cost, part, found, "ttft_s", 50.0)
    assert value == pytest.approx(4 * 0.020, rel=0.02)
    # Decoding alone: the 10 ms floor.
    assert percentile_s(cost, part, found, "tpot_s", 50.0) == pytest.approx(FLOOR, rel=0.02)
    # E2E = TTFT + 19 tokens.
    e2e = percentile_s(cost, part, found, "e2e_s", 50.0)
    assert e2e == pytest.approx(0.080 + 19 * FLOOR, rel=0.02)


def test_attainment_and_percentile_are_inverse():
    requests = poisson(5.0, 3600.0)
    cost = linear_cost(per_kv_token_s=30e-9)
    part = stretch(requests, per_window=1500)
    found = waits(cost, part, lanes(1.0, 2048.0, 256.0, 5e5))
    for metric in ("ttft_s", "tpot_s", "e2e_s", "itl_s"):
        value = percentile_s(cost, part, found, metric, 95.0)
        share = window_attainment(cost, part, found, metric, value * 1.001)[0, 0]
        below = window_attainment(cost, part, found, metric, value * 0.999)[0, 0]
        assert below <= 0.95 + 1e-9 <= share + 2e-9


def test_prompts_queue_as_in_an_md1_queue():
    # Equal prompts of exactly one full step, one output token: a step serves one prompt, so waits
    # are M/D/1 with service 20.48 ms, apart from the half step before the next schedule.
    draw = np.random.default_rng(11)
    count, service, load = 40_000, 1024 * SLOPE, 0.7
    arrival = np.cumsum(draw.exponential(service / load, count))
    requests = requests_of(arrival - arrival[0], 1024, 1)
    cost = linear_cost(floor_s=1e-4, per_token_s=SLOPE)
    part = stretch(requests)
    # A very small share of a large fleet: everything is random splitting.
    found = waits(cost, part, lanes(1.0, 1024.0, 64.0, 1e9))
    split = waits(cost, thin(part), lanes(1e-3, 1024.0, 64.0, 1e9))
    mean_wait = load * service / (2 * (1 - load))  # M/D/1
    work = float(split.work.mean()) * SLOPE
    assert work == pytest.approx(mean_wait, rel=0.1)
    # The trace itself shows its own bursts, so the same mean must come out of the bins.
    assert float(found.work.mean()) * SLOPE == pytest.approx(mean_wait, rel=0.35)


def thin(part):
    """The same stretch at a thousand times the rate, for a load factor of 1/1000."""
    from dataclasses import replace

    return replace(
        part,
        bin_tokens=np.full_like(part.bin_tokens, part.bin_tokens.mean() * 1e3),
        block_tokens=np.full_like(part.block_tokens, part.block_tokens.mean() * 1e3),
        residents=part.residents * 1e3,
        held=part.held * 1e3,
    )


def test_littles_law_at_the_fixed_point():
    requests = poisson(4.0, 3600.0, output_mean=300.0)
    cost = linear_cost(per_kv_token_s=50e-9)
    part = stretch(requests)
    state = steady(cost, part, lanes(1.0, 4096.0, 512.0, 1e7))
    middle = slice(10, -10)
    tokens_per_s = 4.0 * float(requests.output_tokens.mean())
    generated = float(state.decodes[0, middle].mean())
    expected = tokens_per_s * float(state.mean_gap_s[0, middle].mean())
    # The rate of an hour's Poisson arrivals is known to 1 %, lengths are its own.
    assert generated == pytest.approx(expected, rel=0.05)


def test_no_latency_falls_when_load_rises():
    part = stretch(poisson(6.0, 3600.0), per_window=800)
    cost = linear_cost(per_kv_token_s=30e-9)
    load = np.geomspace(0.05, 12.0, 25)
    found = estimate(
        cost,
        part,
        lanes(load, 2048.0, 256.0, 5e5),
        [
            Check(window=0, target=Target(metric=m, percentile=99.0, limit_s=x))
            for m, x in (("ttft_s", 0.5), ("tpot_s", 0.02), ("e2e_s", 8.0))
        ],
    )
    keeps_up = found.attainment[:, 0] > 0.5  # beyond, prompts queue for ever and TTFT is lost
    rising = np.diff(found.attainment[keeps_up], axis=0)
    assert np.all(rising <= 2e-3)
    assert found.attainment[0].min() > 0.98
    assert found.attainment[-1, 0] < 0.01
    assert 10 < keeps_up.sum() < len(load)


@given(st.floats(1.05, 2.0))
def test_slower_steps_never_help(factor):
    part = stretch(poisson(3.0, 1200.0), per_window=300)
    cost = linear_cost(per_kv_token_s=30e-9)
    at = lanes(1.0, 2048.0, 256.0, 5e5)
    checks = [Check(window=0, target=Target(metric="ttft_s", percentile=99.0, limit_s=0.2))]
    fast = estimate(cost, part, at, checks).attainment
    slow = estimate(stretched(cost, factor), part, at, checks).attainment
    assert np.all(slow <= fast + 1e-3)


def test_requests_too_long_for_the_model_are_violations():
    requests = poisson(3.0, 1200.0)
    longest = int(np.quantile(requests.input_tokens + requests.output_tokens, 0.97))
    traffic = traffic_of(requests, max_model_len=longest)
    windows = class_windows(
        traffic.arrival_s, traffic.class_id, 1, span_s=traffic.span_s, window_s=3600, min_requests=1
    )
    part = stretch_of(traffic, windows, start_s=0.0, end_s=traffic.span_s)
    found = waits(linear_cost(), part, lanes(0.01, 2048.0, 256.0, 1e6))
    share = window_attainment(linear_cost(), part, found, "ttft_s", 1e4)[0, 0]
    assert share == pytest.approx(float(traffic.served.mean()), abs=1e-9)
    assert percentile_s(linear_cost(), part, found, "ttft_s", 99.0) == np.inf


def test_a_step_is_the_cost_tables_sum():
    cost = linear_cost(floor_s=0.002, per_token_s=1e-5, per_kv_token_s=1e-8)
    # 8 decodes at 1,000 tokens: max(8e-5 compute, 2 ms + 8,000·10 ns) = 2.08 ms.
    assert float(step(cost, 8.0, 1000.0).gap_s) == pytest.approx(0.00208)
    # 1,000 prefill tokens beside them: compute 10.08 ms rules.
    assert float(step(cost, 8.0, 1000.0, 1000.0).gap_s) == pytest.approx(0.01008)


def test_attention_of_a_prompt_is_the_sum_over_its_chunks():
    from dataclasses import replace

    cost = replace(linear_cost(), pair_s=np.array([1e-9]), prefix_s=1e-8)
    past, pairs, read = 300, 0.0, 0.0
    for size in (1000, 1000, 500):
        pairs += size * past + size * (size + 1) / 2
        read += past
        past += size
    expected = 1e-9 * pairs + 1e-8 * read
    assert float(prompt_extra_s(cost, 2500.0, 300.0, 1000.0)) == pytest.approx(expected, rel=1e-12)


@given(st.floats(0.0, 1e5), st.floats(1e-4, 1.0), st.floats(1.0, 5000.0), st.floats(64.0, 16384.0))
def test_mixed_steps_carry_exactly_the_demand_unless_it_overflows(demand, gap, lone, full):
    share, chunk = mixed_steps(demand, gap, min(lone, full), full)
    assert 0 < share <= 1
    assert chunk <= full * (1 + 1e-9)
    if demand * gap <= full:
        assert share * chunk == pytest.approx(demand * gap, rel=1e-9, abs=1e-9)


@given(st.floats(1e3, 1e7), st.floats(10.0, 1e5))
def test_kv_limit_leaves_room_but_not_more_than_three_deviations(capacity, context):
    count = float(kv_sequences(capacity, context))
    assert count * context < capacity
    assert count * context + 3 * np.sqrt(1.5 * max(count, 1e-9)) * context > capacity * 0.999
