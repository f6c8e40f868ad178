"""The queue equation against its limits and an exact queue."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.solve.backlog import (
    backlog,
    queue_scale_tokens,
    unresolved_share,
    waiting_tail,
)


@given(st.floats(0.05, 0.97), st.floats(10.0, 5000.0))
def test_rests_at_pollaczek_khinchine(load, scale):
    supply = np.full((1, 3000), 1000.0)
    work, fluid = backlog(load * supply, supply, np.full_like(supply, scale), 2.0)
    # E[work] = ρ·e/(1 − ρ), e = E[p²]/(2E[p]): exact for M/G/1. The tolerance is the approach to
    # rest, whose time grows as 1/(1 − ρ)².
    assert work[0, -1] == pytest.approx(load * scale / (1 - load), rel=0.02)
    assert fluid[0, -1] == 0.0


def test_overload_grows_as_the_fluid_does():
    arriving, supply = np.full((1, 500), 1500.0), np.full((1, 500), 1000.0)
    work, fluid = backlog(arriving, supply, np.full_like(supply, 500.0), 2.0)
    assert fluid[0, -1] == pytest.approx(500 * 2.0 * 500.0)
    # What the server idled while the queue built up, s·e/(a − s)·ln(V/e), stays on top: 1.4 %.
    assert fluid[0, -1] < work[0, -1] < 1.02 * fluid[0, -1]


@given(st.integers(0, 1000))
def test_fluid_part_is_the_lindley_recursion(seed):
    draw = np.random.default_rng(seed)
    arriving, supply = draw.exponential(900, (2, 200)), draw.uniform(500, 1500, (2, 200))
    _, fluid = backlog(arriving, supply, np.full_like(supply, 100.0), 2.0)
    level = np.zeros(2)
    for index in range(200):
        level = np.maximum(0.0, level + (arriving[:, index] - supply[:, index]) * 2.0)
        assert fluid[:, index] == pytest.approx(level, abs=1e-6)


@given(st.floats(1.0, 1.5), st.integers(0, 50))
def test_more_load_never_makes_less_work(more, seed):
    draw = np.random.default_rng(seed)
    arriving, supply = draw.exponential(800, (1, 300)), np.full((1, 300), 1000.0)
    scale = np.full_like(supply, 400.0)
    less, _ = backlog(arriving, supply, scale, 2.0)
    most, _ = backlog(arriving * more, supply, scale, 2.0)
    assert np.all(most >= less - 1e-9)


@given(st.integers(0, 1000))
def test_each_bin_solves_the_implicit_step_of_the_fluid_equation(seed):
    draw = np.random.default_rng(seed)
    arriving, supply = draw.exponential(900, (2, 150)), draw.uniform(500, 1500, (2, 150))
    scale = draw.uniform(50, 900, (2, 150))
    work, _ = backlog(arriving, supply, scale, 2.0)
    before = np.concatenate([np.zeros((2, 1)), work[:, :-1]], axis=1)
    # V' − V = Δ·(a − s·V'/(V' + e)): what the quadratic's root must satisfy, to rounding.
    served = supply * work / (work + scale)
    assert work - before == pytest.approx(2.0 * (arriving - served), rel=1e-9, abs=1e-6)


def exact_waits(load, prompts, count, seed):
    """Waits of an M/G/1 queue by the Lindley recursion over single requests, in service means."""
    draw = np.random.default_rng(seed)
    service = draw.choice(prompts, count) / 1000.0
    gaps = draw.exponential(float(np.mean(prompts)) / 1000.0 / load, count)
    wait = np.empty(count)
    level = 0.0
    for index in range(count):
        level = max(0.0, level - gaps[index])
        wait[index] = level
        level += service[index]
    return wait


@pytest.mark.parametrize("load", [0.3, 0.6, 0.85])
@pytest.mark.parametrize("prompts", [(1000.0,), (200.0, 200.0, 200.0, 3400.0)])
def test_waiting_tail_against_an_exact_queue(load, prompts):
    sizes = np.asarray(prompts)
    scale = float(queue_scale_tokens(sizes.mean(), (sizes**2).mean(), 1.0))
    work = load * scale / (1 - load)
    waits = exact_waits(load, sizes, 400_000, 7) * 1000.0  # seconds at 1,000 tokens/s -> tokens
    assert waits.mean() == pytest.approx(work, rel=0.05)
    level = work * 2.5
    exact = float((waits > level).mean())
    # An exponential tail is exact in mean and in heavy traffic only; a fixed prompt's tail falls
    # faster and a two-point mix is lumpy: 2.5 means out it is within a factor of two.
    found = float(waiting_tail(work, 0.0, scale, level))
    assert 0.5 * exact <= found <= 2.0 * exact + 0.01


def test_share_of_chance_is_one_for_split_streams_and_small_for_long_queues_of_the_trace_itself():
    assert unresolved_share(500.0, 900.0, 1000.0, 0.0, 2.0) == pytest.approx(1.0)
    assert unresolved_share(500.0, 990.0, 1000.0, 1.0, 2.0) < 0.05
    assert unresolved_share(500.0, 10.0, 1000.0, 1.0, 2.0) > 0.95
