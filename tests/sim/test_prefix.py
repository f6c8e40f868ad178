"""The prefix cache against the reference that moves every block by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_prefix import CachingEngine
from reference_vllm_v1 import simulate
from sim_cases import assert_same, case, plain_cost, requests_of
from test_equality import cases, common, leave_out_ties

from planner.sim.blocks import prefixes
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings


def with_ids(one, rng, *, unit, reuse=0.8, rounded_up=True):
    """Give every job ids: mostly the beginning of an earlier prompt, then new ones."""
    before, count = [], 0
    for job in one.jobs:
        length = -(-job.prompt // unit) if rounded_up else job.prompt // unit
        old = before[int(rng.integers(len(before)))] if before and rng.random() < reuse else []
        ids = list(old[: int(rng.integers(0, len(old) + 1)) if rng.random() < 0.5 else None])
        ids = ids[:length]
        fresh = length - len(ids)
        job.ids = ids + list(range(count, count + fresh))
        count += fresh
        before.append(job.ids)
    return one


def trace_of(one, unit):
    ids = [job.ids for job in one.jobs]
    return replace(
        one.trace,
        block_tokens=unit,
        block_offset=np.concatenate(([0], np.cumsum([len(each) for each in ids]))),
        block_ids=np.array([i for each in ids for i in each], np.int64),
    )


def check(one, unit, **options):
    engine = simulate(one.jobs, one.settings, one.cost, type("E", (CachingEngine,), {"unit": unit}))
    leave_out_ties(engine.margin_s)
    chosen = replace(one.settings, enable_prefix_caching=True)
    done = replay(trace_of(one, unit), one.cost, chosen, debug=True, **options)
    assert_same(done, one.jobs)
    assert done.totals.steps == engine.steps
    assert done.totals.preemptions == engine.preemptions
    assert done.totals.recomputed_tokens == engine.recomputed
    assert done.totals.hit_tokens == engine.hit_tokens
    return engine


@common
@given(cases(tight=True), st.integers(0, 10**6), st.booleans())
def test_every_hit_equals_the_stepped_pool(one, seed, rounded_up):
    unit = one.settings.block_size
    check(with_ids(one, np.random.default_rng(seed), unit=unit, rounded_up=rounded_up), unit)


@common
@given(cases(tight=True, threshold=True, windows=1), st.integers(0, 10**6), st.integers(1, 40))
def test_trace_blocks_of_another_size(one, seed, unit):
    check(with_ids(one, np.random.default_rng(seed), unit=unit), unit)


@common
@given(cases(tight=False), st.integers(0, 10**6), st.integers(1, 12))
def test_hits_without_pressure(one, seed, unit):
    check(with_ids(one, np.random.default_rng(seed), unit=unit, reuse=1.0), unit, bin_s=0.4)


@pytest.mark.parametrize("seed", range(30))
def test_long_cases_hit_evict_and_resume(seed):
    one = case(
        seed,
        tight=seed % 3 > 0,
        admission=("chunk", "full_sequence")[seed % 2],
        threshold=seed % 5 == 0,
        asynchronous=seed % 7 > 3,
        most=200,
    )
    unit = one.settings.block_size * int(1 + seed % 3)
    check(with_ids(one, np.random.default_rng(seed), unit=unit), unit)


def test_the_cases_hit_and_resume():
    """The equality tests above mean something only if blocks are hit and evicted in them."""
    hit, prompts, saved = 0, 0, 0
    for seed in range(30):
        one = case(seed, tight=True, admission="chunk", most=100)
        with_ids(one, np.random.default_rng(seed), unit=one.settings.block_size)
        unit = one.settings.block_size
        engine = check(one, unit)
        hit += engine.hit_tokens
        prompts += sum(job.prompt for job in one.jobs)
        plain = case(seed, tight=True, admission="chunk", most=100)
        saved += simulate(plain.jobs, plain.settings, plain.cost).recomputed > engine.recomputed
    assert 0.1 < hit / prompts < 0.9
    assert saved > 10


def test_ids_that_name_only_their_own_content_are_chained():
    """[7, 8] and [9, 8] share no prefix, though both hold 8."""
    trace = replace(
        requests_of([0.0, 5.0, 10.0], [32, 33, 49], [1, 1, 1]),
        block_tokens=16,
        block_offset=np.array([0, 2, 4, 7]),
        block_ids=np.array([7, 8, 9, 8, 9, 8, 8]),
    )
    chosen = SchedulerSettings(
        max_num_batched_tokens=64,
        max_num_seqs=4,
        max_model_len=100,
        num_blocks=50,
        enable_prefix_caching=True,
    )
    done = replay(trace, plain_cost(0.01, 64, 4), chosen, debug=True)
    assert done.totals.hit_tokens == 32
    found = prefixes(trace, np.arange(3), chosen)
    assert found.rows.shared_blocks.tolist() == [0, 2, 2]
    assert found.keys == 2


def test_a_cached_prompt_still_computes_its_last_block():
    trace = replace(
        requests_of([0.0, 1.0], [64, 64], [1, 1]),
        block_tokens=16,
        block_offset=np.array([0, 4, 8]),
        block_ids=np.array([0, 1, 2, 3, 0, 1, 2, 3]),
    )
    chosen = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=100, num_blocks=8
    )
    cached = replace(chosen, enable_prefix_caching=True)
    assert replay(trace, plain_cost(0.01, 64, 4), cached, debug=True).totals.hit_tokens == 48
    assert replay(trace, plain_cost(0.01, 64, 4), chosen).totals.hit_tokens == 0
    stated = replace(trace, cached_tokens=np.array([0, 64]))
    assert (
        replay(stated, plain_cost(0.01, 64, 4), cached, use_cached_tokens=True).totals.hit_tokens
        == 63
    )


def test_each_replica_has_its_own_cache():
    n = 400
    trace = replace(
        requests_of(np.arange(n) * 0.5, np.full(n, 65), np.full(n, 2)),
        block_tokens=16,
        block_offset=np.arange(n + 1) * 4,
        block_ids=np.tile(np.arange(4), n),
    )
    chosen = SchedulerSettings(
        max_num_batched_tokens=128,
        max_num_seqs=4,
        max_model_len=100,
        num_blocks=40,
        enable_prefix_caching=True,
    )
    for routing in ("random", "round_robin", "least_loaded"):
        done = replay(
            trace, plain_cost(0.01, 128, 4), chosen, replicas=3, routing=routing, debug=True
        )
        assert done.totals.hit_tokens == 64 * (n - 3)
