"""Cache-aware routing against a router in plain Python that looks into every replica's pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference_prefix import CachingEngine
from reference_priority import ByPriority
from sim_cases import assert_same, case, plain_cost, requests_of
from test_equality import MARGIN_S, leave_out_ties
from test_prefix import trace_of, with_ids

from planner.errors import InputError
from planner.sim.replay import replay
from planner.sim.routing import CacheAware
from planner.sim.settings import SchedulerSettings
from planner.spec.slo import WorkloadClass


def overlap(engine, job):
    """Leading full blocks of the prompt that the replica's pool can still be asked for."""
    count = 0
    while count < job.prompt // engine.settings.block_size:
        if engine.pool.find(engine.name(job, count)) is None:
            break
        count += 1
    return count


def routed(one, unit, replicas, rule, bases=(CachingEngine,), **fields):
    """Route and run; return (engines, choices, how often each branch decided)."""
    kind = type("Unit", bases, {"unit": unit, **fields})
    engines = [kind([], one.settings, one.cost) for _ in range(replicas)]
    assigned = [[] for _ in engines]
    choices, branches, last = [], {"load": 0, "cache": 0, "none": 0}, replicas - 1
    for engine in engines:
        engine.arrivals = [job.arrival_s for job in one.jobs]
        engine.place = {job: i for i, job in enumerate(one.jobs)}
    for job in one.jobs:
        job.table, job.lost = [], 0
        loads = []
        for engine, mine in zip(engines, assigned, strict=True):
            engine.run(job.arrival_s)
            loads.append(sum(not j.done or j.done_s > job.arrival_s for j in mine))
        found = [overlap(engine, job) for engine in engines]
        spread = max(loads) - min(loads)
        blocks = -(-job.prompt // one.settings.block_size)
        candidates = range(replicas)
        if spread > rule.balance_abs_threshold and max(loads) > rule.balance_rel_threshold * min(
            loads
        ):
            branches["load"] += 1
        elif max(found) > rule.cache_threshold * blocks:
            candidates = [r for r in candidates if found[r] == max(found)]
            branches["cache"] += 1
        else:
            branches["none"] += 1
        order = [(last + 1 + k) % replicas for k in range(replicas)]
        last = min((r for r in order if r in candidates), key=loads.__getitem__)
        choices.append(last)
        assigned[last].append(job)
        engines[last].future.append(job)
    for engine in engines:
        engine.run()
    return engines, choices, branches


def test_every_choice_and_time_equals_the_reference():
    compared, all_branches = 0, {"load": 0, "cache": 0, "none": 0}
    for seed in range(40):
        one = case(
            seed,
            tight=seed % 2 == 1,
            admission=("chunk", "full_sequence")[seed // 2 % 2],
            asynchronous=seed % 3 == 1,
            most=120,
        )
        unit = one.settings.block_size * (1 + seed % 2)
        with_ids(one, np.random.default_rng(seed), unit=unit)
        rule = CacheAware(
            cache_threshold=(0.3, 0.0, 0.6)[seed % 3],
            balance_abs_threshold=1 + seed % 3,
            balance_rel_threshold=1.5,
        )
        replicas = 2 + seed % 3
        engines, choices, branches = routed(one, unit, replicas, rule)
        if min(engine.margin_s for engine in engines) < MARGIN_S:
            continue
        compared += 1
        done = replay(
            trace_of(one, unit),
            one.cost,
            replace(one.settings, enable_prefix_caching=True),
            replicas=replicas,
            routing="cache_aware",
            cache_aware=rule,
            debug=True,
        )
        assert done.replica.tolist() == choices
        assert_same(done, one.jobs)
        assert done.totals.hit_tokens == sum(engine.hit_tokens for engine in engines)
        for name, count in branches.items():
            all_branches[name] += count
    assert compared >= 30
    assert min(all_branches.values()) > 60


@pytest.mark.parametrize("seed", range(24))
def test_priorities_behind_a_cache_aware_router(seed):
    one = case(seed, tight=seed % 2 == 1, asynchronous=seed % 3 == 1, most=120)
    unit = one.settings.block_size
    with_ids(one, np.random.default_rng(seed), unit=unit)
    rule = CacheAware(cache_threshold=0.1, balance_abs_threshold=3)
    ranks = (2, 0, 1)
    both = (ByPriority, CachingEngine)
    engines, choices, _ = routed(one, unit, 3, rule, both, priority=ranks)
    leave_out_ties(min(engine.margin_s for engine in engines))
    done = replay(
        trace_of(one, unit),
        one.cost,
        replace(one.settings, enable_prefix_caching=True, scheduling_policy="priority"),
        replicas=3,
        routing="cache_aware",
        cache_aware=rule,
        classes=[WorkloadClass(name=f"class{c}", targets=(), priority=ranks[c]) for c in range(3)],
        debug=True,
    )
    assert done.replica.tolist() == choices
    assert_same(done, one.jobs)
    assert done.totals.hit_tokens == sum(engine.hit_tokens for engine in engines)


ROOMY = SchedulerSettings(
    max_num_batched_tokens=4096,
    max_num_seqs=64,
    max_model_len=8192,
    num_blocks=2000,
    enable_prefix_caching=True,
)


def conversations(count, turns, *, gap_s=0.7):
    """Sessions whose prompts grow by four blocks a turn; each prompt begins with the last one."""
    rng = np.random.default_rng(3)
    at, prompts, ids, fresh = [], [], [], 0
    for s in range(count):
        chain = []
        for t in range(turns):
            chain = [*chain, *range(fresh, fresh + 4)]
            fresh += 4
            at.append(s * gap_s + 30.0 * t + rng.uniform(0, 5))
            prompts.append(64 * (t + 1))
            ids.append(list(chain))
    order = np.argsort(at)
    return replace(
        requests_of(np.array(at)[order], np.array(prompts)[order], np.full(len(at), 20)),
        block_tokens=16,
        block_offset=np.concatenate(([0], np.cumsum([len(ids[i]) for i in order]))),
        block_ids=np.array([x for i in order for x in ids[i]]),
    )


def test_conversations_come_back_to_their_replica():
    trace = conversations(60, 6)
    shares = {
        routing: replay(trace, plain_cost(0.02), ROOMY, replicas=4, routing=routing).hit_share
        for routing in ("random", "round_robin", "least_loaded", "cache_aware")
    }
    # A turn's prompt repeats all of the last: t/(t + 1) of it, over turns 1 … 6: 15/21.
    assert shares["cache_aware"] == pytest.approx(15 / 21, abs=0.01)
    assert max(shares[each] for each in ("random", "round_robin", "least_loaded")) < 0.6


def test_cache_aware_routing_needs_caches():
    with pytest.raises(InputError, match="finds no prefix cache"):
        replay(requests_of([0.0], [5], [5]), plain_cost(0.02), ROOMY, routing="cache_aware")
    cost = replace(plain_cost(0.02), stages=2, slowest_stage_share=0.5)
    with pytest.raises(InputError, match="without pipelines"):
        replay(conversations(2, 2), cost, ROOMY, routing="cache_aware")
