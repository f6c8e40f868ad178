"""Capacity, replicas, and the search against trying everything."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solve_cases import linear_cost, poisson, slo_of

from planner.solve.candidates import families, sized
from planner.solve.capacity import Configs, Judged, capacity_factors, holds_at, throughput_bound
from planner.solve.estimate import checks_of
from planner.solve.fleet import Needs, exact_replicas, for_load, replica_factor
from planner.solve.search import Priced, capacities, choose, configs_of, search, ties
from planner.solve.sensitivity import counts_around, least_count
from planner.solve.steps import stretched
from planner.solve.stretch import stretch_of
from planner.solve.traffic import traffic_of
from planner.solve.windows import class_windows
from planner.spec.slo import Target, WorkloadClass


def judged_of(requests, *targets, per_window=500, sample_rate=1.0):
    traffic = traffic_of(requests, max_model_len=1_000_000, sample_rate=sample_rate)
    windows = class_windows(
        traffic.arrival_s, traffic.class_id, 1, span_s=traffic.span_s, window_s=3600, min_requests=1
    )
    part = stretch_of(traffic, windows, start_s=0.0, end_s=traffic.span_s, per_window=per_window)
    made = tuple(Target(metric=m, percentile=p, limit_s=x) for m, p, x in targets)
    classes = (WorkloadClass(name="all", targets=made),)
    return Judged(stretch=part, checks=checks_of(part, classes, ("all",)))


def configs(budget=2048.0, seqs=256.0, kv_tokens=5e5):
    return Configs(
        max_num_batched_tokens=np.atleast_1d(np.asarray(budget, dtype=float)),
        max_num_seqs=np.atleast_1d(np.asarray(seqs, dtype=float)),
        kv_tokens=np.atleast_1d(np.asarray(kv_tokens, dtype=float)),
    )


COST = linear_cost(per_kv_token_s=30e-9)
LIMITS = (("ttft_s", 99.0, 0.5), ("tpot_s", 99.0, 0.03))


@pytest.fixture(scope="module")
def judged():
    return judged_of(poisson(4.0, 1800.0), *LIMITS)


def capacity(judged, cost=COST, **config):
    return float(capacity_factors(cost, [judged], configs(**config))[0])


def test_capacity_is_the_edge_between_holding_and_failing(judged):
    factor = capacity(judged)
    config = configs()
    assert holds_at(COST, [judged], config, np.array([factor * 0.99]))[0]
    assert not holds_at(COST, [judged], config, np.array([factor * 1.02]))[0]
    assert factor < float(throughput_bound(COST, judged.stretch, config)[0])


@settings(max_examples=15)
@given(st.floats(1.0, 4.0))
def test_looser_targets_never_lower_capacity(judged, factor):
    looser = replace(
        judged,
        checks=tuple(
            replace(c, target=replace(c.target, limit_s=c.target.limit_s * factor))
            for c in judged.checks
        ),
    )
    assert capacity(looser) >= capacity(judged) * 0.99


@settings(max_examples=10)
@given(st.floats(1.02, 1.8))
def test_a_slower_replica_never_carries_more(judged, factor):
    assert capacity(judged, stretched(COST, factor)) <= capacity(judged) * 1.01


def test_more_kv_cache_never_carries_less(judged):
    found = capacity_factors(
        COST,
        [judged],
        configs(budget=[2048.0] * 5, kv_tokens=[2e4, 4e4, 8e4, 2e5, 1e6], seqs=[512.0] * 5),
    )
    assert np.all(np.diff(found) >= -0.01 * found[:-1])
    assert found[-1] > 1.5 * found[0]  # 20,000 tokens hold about 18 sequences: they limit


def test_unreachable_target_has_no_capacity(judged):
    # 1,000 tokens take 20 ms at best, so a TTFT of 1 ms cannot be met at any load.
    assert capacity(judged_of(poisson(4.0, 1800.0), ("ttft_s", 99.0, 0.001))) == 0.0


def test_a_bracket_is_narrowed_no_further_than_the_count_needs(judged):
    """Loads that need one count are the same, so the counts are those of the full search."""
    needs = Needs(sample_rate=0.05, growth=0.1, headroom=0.1, spare_replicas=0)
    grid = configs(budget=[256.0, 1024.0, 4096.0], seqs=[16.0, 64.0, 256.0], kv_tokens=[5e5] * 3)
    asked = []

    def same(low, high):
        asked.append((low, high))
        return for_load(needs, low) == for_load(needs, high)

    exact = capacity_factors(COST, [judged], grid)
    rough = capacity_factors(COST, [judged], grid, same=same)
    counts = [[for_load(needs, float(each)) for each in found] for found in (exact, rough)]
    assert counts[0] == counts[1]
    assert asked
    assert (rough <= exact).all()  # the lower end of a wider bracket
    assert (rough < exact).any()


def test_worse_of_two_stretches_rules():
    easy = judged_of(poisson(2.0, 1800.0), *LIMITS)
    hard = judged_of(poisson(8.0, 1800.0), *LIMITS)
    both = float(capacity_factors(COST, [easy, hard], configs())[0])
    assert both == pytest.approx(capacity(hard), rel=0.01)
    assert float(capacity_factors(COST, [hard, easy], configs())[0]) == pytest.approx(
        both, rel=0.01
    )


def test_a_sample_says_what_a_larger_sample_says():
    # One service logged at two sample rates: half the rate carries twice the load factor. Without
    # taking the noise of the draw out of the bursts, the thinner log would look burstier.
    thin = capacity(judged_of(poisson(3.0, 3600.0, seed=4), *LIMITS, sample_rate=0.02))
    thick = capacity(judged_of(poisson(6.0, 3600.0, seed=5), *LIMITS, sample_rate=0.04))
    assert 3.0 * thin == pytest.approx(6.0 * thick, rel=0.08)


@given(st.floats(0.01, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 0.5), st.floats(1e-3, 100.0))
def test_replicas_for_load_carry_it_and_one_fewer_does_not(sample, growth, headroom, factor):
    needs = Needs(sample_rate=sample, growth=growth, headroom=headroom, spare_replicas=0)
    count = for_load(needs, factor)
    assert replica_factor(needs, count) <= (1 - headroom) * factor * (1 + 1e-6)
    if count > 1:
        assert replica_factor(needs, count - 1) > (1 - headroom) * factor * (1 - 1e-6)


def test_replica_arithmetic_by_hand():
    # 26 req/s in the peak of a 5 % sample, 10 % growth, 10 % headroom; one replica carries
    # 100 req/s: 26/0.05 · 1.1 / (0.9 · 100) = 6.36.
    needs = Needs(sample_rate=0.05, growth=0.1, headroom=0.1, spare_replicas=1)
    factor = 100.0 / 26.0
    assert exact_replicas(needs, factor) == pytest.approx(26 / 0.05 * 1.1 / 90.0)
    assert for_load(needs, factor) == 7
    assert math.isinf(exact_replicas(needs, 0.0))


def test_least_count_agrees_with_capacity(judged):
    needs = Needs(sample_rate=0.05, growth=0.0, headroom=0.1, spare_replicas=0)
    expected = for_load(needs, capacity(judged))
    for around in (max(1, expected // 2), expected, expected * 2):
        found = least_count(COST, [judged], configs(), needs, around)
        assert abs(found - expected) <= 1  # two bisections of one curve, each to a percent


@given(st.integers(1, 5000))
def test_counts_around_include_the_count_and_reach_far(replicas):
    tested = counts_around(replicas)
    assert replicas in tested
    assert tested == sorted(set(tested))
    assert tested[-1] >= 4 * replicas or replicas <= 4


def test_search_finds_what_trying_everything_finds(make_case):
    case = make_case(
        poisson(6.0, 1800.0, input_mean=2000, output_mean=300),
        slo_of(("ttft_s", 99.0, 1.0), ("tpot_s", 99.0, 0.04), sample_rate=0.1),
    )
    demand = case.demand(case.model.max_model_len, 0.0)
    priced = [
        Priced(
            family=family,
            cost=case.cost(family.widest),
            judged=demand.judged,
            usd_per_gpu_hour=None,
        )
        for family in families(case.model, case.gpus[0], case.engine, case.slo, case.longest_tokens)
        if family.candidates
    ]
    every = [
        option
        for each in priced
        for option in capacities(each, each.family.candidates, case.needs, mixes=True)
    ]
    least = min(option.gpus for option in every if option.gpus is not None)
    found = search(priced, case.needs, mixes=True, by_price=False)
    best = min((o for o in found if o.gpus is not None), key=lambda o: o.gpus)
    assert best.gpus == least
    tied = ties(priced, best, case.needs, mixes=True, by_price=False)
    holding = {o.candidate.deployment for o in every if o.gpus == least}
    assert {o.candidate.deployment for o, _ in tied} == holding
    assert choose(tied, {case.gpus[0].id: case.gpus[0] and best.candidate.deployment}).gpus == least


def test_candidates_obey_the_engine(make_case):
    case = make_case(poisson(1.0, 600.0), slo_of(("ttft_s", 99.0, 1.0)))
    found = families(case.model, case.gpus[0], case.engine, case.slo, 8192)
    assert {f.candidates[0].deployment.tensor_parallel_size for f in found} == {1, 2, 4, 8}
    for family in found:
        for candidate in family.candidates:
            deployment = candidate.deployment
            assert deployment.max_num_seqs <= deployment.max_num_batched_tokens
            assert candidate.memory.kv_tokens >= deployment.max_model_len
    # vLLM's defaults on an H100 are among them.
    flags = {
        (c.deployment.max_num_batched_tokens, c.deployment.max_num_seqs)
        for c in found[0].candidates
    }
    assert (8192, 1024) in flags


def test_max_model_len_is_cut_to_what_the_cache_holds(make_case):
    case = make_case(
        poisson(1.0, 600.0),
        slo_of(("ttft_s", 99.0, 1.0), model="meta-llama/Llama-3.1-70B-Instruct"),
    )
    gpu = case.gpus[0]
    narrow = families(case.model, gpu, case.engine, case.slo, 8192)[1]  # TP2: little is left
    assert narrow.candidates[0].deployment.tensor_parallel_size == 2
    assert 8192 <= narrow.served_tokens < case.model.max_model_len
    again = sized(case.model, gpu, case.engine, narrow.candidates[0].deployment)
    assert again == narrow.candidates[0]
    assert configs_of([again]).kv_tokens[0] == again.memory.kv_tokens
