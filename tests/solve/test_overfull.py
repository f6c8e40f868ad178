"""Where a replay preempts first, against a replay of the whole trace at those multiples."""

from __future__ import annotations

import pytest
from solve_cases import LLAMA_70B, poisson, slo_of

from planner.sim.load import scale
from planner.sim.replay import replay
from planner.solve.concurrency import concurrency
from planner.solve.overfull import MOST, PRECISION, bracket
from planner.solve.recommend import chosen

TARGETS = (("ttft_s", 99.0, 4.0), ("tpot_s", 99.0, 0.2))


@pytest.fixture(scope="module")
def decision(make_case):
    traffic = poisson(2.0, 900.0, input_mean=1500, output_mean=400)
    slo = slo_of(
        *TARGETS, model=LLAMA_70B, tensor_parallel_sizes=(2,), gpu_memory_utilization=(0.92,)
    )
    return chosen(make_case(traffic, slo))[0]


@pytest.fixture(scope="module")
def found(decision):
    return concurrency(decision)


def asked(threshold):
    calls: list[float] = []

    def preempts(multiple: float) -> bool:
        calls.append(multiple)
        return multiple > threshold

    return bracket(preempts), calls


@pytest.mark.parametrize("threshold", [1.0, 1.2, 1.6, 1.99, 2.0, 2.7, 3.9])
def test_at_most_six_replays_bracket_the_threshold(threshold):
    (low, high), calls = asked(threshold)
    assert low <= threshold < high
    assert high / low <= PRECISION
    assert len(calls) <= 6


def test_no_load_beyond_the_largest_is_asked():
    assert asked(5.0) == ((MOST, None), [2.0, 4.0])


def test_the_first_preemption_is_where_a_replay_of_the_trace_has_it(decision, found):
    """The trace is one window, so it can be replayed without the solver's own probes."""
    first, trial = found.first_preemption, decision.confirmed.trial
    assert first.with_factor is not None
    assert decision.confirmed.whole.totals.preemptions == 0

    def totals(multiple):
        count = decision.replicas
        more = scale(decision.case.requests, multiple * decision.load * count, seed=42)
        return replay(more, trial.cost, trial.settings, replicas=count, seed=42).totals

    assert totals(first.without_factor).preemptions == 0
    # Two steps of the bracket above it: well past the percent in which luck decides.
    assert totals(first.with_factor * PRECISION**2).preemptions > 0


def test_mean_use_says_nothing_of_it(decision, found):
    """By replay the cache overflows in a surge, long before the equations' mean is full."""
    assert found.first_preemption.with_factor < found.preemption_load_factor
    assert found.first_preemption.peak_use_share > 1.2 * found.kv_use_worst
