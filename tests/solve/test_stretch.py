"""Reduction of a trace to bins and blocks, against the definition computed request by request."""

from __future__ import annotations

import numpy as np
import pytest
from solve_cases import poisson

from planner.solve.sample import thinned
from planner.solve.sampling import local_mean
from planner.solve.stretch import BLOCK_S, SPEEDS_S, stretch_of
from planner.solve.traffic import traffic_of
from planner.solve.windows import Window


def brute_force(traffic, begin, block, speed):
    """Residents and held tokens of one block, integrated over each request's life in fine steps."""
    times = begin + (block + (np.arange(600) + 0.5) / 600) * BLOCK_S
    age = (times[:, None] - traffic.arrival_s) / speed
    alive = (age >= 0) & (age < traffic.output_tokens)
    held = np.where(alive, traffic.input_tokens + age, 0.0)
    return alive.sum(axis=1).mean(), held.sum(axis=1).mean()


@pytest.mark.parametrize(("start", "block"), [(0.0, 3), (1800.0, 0), (1800.0, 20)])
@pytest.mark.parametrize("speed", [1, 3, 5])
def test_residents_and_held_tokens_are_the_integral_over_lives(start, block, speed):
    traffic = traffic_of(poisson(2.0, 3600.0), max_model_len=100_000)
    stretch = stretch_of(traffic, (), start_s=start, end_s=traffic.span_s)
    residents, held = brute_force(traffic, start - stretch.lead_s, block, float(SPEEDS_S[speed]))
    # 600 sub-steps of 0.1 s: requests are cut at most 0.1 s early or late.
    assert stretch.residents[speed, block] == pytest.approx(residents, rel=0.02, abs=0.02)
    assert stretch.held[speed, block] == pytest.approx(held, rel=0.02, abs=20)


def test_bins_conserve_prompt_tokens():
    requests = poisson(3.0, 2000.0)
    traffic = traffic_of(requests, max_model_len=100_000)
    stretch = stretch_of(traffic, (), start_s=0.0, end_s=traffic.span_s)
    total = float(stretch.bin_tokens.sum() * stretch.bin_s)
    assert total == pytest.approx(float(requests.input_tokens.sum()), rel=1e-9)


def test_poisson_arrivals_have_dispersion_one_and_bursts_more():
    calm = traffic_of(poisson(5.0, 3000.0), max_model_len=100_000)
    # Every request comes with a companion 10 ms later.
    paired = poisson(5.0, 3000.0)
    single = poisson(2.5, 3000.0, seed=9).arrival_s
    paired.arrival_s[:] = np.repeat(single, 2) + np.tile([0.0, 0.01], len(single))
    pairs = traffic_of(paired, max_model_len=100_000)
    calm_stretch = stretch_of(calm, (), start_s=0.0, end_s=calm.span_s)
    pair_stretch = stretch_of(pairs, (), start_s=0.0, end_s=pairs.span_s)
    assert calm_stretch.dispersion == pytest.approx(1.0, abs=0.06)  # sd of the estimate ~0.02
    # Pairs of independent log-normal lengths: 1 + E[p]²/E[p²] = 1 + exp(−0.49); a few pairs are
    # cut by the edge of a quarter second.
    assert pair_stretch.dispersion == pytest.approx(1.61, abs=0.1)


def test_windows_without_a_place_in_the_stretch_are_left_out():
    traffic = traffic_of(poisson(1.0, 8000.0), max_model_len=100_000)
    windows = [
        Window(class_id=0, start_s=0.0, end_s=3600.0, requests=3600, merged=1),
        Window(class_id=0, start_s=3600.0, end_s=7200.0, requests=3600, merged=1),
    ]
    stretch = stretch_of(traffic, windows, start_s=3600.0, end_s=7200.0)
    assert stretch.windows == (windows[1],)
    inside = (traffic.arrival_s >= 3600.0) & (traffic.arrival_s < 7200.0)
    assert float(stretch.sample.weight.sum()) == float(inside.sum())
    assert np.all(stretch.sample.time_s >= stretch.lead_s)


def test_thinning_keeps_the_longest_and_the_total():
    draw = np.random.default_rng(3)
    prompt, output = draw.exponential(1000, 20_000), draw.exponential(300, 20_000)
    picked, weight = thinned(prompt, output, 1000)
    assert len(picked) < 2000
    assert weight.sum() == pytest.approx(20_000)
    longest = np.argsort(prompt)[-100:]
    assert set(longest) <= set(picked)
    assert np.all(weight[np.isin(picked, longest)] == 1.0)
    # The weighted sample estimates the mean and the 99th percentile of the whole.
    assert (prompt[picked] * weight).sum() / 20_000 == pytest.approx(prompt.mean(), rel=0.08)
    order = np.argsort(prompt[picked])
    p99 = prompt[picked][order][np.searchsorted(np.cumsum(weight[order]), 0.99 * 20_000)]
    assert p99 == pytest.approx(np.quantile(prompt, 0.99), rel=0.01)


def test_local_mean_of_a_constant_is_the_constant():
    assert np.allclose(local_mean(np.full(50, 3.0), 7), 3.0)
