"""Settings beside the search: what wins, what cannot, and that a full search agrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solve_cases import LLAMA_70B, poisson, slo_of

from planner.perf.memory import memory_budget
from planner.perf.startable import HELD_BEFORE_START_BYTES, highest_utilization
from planner.sim.replay import replay
from planner.solve.fleet import fleet_load
from planner.solve.groups import search_groups, search_totals
from planner.solve.recommend import chosen
from planner.solve.variants import variants
from planner.spec import catalog

SMALL = {"tensor_parallel_sizes": (1,), "max_num_seqs": (128,), "max_num_batched_tokens": (2048,)}
TIGHT = (("ttft_s", 99.0, 0.6), ("tpot_s", 99.0, 0.05))


def with_prefixes(requests, *, groups, prefix, block=16):
    """Put one of `groups` shared prefixes before each prompt, named block by block."""
    group = np.random.default_rng(2).integers(0, groups, len(requests))
    shared = prefix // block
    own = requests.input_tokens // block
    ids, fresh = [], groups * shared
    for which, count in zip(group, own, strict=True):
        ids += [which * shared + np.arange(shared), fresh + np.arange(count)]
        fresh += int(count)
    return replace(
        requests,
        input_tokens=requests.input_tokens + prefix,
        cached_tokens=np.full(len(requests), prefix),
        block_tokens=block,
        block_offset=np.concatenate([[0], np.cumsum(shared + own)]),
        block_ids=np.concatenate(ids).astype(np.int64),
    )


def found(decision):
    return {(v.dimension, v.value): v for v in variants(decision)}


def held(decision, count, **how):
    """Replay the whole trace on `count` replicas without the solver's probes."""
    trial = decision.confirmed.trial
    settings = how.pop("settings", trial.settings)
    return all(
        target.holds
        for target in replay(
            decision.case.requests,
            trial.cost,
            settings,
            replicas=count,
            seed=decision.case.slo.seed,
            classes=decision.case.slo.classes,
            **how,
        ).targets
    )


@pytest.fixture(scope="module")
def uneven(make_case):
    """A random split of few requests a second is uneven: other routers need fewer replicas."""
    traffic = poisson(8, 1200, seed=3, input_mean=3000, output_mean=150)
    return make_case(traffic, slo_of(*TIGHT, **SMALL))


@pytest.fixture(scope="module")
def plan_of_uneven(uneven):
    return chosen(uneven)[0]


def test_a_router_that_looks_saves_what_the_replay_of_the_trace_says(plan_of_uneven):
    plan, rows = plan_of_uneven, found(plan_of_uneven)
    looked = rows["routing", "least_loaded"]
    assert looked.outcome == "saves"
    assert looked.replicas < plan.replicas
    assert looked.usd_per_hour == pytest.approx(looked.gpus * plan.case.price(plan.case.gpus[0])[0])
    # The trace is one window, its load the fleet's: it can be replayed as it is.
    assert held(plan, looked.replicas, routing="least_loaded")
    assert not held(plan, looked.replicas - 1, routing="least_loaded")
    assert not held(plan, plan.replicas - 1, routing="random")


def test_a_declared_router_is_planned_with_and_random_is_then_no_gain(uneven, plan_of_uneven):
    declared = replace(uneven, slo=replace(uneven.slo, routing="least_loaded"))
    plan = chosen(declared)[0]
    assert plan.replicas == found(plan_of_uneven)["routing", "least_loaded"].replicas
    assert found(plan)["routing", "random"].outcome == "no_fewer"
    assert plan.confirmed.whole.routing == "least_loaded"


def test_what_throughput_alone_needs_no_router_can_save(make_case):
    """Two replicas because prompts alone take more than one; targets are far away."""
    traffic = poisson(16, 1200, seed=3, input_mean=3000, output_mean=50)
    loose = (("ttft_s", 99.0, 30.0), ("tpot_s", 99.0, 0.5))
    many = {**SMALL, "max_num_seqs": (512,), "max_num_batched_tokens": (8192,)}
    plan = chosen(make_case(traffic, slo_of(*loose, **many)))[0]
    before = plan.confirmed.trial.tally.replays
    rows = found(plan)
    for which in (("routing", "round_robin"), ("routing", "least_loaded")):
        assert (rows[which].outcome, rows[which].reason) == ("cannot_win", "throughput")
    assert rows["gpu_memory_utilization", "0.97"].reason == "throughput"
    assert plan.confirmed.trial.tally.replays == before
    assert not held(plan, plan.replicas - 1, routing="least_loaded")  # the bound tells the truth


def test_one_replica_leaves_nothing_to_save(make_case):
    light = poisson(1, 900, seed=3, input_mean=1000, output_mean=100)
    plan = chosen(make_case(light, slo_of(*TIGHT, **SMALL)))[0]
    assert plan.replicas == 1
    rows = found(plan)
    assert {row.reason for row in rows.values()} == {"one_replica", "no_prefix_ids"}
    assert {row.outcome for row in rows.values()} == {"cannot_win"}


@pytest.fixture(scope="module")
def full_cache(make_case):
    """Llama 70B on two H100 leaves 30k tokens of KV: a larger share of memory doubles them."""
    traffic = poisson(2, 1200, seed=3, input_mean=1500, output_mean=400)
    targets = (("ttft_s", 99.0, 8.0), ("tpot_s", 99.0, 0.2))
    few = {"tensor_parallel_sizes": (2,), "max_num_seqs": (256,), "max_num_batched_tokens": (2048,)}
    return make_case(traffic, slo_of(*targets, model=LLAMA_70B, **few))


