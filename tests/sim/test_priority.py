"""Scheduling by priority against its step-by-step reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_prefix import CachingEngine
from reference_priority import ByPriority
from reference_vllm_v1 import Job, simulate
from sim_cases import assert_same, case, plain_cost, requests_of, results, trace
from test_equality import cases, common, leave_out_ties
from test_loop import in_sessions, run
from test_prefix import trace_of, with_ids

from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings
from planner.spec.slo import WorkloadClass


def check(one, priority, bin_s=60.0):
    engine_of = type("Ranked", (ByPriority,), {"priority": priority})
    engine = simulate(one.jobs, one.settings, one.cost, engine_of)
    leave_out_ties(engine.margin_s)
    done = replay(
        one.trace,
        one.cost,
        replace(one.settings, scheduling_policy="priority"),
        classes=[
            WorkloadClass(name=f"class{c}", targets=(), priority=priority[c]) for c in range(3)
        ],
        use_cached_tokens=True,
        debug=True,
        bin_s=bin_s,
    )
    assert_same(done, one.jobs)
    assert done.totals.steps == engine.steps
    assert done.totals.preemptions == engine.preemptions
    assert done.totals.recomputed_tokens == engine.recomputed
    return done, engine


priorities = st.tuples(st.integers(-1, 1), st.integers(-1, 1), st.integers(-1, 1))


@common
@given(cases(tight=False), priorities)
def test_the_urgent_are_admitted_first(one, priority):
    check(one, priority)


@common
@given(cases(tight=True), priorities, st.floats(1e-2, 10.0))
def test_the_least_urgent_are_preempted(one, priority, bin_s):
    check(one, priority, bin_s)


@common
@given(cases(tight=True, threshold=True, windows=1, cached=True), priorities)
def test_with_thresholds_windows_and_cached_prompts(one, priority):
    check(one, priority)


@pytest.mark.parametrize("seed", range(30))
def test_long_cases(seed):
    one = case(
        seed,
        tight=seed % 3 > 0,
        admission=("chunk", "full_sequence")[seed % 2],
        threshold=seed % 5 == 0,
        asynchronous=seed % 7 > 3,
        most=200,
    )
    check(one, ((0, 1, 2), (2, 0, 1), (5, -3, 5))[seed % 3])


def check_cached(one, priority, unit):
    """Hits by the trace's ids, with priorities: every block, every time."""
    rules = {"priority": priority, "unit": unit}
    engine = simulate(
        one.jobs, one.settings, one.cost, type("Both", (ByPriority, CachingEngine), rules)
    )
    leave_out_ties(engine.margin_s)
    done = replay(
        trace_of(one, unit),
        one.cost,
        replace(one.settings, scheduling_policy="priority", enable_prefix_caching=True),
        classes=[
            WorkloadClass(name=f"class{c}", targets=(), priority=priority[c]) for c in range(3)
        ],
        debug=True,
    )
    assert_same(done, one.jobs)
    assert done.totals.steps == engine.steps
    assert done.totals.preemptions == engine.preemptions
    assert done.totals.recomputed_tokens == engine.recomputed
    assert done.totals.hit_tokens == engine.hit_tokens
    return done


@pytest.mark.parametrize("seed", range(40))
def test_sessions_wait_by_when_they_really_came(seed):
    """A session's turn can come long after its place in the trace: arrivals decide, not places."""
    one = case(seed, tight=seed % 2 == 0, asynchronous=seed % 3 == 0, most=120)
    ranks = ((0, 1, 1), (1, 0, 1))[seed % 2]
    requests = in_sessions(one, 3 + seed % 9, seed, latency=seed % 4 > 1)
    run(one, type("Ranked", (ByPriority,), {"priority": ranks}))
    done = replay(
        requests,
        one.cost,
        replace(one.settings, scheduling_policy="priority"),
        classes=[WorkloadClass(name=f"class{c}", targets=(), priority=ranks[c]) for c in range(3)],
        follow_sessions=True,
        debug=True,
    )
    assert_same(done, one.jobs)


@common
@given(cases(tight=True, threshold=True), priorities, st.integers(0, 10**6), st.integers(1, 3))
def test_with_the_prefix_cache(one, priority, seed, factor):
    unit = one.settings.block_size * factor
    check_cached(with_ids(one, np.random.default_rng(seed), unit=unit), priority, unit)


