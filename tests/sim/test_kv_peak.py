"""When a replica's KV cache is fullest and for how long it is nearly full, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sim_cases import plain_cost, requests_of

from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings

STEP_S = 0.01
SETTINGS = SchedulerSettings(
    max_num_batched_tokens=4_096, max_num_seqs=64, max_model_len=200, num_blocks=10, block_size=10
)
SGLANG = replace(
    SETTINGS, policy="sglang", admission="reserved_output", block_size=1, num_blocks=100
)


def one(prompt, answer, settings=SETTINGS, **how):
    trace = requests_of([5.0], [prompt], [answer])
    return replay(trace, plain_cost(STEP_S), settings, **how).totals


def test_a_growing_answer_is_fullest_at_its_end_and_high_from_nine_tenths_on():
    """A hundred blocks of one token, 61 … 99 of them held in steps of 10 ms: ten steps from 90."""
    totals = one(60, 40, replace(SETTINGS, block_size=1, num_blocks=100))
    assert totals.kv_use_max == pytest.approx(0.99, abs=0.01)
    assert 5.0 < totals.kv_peak_s <= 5.0 + 40 * STEP_S
    # A step more or less at either end: blocks are taken to fill evenly over a run.
    assert totals.kv_high_s == pytest.approx(10 * STEP_S, abs=2 * STEP_S)


@pytest.mark.parametrize("settings", [SETTINGS, SGLANG], ids=["vllm", "sglang"])
def test_a_cache_that_stays_below_nine_tenths_is_never_high(settings):
    totals = one(60, 20, settings)
    assert 0.7 <= totals.kv_use_max <= 0.8
    assert totals.kv_high_s == 0.0


def test_two_bursts_apart_are_two_spells_and_the_first_of_equal_peaks_counts():
    trace = requests_of([5.0, 50.0], [85, 85], [10, 10])
    totals = replay(trace, plain_cost(STEP_S), SETTINGS).totals
    assert 5.0 <= totals.kv_peak_s < 6.0
    assert 0.0 < totals.kv_high_s <= 11 * STEP_S  # not the 45 s between them


def test_the_fullest_replica_is_named():
    trace = requests_of([5.0, 50.0], [30, 80], [10, 10])
    owners = np.array([0, 1], np.int32)
    done = replay(trace, plain_cost(STEP_S), SETTINGS, replicas=2, owners=owners)
    assert done.totals.kv_peak_replica == 1
    assert 50.0 <= done.totals.kv_peak_s < 51.0


def test_nothing_served_has_no_peak():
    assert np.isnan(one(190, 100).kv_peak_s)
