"""Sessions and closed loops behind least-loaded and cache-aware routers, against a reference."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from reference_prefix import CachingEngine
from reference_routed_loop import RoutedLoop, lightest, recorded
from reference_vllm_v1 import Engine
from sim_cases import assert_same, case, plain_cost, requests_of
from test_cache_router import ROOMY, conversations, overlap
from test_equality import leave_out_ties
from test_loop import in_sessions
from test_prefix import trace_of, with_ids

from planner.sim.replay import replay
from planner.sim.routing import CacheAware
from planner.sim.settings import SchedulerSettings


def kind_of_case(seed, most=120):
    return case(
        seed,
        tight=seed % 2 == 1,
        admission=("chunk", "full_sequence")[seed // 2 % 2],
        asynchronous=seed % 3 == 1,
        threshold=seed % 5 == 0,
        most=most,
    )


def check(one, requests, run, **how):
    choices = run.run()
    leave_out_ties(run.margin_s())
    done = replay(requests, one.cost, one.settings, replicas=len(run.engines), debug=True, **how)
    assert done.replica.tolist() == choices
    assert_same(done, one.jobs)
    np.testing.assert_allclose(
        done.arrival_s, [job.arrival_s for job in one.jobs], rtol=1e-9, atol=1e-12
    )
    assert done.totals.steps == sum(engine.steps for engine in run.engines)
    assert done.totals.preemptions == sum(engine.preemptions for engine in run.engines)
    return done


@pytest.mark.parametrize("seed", range(40))
def test_sessions_go_to_the_least_loaded(seed):
    one = kind_of_case(seed)
    requests = in_sessions(one, 2 + seed % 30, seed, latency=seed % 2 == 0)
    engines = [recorded(Engine)([], one.settings, one.cost) for _ in range(2 + seed % 3)]
    check(
        one,
        requests,
        RoutedLoop(one.jobs, engines, lightest),
        routing="least_loaded",
        follow_sessions=True,
        bin_s=(0.7, 60.0)[seed % 2],
    )


def closed(one, concurrency):
    for job in one.jobs:
        job.arrival_s = -math.inf
    for job in one.jobs[:concurrency]:
        job.arrival_s = 0.0
    return replace(one.trace, arrival_s=np.zeros(len(one.jobs))), one.jobs[concurrency:]


@pytest.mark.parametrize("seed", range(40))
def test_clients_send_to_the_least_loaded(seed):
    one, concurrency = kind_of_case(seed), 1 + seed % 17
    requests, line = closed(one, concurrency)
    engines = [recorded(Engine)([], one.settings, one.cost) for _ in range(2 + seed % 3)]
    check(
        one,
        requests,
        RoutedLoop(one.jobs, engines, lightest, line),
        routing="least_loaded",
        concurrency=concurrency,
    )


def by_cache(rule):
    """The router's rule, looking into every replica's pool."""

    def choose(job, engines, loads, order):
        found = [overlap(engine, job) for engine in engines]
        spread, most = max(loads) - min(loads), max(found)
        blocks = -(-job.prompt // engines[0].settings.block_size)
        uneven = spread > rule.balance_abs_threshold
        uneven &= max(loads) > rule.balance_rel_threshold * min(loads)
        if uneven or most <= rule.cache_threshold * blocks:
            return min(order, key=loads.__getitem__)
        return min((r for r in order if found[r] == most), key=loads.__getitem__)

    return choose


@pytest.mark.parametrize("loop", ["sessions", "clients"])
@pytest.mark.parametrize("seed", range(30))
def test_cache_aware(seed, loop):
    one = kind_of_case(seed)
    unit = one.settings.block_size * (1 + seed % 2)
    with_ids(one, np.random.default_rng(seed), unit=unit)
    for job in one.jobs:
        job.table, job.lost = [], 0
    rule = CacheAware(
        cache_threshold=(0.3, 0.0, 0.6)[seed % 3],
        balance_abs_threshold=1 + seed % 3,
        balance_rel_threshold=1.5,
    )
    ids = trace_of(one, unit)
    kind = recorded(type("Unit", (CachingEngine,), {"unit": unit}))
    engines = [kind([], one.settings, one.cost) for _ in range(2 + seed % 3)]
    if loop == "sessions":
        told = in_sessions(one, 2 + seed % 30, seed, latency=seed % 2 == 0)
        arrivals = {"session_id": told.session_id, "observed_e2e_s": told.observed_e2e_s}
        requests, line, how = replace(ids, **arrivals), None, {"follow_sessions": True}
    else:
        _, line = closed(one, 1 + seed % 17)
        requests = replace(ids, arrival_s=np.zeros(len(one.jobs)))
        how = {"concurrency": 1 + seed % 17}
    one = replace(one, settings=replace(one.settings, enable_prefix_caching=True))
    run = RoutedLoop(one.jobs, engines, by_cache(rule), line)
    done = check(one, requests, run, routing="cache_aware", cache_aware=rule, **how)
    assert done.totals.hit_tokens == sum(engine.hit_tokens for engine in engines)


def test_one_replica_needs_no_router():
    """Behind a router or not: one replica replays the same."""
    one = kind_of_case(2)
    requests = in_sessions(one, 9, 2, latency=True)
    ask = {"follow_sessions": True, "debug": True}
    near = replay(requests, one.cost, one.settings, routing="least_loaded", **ask)
    plain = replay(requests, one.cost, one.settings, **ask)
    np.testing.assert_allclose(near.e2e_s, plain.e2e_s, rtol=1e-12)
    np.testing.assert_allclose(near.arrival_s, plain.arrival_s, rtol=1e-12)


def test_clients_keep_all_replicas_busy():
    """Nine clients, three replicas, equal requests: three of them are always at each replica."""
    settings = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=8, max_model_len=64, num_blocks=100
    )
    requests = requests_of(np.zeros(90), np.full(90, 5), np.full(90, 8))
    done = replay(
        requests,
        plain_cost(0.5, 64, 8),
        settings,
        concurrency=9,
        replicas=3,
        routing="least_loaded",
        debug=True,
    )
    assert np.bincount(done.replica).tolist() == [30, 30, 30]
    assert done.e2e_s.tolist() == [4.0] * 90


def test_conversations_that_wait_for_their_answers_come_back():
    trace = replace(conversations(60, 6), session_id=np.zeros(360, np.int64))
    first = trace.block_ids[trace.block_offset[:-1]]
    trace = replace(trace, session_id=np.unique(first, return_inverse=True)[1])
    ask = {"replicas": 4, "follow_sessions": True}
    shares = {
        routing: replay(trace, plain_cost(0.02), ROOMY, routing=routing, **ask).hit_share
        for routing in ("least_loaded", "cache_aware", "random")
    }
    assert shares["cache_aware"] == pytest.approx(15 / 21, abs=0.01)
    assert shares["random"] == pytest.approx(15 / 21, abs=0.01)  # turns stay where the first went
    assert shares["least_loaded"] < 0.6