def with_shares(case, *shares):
    return replace(case, slo=replace(case.slo, gpu_memory_utilization=shares))


def test_more_memory_wins_where_kv_binds_and_the_search_agrees(full_cache):
    plan = chosen(full_cache)[0]
    row = found(plan)["gpu_memory_utilization", "0.97"]
    assert row.outcome == "saves"
    wider = chosen(with_shares(full_cache, 0.97))[0]
    assert row.replicas == wider.replicas < plan.replicas
    assert found(wider)["gpu_memory_utilization", "0.97"].reason == "already_highest"


def test_of_several_shares_the_search_takes_the_one_that_saves(full_cache):
    plan, _, families = chosen(with_shares(full_cache, 0.92, 0.97))
    assert plan.deployment.gpu_memory_utilization == 0.97
    assert plan.replicas == chosen(with_shares(full_cache, 0.97))[0].replicas
    groups = {g.gpu_memory_utilization: g for g in search_groups(plan, families)}
    assert groups[0.97].outcome == "chosen"
    assert groups[0.92].outcome in ("misses_where_cheaper", "no_cheaper_at_best")


def test_of_several_shares_that_need_as_many_the_engine_s_own_is_kept(uneven, plan_of_uneven):
    plan = chosen(with_shares(uneven, 0.92, 0.97))[0]
    assert plan.replicas == plan_of_uneven.replicas
    assert plan.deployment.gpu_memory_utilization == 0.92


def test_slots_that_all_fit_the_cache_leave_more_memory_nothing_to_do(make_case):
    traffic = poisson(60, 600, seed=3, input_mean=800, output_mean=120, spread=0.4)
    few = {**SMALL, "max_num_seqs": (48,)}
    plan = chosen(make_case(traffic, slo_of(*TIGHT, **few)))[0]
    assert plan.replicas > 1
    row = found(plan)["gpu_memory_utilization", "0.97"]
    assert (row.outcome, row.reason, row.replays) == ("cannot_win", "kv_never_full", 0)
    assert plan.confirmed.whole.totals.kv_use_max < 1.0


@pytest.fixture(scope="module")
def shared_prompts(make_case):
    traffic = with_prefixes(
        poisson(16, 600, seed=1, input_mean=600, output_mean=150), groups=400, prefix=6144
    )
    targets = (("ttft_s", 99.0, 0.8), ("tpot_s", 99.0, 0.05))
    return make_case(traffic, slo_of(*targets, **SMALL))


def test_a_prefix_cache_and_a_router_that_knows_it_each_save_replicas(shared_prompts):
    plan = chosen(shared_prompts)[0]
    rows = found(plan)
    off, aware = rows["prefix_caching", "off"], rows["routing", "cache_aware"]
    assert off.outcome == "costs_more"
    assert aware.outcome == "saves"
    assert aware.replicas < rows["routing", "least_loaded"].replicas <= plan.replicas
    assert aware.replicas < plan.replicas < off.replicas
    assert held(plan, aware.replicas, routing="cache_aware")
    assert not held(plan, aware.replicas - 1, routing="cache_aware")
    without = replace(plan.confirmed.trial.settings, enable_prefix_caching=False)
    assert held(plan, off.replicas, settings=without)
    assert not held(plan, off.replicas - 1, settings=without)


def test_a_cache_that_is_off_is_asked_what_it_would_save(shared_prompts):
    off = replace(shared_prompts, slo=replace(shared_prompts.slo, prefix_caching=False))
    plan = chosen(off)[0]
    rows = found(plan)
    assert rows["prefix_caching", "on"].outcome == "saves"
    assert rows["prefix_caching", "on"].replicas == chosen(shared_prompts)[0].replicas
    assert rows["routing", "cache_aware"].reason == "prefix_cache_off"


def test_the_funnel_counts_what_was_replayed_and_what_was_ruled_out(uneven):
    plan, _, families = chosen(uneven)
    rows = variants(plan)
    totals = search_totals(plan, search_groups(plan, families), rows)
    assert totals.ruled_out == sum(row.replays == 0 for row in rows) == 2  # no prefixes
    assert totals.compared == 3
    assert totals.compared + totals.ruled_out == len(rows)


def test_the_highest_share_of_memory_leaves_what_is_outside_of_it():
    model, engine = catalog.model("meta-llama/Llama-3.1-8B-Instruct"), catalog.engine("vllm", "")
    gpu = catalog.gpu("h100")
    memory = memory_budget(model, gpu, engine, deployment_on(gpu, engine))
    share = highest_utilization(memory, engine)
    outside = memory.graphs_bytes + HELD_BEFORE_START_BYTES
    assert share * memory.visible_bytes + outside <= memory.visible_bytes
    assert (share + 0.01) * memory.visible_bytes + outside > memory.visible_bytes
    assert highest_utilization(memory, catalog.engine("sglang", "")) is None


def deployment_on(gpu, engine):
    from planner.spec.deployment import Deployment

    return Deployment(
        gpu=gpu.id,
        model="meta-llama/Llama-3.1-8B-Instruct",
        engine=engine.id,
        engine_version=engine.version,
        max_num_batched_tokens=2048,
        max_num_seqs=128,
        max_model_len=8192,
        gpu_memory_utilization=0.9,
    )


def test_replicas_keep_the_load_of_the_fleet_whatever_routes_it(plan_of_uneven):
    """A saving is asked at the fleet's load: fewer replicas see more each."""
    trial = plan_of_uneven.confirmed.trial
    load = fleet_load(plan_of_uneven.case.needs)
    assert len(trial.whole(load / 2, 2).ttft_s) == len(trial.whole(load / 4, 4).ttft_s)
