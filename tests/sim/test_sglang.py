"""SGLang's policy against its step-by-step reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_sglang import SGLang
from reference_vllm_v1 import simulate
from sim_cases import case, plain_cost, requests_of, step_cost
from test_equality import cases, check, common

from planner.sim.metrics import gap_percentile
from planner.sim.refusals import REASONS
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings


def unmixed(one, *, chunk=None, spare=0, daring=1.0):
    """The same case under SGLang's policy: pages of one token, `spare` beyond the longest."""
    seqs = one.settings.max_num_seqs
    budget = max(chunk or one.settings.max_num_batched_tokens, seqs)
    tokens = max(job.prompt + job.output for job in one.jobs) + 1 + spare
    cost = step_cost(
        np.random.default_rng(len(one.jobs)), budget, seqs, asynchronous=one.cost.async_scheduling
    )
    chosen = replace(
        one.settings,
        policy="sglang",
        admission="reserved_output",
        max_num_batched_tokens=budget,
        block_size=1,
        num_blocks=tokens,
        long_prefill_token_threshold=0,
        schedule_conservativeness=daring,
    )
    return replace(one, settings=chosen, cost=cost)


@common
@given(cases(tight=True), st.integers(0, 300), st.floats(1e-2, 10.0))
def test_every_time_equals_the_stepped_scheduler(one, spare, bin_s):
    check(unmixed(one, spare=spare), bin_s=bin_s, reference=SGLang)


@common
@given(cases(tight=True), st.integers(0, 200), st.integers(1, 30), st.floats(0.0, 2.0))
def test_small_chunks_in_a_small_pool(one, spare, chunk, daring):
    check(unmixed(one, spare=spare, chunk=chunk, daring=daring), reference=SGLang)


@pytest.mark.parametrize("seed", range(30))
def test_long_cases(seed):
    one = unmixed(
        case(seed, asynchronous=seed % 2 == 1, most=200),
        spare=int(10 ** (seed % 4)),
        chunk=64,
        daring=(1.0, 0.1, 0.0)[seed % 3],
    )
    done, _ = check(one, reference=SGLang)
    gaps = np.sort(np.concatenate([np.diff(job.token_s) for job in one.jobs] or [[]]))
    assert done.gaps.sum() == len(gaps)
    if len(gaps):
        found = gap_percentile(done.gaps.sum(axis=(0, 1)), 100.0)
        assert gaps[-1] * (1 - 1e-9) <= found <= gaps[-1] * 1.02  # a bin is at most 1.6 % wide


def test_a_prefill_batch_limited_by_max_prefill_tokens():
    one = unmixed(case(3, most=60), spare=2000, chunk=400)
    narrow = replace(one.settings, max_prefill_tokens=50)
    limited = type("E", (SGLang,), {"max_prefill_tokens": 50})
    check(replace(one, settings=narrow), reference=limited)


def test_the_cases_retract_and_refuse():
    """The equality tests above mean something only if memory runs out in them."""
    retracted = 0
    for seed in range(40):
        one = unmixed(case(seed, most=150), spare=80, daring=0.0)
        retracted += simulate(one.jobs, one.settings, one.cost, SGLang).preemptions
    assert retracted > 100


class MostFirst(SGLang):
    """A wrong engine: it retracts the request with the most output."""

    def retract(self, active):
        for job in active:
            job.given = -job.given
        kept = super().retract(active)
        for job in active:
            job.given = -job.given
        return kept


def test_a_wrong_scheduler_is_told_apart():
    different = 0
    for seed in range(10):
        one, wrong = (unmixed(case(seed, most=60), spare=100, daring=0.0) for _ in range(2))
        simulate(wrong.jobs, wrong.settings, wrong.cost, MostFirst)
        done = replay(one.trace, one.cost, one.settings)
        last = np.array([job.token_s[-1] - job.arrival_s for job in wrong.jobs])
        different += not np.allclose(done.e2e_s, last, rtol=1e-6)
    assert different >= 5


def test_what_can_never_be_admitted_is_rejected():
    chosen = SchedulerSettings(
        max_num_batched_tokens=64,
        max_num_seqs=4,
        max_model_len=1000,
        num_blocks=100,
        block_size=1,
        policy="sglang",
        admission="reserved_output",
    )
    trace = requests_of([0.0, 1.0], [60, 60], [39, 40])
    done = replay(trace, plain_cost(0.01, 64, 4), chosen, debug=True)
    assert [REASONS[r] for r in done.rejected] == ["", REASONS[2]]
    assert done.ttft_s[0] == pytest.approx(0.01)
