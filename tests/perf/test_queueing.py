"""Queues against closed forms, simulation and each other."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, poisson

from planner.perf import preemption as p
from planner.perf import queueing as q

loads = st.floats(0.05, 0.95)


@given(load=loads, service=st.floats(1e-3, 10))
def test_mm1_is_every_formulas_special_case(load, service):
    arrivals = load / service
    exact = load * service / (1 - load)  # ρ/(μ − λ)
    assert q.wait_mg1_s(arrivals, service, 1.0) == pytest.approx(exact)
    assert q.wait_gg1_s(arrivals, service, 1.0, 1.0) == pytest.approx(exact)
    assert q.wait_ggc_s(arrivals, service, 1, 1.0, 1.0) == pytest.approx(exact)
    assert q.erlang_c(1, load) == pytest.approx(load)


@given(load=loads)
def test_md1_waits_half_of_mm1(load):
    assert q.wait_md1_s(load, 1.0) == pytest.approx(q.wait_mg1_s(load, 1.0, 1.0) / 2)


def test_distserve_equation():
    rate, service = 3.0, 0.2
    assert q.wait_md1_s(rate, service) == pytest.approx(
        rate * service**2 / (2 * (1 - rate * service))
    )


@pytest.mark.parametrize("servers", [1, 2, 7, 40])
@pytest.mark.parametrize("load", [0.3, 0.8, 0.99])
def test_erlang_c_against_its_definition(servers, load):
    offered = servers * load
    below = poisson.cdf(servers - 1, offered)
    top = poisson.pmf(servers, offered) / (1 - load)
    assert q.erlang_c(servers, offered) == pytest.approx(top / (below + top), rel=1e-9)


def test_erlang_c_does_not_overflow():
    assert 0 < q.erlang_c(5000, 4900) < 1


def test_overload_has_no_steady_state():
    assert q.wait_mg1_s(2.0, 0.5, 1.0) == math.inf
    assert q.wait_gg1_s(2.0, 0.6, 1.0, 1.0) == math.inf
    assert q.wait_ggc_s(8.0, 0.5, 4, 1.0, 1.0) == math.inf
    assert q.erlang_c(4, 4.0) == 1.0


def test_arrays_broadcast_and_mark_overload_alone():
    waits = q.wait_mg1_s(np.array([1.0, 1.9, 2.5]), 0.5, 0.0)
    assert np.isfinite(waits[:2]).all()
    assert np.isinf(waits[2])


def test_md1_against_a_simulated_queue():
    """Lindley's recursion with 400,000 customers: the mean within three standard errors."""
    rng = np.random.default_rng(3)
    load, service, n = 0.7, 1.0, 400_000
    gaps = rng.exponential(service / load, n)
    steps = service - gaps
    walk = np.concatenate([[0.0], np.cumsum(steps)])
    waits = walk - np.minimum.accumulate(walk)
    batches = waits[1:].reshape(100, -1).mean(axis=1)  # batch means: neighbours are dependent
    error = batches.std(ddof=1) / 10
    assert abs(waits.mean() - float(q.wait_md1_s(load, service))) < 3 * error


@given(load=loads, percentile=st.floats(1, 99.9))
def test_percentile_inverts_the_tail(load, percentile):
    mean = load / (1 - load)
    wait = q.wait_percentile_s(percentile, mean, load)
    if wait > 0:
        beyond = float(q.wait_exceeds(wait, mean, load))
        assert beyond == pytest.approx(1 - percentile / 100, rel=1e-9)
    else:
        assert load <= 1 - percentile / 100


def test_the_tails_mean_is_the_mean_wait():
    waits = np.linspace(0, 200, 2_000_001)
    tail = q.wait_exceeds(waits, 2.5, 0.8)
    assert np.trapezoid(tail, waits) == pytest.approx(2.5, rel=1e-6)


def test_throughput_bound_is_where_the_engine_is_always_busy():
    rate = q.throughput_bound_per_s(0.05, 200, 0.02, 40)
    assert rate * 0.05 + rate * 200 / 40 * 0.02 == pytest.approx(1.0)


def test_held_tokens_by_simulation():
    """Sample decoding instants uniformly: requests appear in proportion to their length."""
    rng = np.random.default_rng(5)
    prompt = rng.integers(10, 2000, 50_000).astype(float)
    output = np.clip(rng.lognormal(5, 0.8, 50_000), 1, 2000)
    chosen = rng.choice(len(output), 200_000, p=output / output.sum())
    held = prompt[chosen] + rng.random(200_000) * output[chosen]
    want = p.held_tokens_mean(
        float(np.mean(prompt * output)), float(np.mean(output)), float(np.mean(output**2))
    )
    assert want == pytest.approx(held.mean(), rel=0.01)  # sampling error of 200,000 draws: 0.2 %


@given(
    mean=st.floats(100, 5000),
    deviation=st.floats(1, 3000),
    capacity=st.floats(1e4, 1e7),
    z=st.floats(0, 4),
)
def test_safe_number_of_requests_overflows_as_often_as_asked(mean, deviation, capacity, z):
    number = p.safe_running_seqs(mean, deviation, capacity, z)
    chance = float(p.overflow_probability(number, mean, deviation, capacity))
    assert chance == pytest.approx(norm.sf(z), rel=1e-5, abs=1e-9)


@settings(max_examples=30)
@given(running=st.integers(1, 500))
def test_overflow_grows_with_load(running):
    low, high = (
        float(p.overflow_probability(n, 1000, 500, 200_000)) for n in (running, running + 1)
    )
    assert low <= high