@pytest.mark.parametrize("seed", range(60))
def test_long_cases_with_the_prefix_cache(seed):
    """Half of them with room, half so tight that the preempted lose what they had."""
    rng = np.random.default_rng(seed)
    one = case(
        seed,
        tight=seed % 2 == 0,
        admission=("chunk", "full_sequence")[seed % 4 > 1],
        threshold=seed % 3 == 0,
        asynchronous=seed % 7 > 3,
        most=200,
    )
    unit = one.settings.block_size * int(rng.integers(1, 4))
    check_cached(with_ids(one, rng, unit=unit), ((0, 1, 2), (2, 0, 1), (5, -3, 5))[seed % 3], unit)


def test_the_cached_cases_hit_and_preempt():
    """They mean something only if requests are preempted, resume, and hit."""
    hits = preempted = 0
    for seed in range(0, 40, 2):
        one = case(seed, tight=True, most=120)
        unit = one.settings.block_size
        done = check_cached(with_ids(one, np.random.default_rng(seed), unit=unit), (0, 1, 2), unit)
        hits += done.totals.hit_tokens
        preempted += done.totals.preemptions
    assert hits > 1000
    assert preempted > 100


@pytest.mark.parametrize("seed", range(6))
def test_equal_priorities_preempt_by_arrival_and_otherwise_change_nothing(seed):
    one = case(seed, tight=False, most=80)
    first = replay(one.trace, one.cost, one.settings)
    same = replay(one.trace, one.cost, replace(one.settings, scheduling_policy="priority"))
    np.testing.assert_array_equal(first.e2e_s, same.e2e_s)


def test_the_cases_preempt_in_the_middle():
    """The equality tests mean something only if others than the last admitted must go."""
    different = 0
    for seed in range(20):
        one = case(seed, tight=True, most=120)
        simulate(one.jobs, one.settings, one.cost)
        done = replay(
            one.trace,
            one.cost,
            replace(one.settings, scheduling_policy="priority"),
            classes=[WorkloadClass(name="class0", targets=(), priority=-1)],
        )
        different += done.preemptions.tolist() != results(one.jobs)[3].tolist()
    assert different > 10


def test_an_urgent_request_passes_the_queue():
    """One slot, steps of 1 s: the third request to arrive runs second."""
    requests = requests_of(
        [0.0, 0.5, 0.6], [1, 1, 1], [3, 3, 3], class_id=[0, 0, 1], names=("batch", "chat")
    )
    chosen = SchedulerSettings(
        max_num_batched_tokens=8,
        max_num_seqs=1,
        max_model_len=16,
        num_blocks=10,
        scheduling_policy="priority",
    )
    urgent = [WorkloadClass(name="chat", targets=(), priority=-1)]
    done = replay(requests, plain_cost(1.0, 8, 1), chosen, classes=urgent)
    assert done.e2e_s.tolist() == [3.0, 8.5, 5.4]
    plain = replay(requests, plain_cost(1.0, 8, 1), replace(chosen, scheduling_policy="fcfs"))
    assert plain.e2e_s.tolist() == [3.0, 5.5, 8.4]


def test_what_priorities_cannot_be_combined_with():
    base = {
        "max_num_batched_tokens": 64,
        "max_num_seqs": 4,
        "max_model_len": 64,
        "num_blocks": 10,
        "scheduling_policy": "priority",
    }
    with pytest.raises(ValueError, match="vllm_v1's"):
        SchedulerSettings(**base, policy="sarathi_serve")
    with pytest.raises(ValueError, match="not one of"):
        SchedulerSettings(**{**base, "scheduling_policy": "urgent"})


def test_jobs_know_their_place():
    """The reference orders equal arrivals as the trace lists them."""
    jobs = [Job(arrival_s=0.0, prompt=1, output=1, class_id=c) for c in (1, 0, 0)]
    engine_of = type("Ranked", (ByPriority,), {"priority": (0, 1)})
    chosen = SchedulerSettings(
        max_num_batched_tokens=8, max_num_seqs=1, max_model_len=16, num_blocks=10
    )
    simulate(jobs, chosen, plain_cost(1.0, 8, 1), engine_of)
    assert [job.token_s[0] for job in jobs] == [3.0, 1.0, 2.0]
    assert len(trace(jobs, 2)) == 3
