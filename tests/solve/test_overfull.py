"""Where a replay preempts first, against a replay of the whole trace at those multiples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from solve_cases import LLAMA_70B, poisson, slo_of

from planner.sim.load import scale
from planner.sim.replay import replay
from planner.sim.series import Series
from planner.solve.concurrency import concurrency
from planner.solve.overfull import (
    FULL_SHARE,
    MOST,
    PRECISION,
    bracket,
    first_preemption,
    most_preemptions,
)
from planner.solve.recommend import chosen
from planner.solve.verify import Trial
from planner.solve.windows import window_label

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


def test_the_peak_lies_in_its_window_and_the_requests_there_fill_it(decision, found):
    first, memory = found.first_preemption, decision.candidate.memory
    peak, window = first.peak, decision.confirmed.trial.windows[0]
    assert window.start_s <= float(peak.at.split(" s after")[0]) <= window.end_s
    assert first.window == window_label(window.start_s, window.end_s, "")
    assert peak.class_requests == peak.running  # there is one class
    assert peak.class_share == 1.0
    held = first.peak_use_share * memory.kv_tokens
    prompts = peak.running * peak.class_input_tokens
    # Beside their prompts they hold what they have generated: some of 400 tokens on average,
    # long answers in proportion to how long they run.
    assert prompts < held < prompts + peak.running * 1_500


def test_a_cache_that_the_plan_s_own_load_fills_is_full_at_that_load(decision, make_case):
    """The same plan with a cache as large as its own peak: no multiple goes without."""
    confirmed = decision.confirmed
    blocks = math.ceil(confirmed.whole.totals.kv_use_max * confirmed.trial.settings.num_blocks)
    trial = replace(confirmed.trial, settings=replace(confirmed.trial.settings, num_blocks=blocks))
    whole = trial.whole(decision.load, decision.replicas)
    assert whole.totals.kv_use_max >= FULL_SHARE
    tight = replace(decision, confirmed=replace(confirmed, trial=trial, whole=whole))
    first = first_preemption(tight)
    assert (first.without_factor, first.with_factor) == (0.0, 1.0)
    assert first.peak_use_share >= whole.totals.kv_use_max
    assert first.peak.high_s > 0.0
    assert first.peak.preemptions == whole.totals.preemptions


def test_the_larger_loads_are_asked_in_the_window_of_the_peak(decision, monkeypatch):
    asked = []
    replayed = Trial.replayed

    def noted(self, load, replicas, **how):
        asked.append((round(load / decision.load, 6), how["span"]))
        return replayed(self, load, replicas, **how)

    monkeypatch.setattr(Trial, "replayed", noted)
    first = first_preemption(decision)
    assert {window_label(*span, "") for _, span in asked} == {first.window}
    assert asked[0][0] == 1.0
    assert len(asked) <= 7


def test_preemptions_of_ten_minutes_are_counted_across_bins():
    end = np.arange(1, 31) * 60.0
    counts = np.zeros(30, np.int64)
    counts[[4, 9, 13, 29]] = 3, 2, 5, 1
    rates = {name: np.zeros(30) for name in Series.__dataclass_fields__}
    made = Series(**rates | {"start_s": end - 60.0, "end_s": end, "preemptions": counts})
    assert most_preemptions(made) == 10  # minutes 4 to 13 touch eleven bins at most
