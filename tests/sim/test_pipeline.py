"""Pipelines and speculation: the stepped kernel against its reference, the event kernel, theory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pipeline import PipelineEngine
from sim_cases import Case, assert_same, case, plain_cost, requests_of
from test_equality import MARGIN_S, cases, common, leave_out_ties
from test_papers import under
from test_prefix import trace_of, with_ids

from planner.perf.speculation import tokens_per_step, tokens_per_step_by_position
from planner.perf.step_cost import gpu_step_s, host_step_s, interval_s, latency_s, step_s
from planner.sim import pipes
from planner.sim import replay as replay_module
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings

SEED = 42
fewer = settings(common, max_examples=120)


def in_stages(one: Case, stages, drafts=0, rates=(), micro_batch=0):
    """The same case on a pipeline, with `drafts` verified beside every decode."""
    rng = np.random.default_rng(len(one.jobs) + stages)
    cost = replace(
        one.cost,
        tokens_per_decode=1 + drafts,
        stages=stages,
        slowest_stage_share=1.0 if stages == 1 else min(1.0, rng.uniform(1.0, 1.3) / stages),
        send_fixed_s=0.0 if stages == 1 else 1e-4,
        send_s_per_token=0.0 if stages == 1 else 1e-6,
    )
    chosen = replace(
        one.settings,
        num_speculative_tokens=drafts,
        acceptance_rates=rates,
        pp_max_micro_batch_size=micro_batch,
    )
    # A request and its drafts must fit.
    room = -(-chosen.max_model_len // chosen.block_size)
    chosen = replace(chosen, num_blocks=max(chosen.num_blocks, room))
    return replace(one, cost=cost, settings=chosen)


def drawn(one: Case):
    """What the kernel draws for a job with `given` tokens."""
    if not one.settings.num_speculative_tokens:
        return None
    table = pipes.acceptance_draws(one.settings.acceptance_rates, SEED)
    place = {id(job): i * pipes.DRAW_STRIDE for i, job in enumerate(one.jobs)}
    return lambda job, given: int(table[(place[id(job)] + given) % pipes.DRAWS])


def check(one: Case, **options):
    engine = PipelineEngine(one.jobs, one.settings, one.cost, drawn(one))
    engine.run()
    leave_out_ties(engine.margin_s)
    done = replay(
        one.trace,
        one.cost,
        one.settings,
        use_cached_tokens=True,
        debug=True,
        seed=SEED,
        **options,
    )
    assert_same(done, one.jobs)
    assert done.totals.steps == engine.steps
    assert done.totals.preemptions == engine.preemptions
    assert done.totals.recomputed_tokens == engine.recomputed
    return done, engine


rates = st.lists(st.floats(0, 1), min_size=1, max_size=4).map(
    lambda each: tuple(float(x) for x in np.round(np.cumprod(each), 3))
)


@fewer
@given(cases(tight=False), st.integers(2, 4))
def test_a_pipeline_equals_the_stepped_engine(one, stages):
    check(in_stages(one, stages))


@fewer
@given(cases(tight=True, windows=1, cached=True), st.integers(2, 4), st.integers(0, 4))
def test_a_pipeline_preempts_the_same_victims(one, stages, micro_batch):
    check(in_stages(one, stages, micro_batch=micro_batch))


@fewer
@given(cases(tight=True, threshold=True), st.integers(2, 3), st.floats(1e-3, 0.3))
def test_a_pipeline_with_several_partial_prompts(one, stages, bin_s):
    check(in_stages(one, stages), bin_s=bin_s)


@fewer
@given(cases(tight=False), rates)
def test_speculation_equals_the_stepped_engine(one, shares):
    check(in_stages(one, 1, len(shares), shares))


@fewer
@given(cases(tight=True, windows=1, cached=True, threshold=True), rates)
def test_speculation_under_pressure(one, shares):
    check(in_stages(one, 1, len(shares), shares))


@fewer
@given(cases(tight=True, threshold=True), rates, st.integers(2, 4))
def test_speculation_in_a_pipeline(one, shares, stages):
    check(in_stages(one, stages, len(shares), shares))


def test_the_cases_preempt_in_flight_and_bubble():
    """The equality tests above mean something only if hard things happen in them."""
    preempted, bubbles, surprised = 0, 0.0, 0
    for seed in range(30):
        one = in_stages(case(seed, tight=True, admission="chunk", most=60), 3)
        _, engine = check(one)
        preempted += engine.preempted_under_way
        bubbles += engine.bubble_s
        shares = (0.9, 0.7)
        one = in_stages(case(seed, asynchronous=True, most=60), 1, 2, shares)
        _, engine = check(one)
        surprised += engine.surprises
    assert preempted > 20
    assert bubbles > 1.0
    assert surprised > 20


@pytest.mark.parametrize("seed", range(20))
def test_long_cases(seed):
    one = case(
        seed,
        tight=seed % 3 > 0,
        admission=("chunk", "full_sequence")[seed % 2],
        threshold=seed % 5 == 0,
        ideal=seed % 4 == 0,
        windows=seed % 3,
        asynchronous=seed % 7 > 3,
        most=200,
    )
    shares = (0.85, 0.6, 0.4)[: seed % 4]
    check(in_stages(one, 1 + seed % 5, len(shares), shares))


def in_steps(monkeypatch, one, requests, **options):
    """Replay by the event kernel, then by the stepped one."""
    events = replay(requests, one.cost, one.settings, debug=True, **options)
    monkeypatch.setattr(replay_module, "is_stepped", lambda *_: True)
    steps = replay(requests, one.cost, one.settings, debug=True, **options)
    monkeypatch.undo()
    return events, steps


def assert_equal(events, steps):
    near = {"rtol": 1e-9, "atol": 1e-9}
    for name in ("ttft_s", "e2e_s", "queue_s"):
        np.testing.assert_allclose(getattr(steps, name), getattr(events, name), **near)
    np.testing.assert_array_equal(steps.preemptions, events.preemptions)
    np.testing.assert_array_equal(steps.replica, events.replica)
    for name in ("steps", "preemptions", "recomputed_tokens", "hit_tokens"):
        assert getattr(steps.totals, name) == getattr(events.totals, name)
    assert steps.totals.busy == pytest.approx(events.totals.busy, rel=1e-9)
    np.testing.assert_array_equal(steps.gaps.sum(axis=2), events.gaps.sum(axis=2))
    # A gap on a bin's edge may round to the neighbour: only a few, and only by one bin.
    moved = np.abs(np.cumsum(steps.gaps - events.gaps, axis=2)).sum()
    assert moved <= 2 + 0.01 * events.gaps.sum()


@pytest.mark.parametrize("seed", range(16))
def test_one_stage_without_drafts_is_the_event_kernel(monkeypatch, seed):
    one = case(
        seed,
        tight=seed % 2 == 1,
        threshold=seed % 5 == 0,
        asynchronous=seed % 3 == 0,
        windows=seed % 3,
        most=150,
    )
    routing = ("random", "least_loaded")[seed % 2]
    assert_equal(*in_steps(monkeypatch, one, one.trace, replicas=2, routing=routing))


@pytest.mark.parametrize("seed", range(16))
def test_one_stage_with_a_prefix_cache_is_the_event_kernel(monkeypatch, seed):
    one = case(
        seed,
        tight=True,
        admission=("chunk", "full_sequence")[seed % 2],
        asynchronous=seed % 3 == 0,
        most=150,
    )
    unit = one.settings.block_size
    with_ids(one, np.random.default_rng(seed), unit=unit)
    one = replace(one, settings=replace(one.settings, enable_prefix_caching=True))
    events, steps = in_steps(monkeypatch, one, trace_of(one, unit))
    assert_equal(events, steps)
    assert events.totals.hit_tokens > 0


@pytest.mark.parametrize("policy", ["orca", "sarathi", "sarathi_serve"])
@pytest.mark.parametrize("seed", range(6))
def test_one_stage_of_the_papers_is_the_event_kernel(monkeypatch, policy, seed):
    one = under(case(seed, tight=True, asynchronous=seed % 2 == 0, most=120), policy, blocks=4)
    assert_equal(*in_steps(monkeypatch, one, one.trace))


@pytest.mark.parametrize("admission", ["chunk", "full_sequence"])
@pytest.mark.parametrize("seed", range(8))
def test_the_prefix_cache_in_a_pipeline_with_drafts_loses_no_block(admission, seed):
    """Debug mode counts every block after every event, those of rejected drafts included."""
    one = case(seed, tight=True, admission=admission, asynchronous=seed % 2 == 0, most=150)
    unit = one.settings.block_size
    with_ids(one, np.random.default_rng(seed), unit=unit)
    one = in_stages(one, 1 + seed % 3, 3, (0.8, 0.6, 0.3))
    one = replace(one, settings=replace(one.settings, enable_prefix_caching=True))
    done = replay(trace_of(one, unit), one.cost, one.settings, debug=True)
    assert np.isfinite(done.e2e_s).all()
    assert done.totals.hit_tokens > 0


@pytest.mark.parametrize("seed", range(10))
def test_least_loaded_routing(seed):
    one = in_stages(case(seed, tight=seed % 2 == 1, most=80), 1 + seed % 3, 1, (0.6,))
    replicas = 2 + seed % 2
    engines = [PipelineEngine([], one.settings, one.cost, drawn(one)) for _ in range(replicas)]
    assigned = [[] for _ in engines]
    choices, last = [], replicas - 1
    for engine in engines:
        engine.arrivals = [job.arrival_s for job in one.jobs]
    for job in one.jobs:
        loads = []
        for engine, mine in zip(engines, assigned, strict=True):
            engine.run(job.arrival_s)
            loads.append(sum(not j.done or j.done_s > job.arrival_s for j in mine))
        last = min(((last + 1 + k) % replicas for k in range(replicas)), key=loads.__getitem__)
        choices.append(last)
        assigned[last].append(job)
        engines[last].future.append(job)
    for engine in engines:
        engine.run()
    assert min(engine.margin_s for engine in engines) >= MARGIN_S
    done = replay(
        one.trace, one.cost, one.settings, replicas=replicas, routing="least_loaded", debug=True
    )
    assert done.replica.tolist() == choices
    assert_same(done, one.jobs)


# Closed forms

ROOMY = SchedulerSettings(
    max_num_batched_tokens=4096, max_num_seqs=64, max_model_len=8192, num_blocks=60_000
)


def staged_cost(stages, drafts=0):
    """Every step takes 20 ms on the GPU; a boundary costs 1 ms; stages are equal."""
    return replace(
        plain_cost(0.020),
        tokens_per_decode=1 + drafts,
        stages=stages,
        slowest_stage_share=1.0 / stages,
        send_fixed_s=0.001,
    )


def test_a_lone_decode_takes_the_pipelines_latency():
    cost = staged_cost(4)
    done = replay(requests_of([0.0], [100], [51]), cost, ROOMY)
    wanted = latency_s(cost, 0.020, 0.0, 1)
    assert wanted == pytest.approx(0.023)
    assert done.tpot_s[0] == pytest.approx(wanted, rel=1e-12)


def test_a_full_pipeline_takes_one_batch_an_interval():
    """Four batches in flight: each request's token comes every 4 intervals of 6 ms."""
    cost = staged_cost(4)
    chosen = replace(ROOMY, pp_max_micro_batch_size=16)
    done = replay(requests_of(np.zeros(64), np.full(64, 10), np.full(64, 401)), cost, chosen)
    interval = interval_s(cost, 0.020, 0.0, 16)
    assert interval == pytest.approx(0.006)
    np.testing.assert_allclose(done.tpot_s, 4 * interval, rtol=2e-2)  # the first and last batches
    assert done.bubble_s.max() < 1e-9 + 4 * 0.001 * 401  # the last stage sends nothing on


def test_unequal_batches_make_bubbles_and_chunks_remove_them():
    """SARATHI's observation: whole prompts between decodes leave stages idle, equal chunks less."""
    rng = np.random.default_rng(1)
    n = 4096
    cost = replace(
        plain_cost(0.0, n, 64),
        compute_s=5e-5 * np.arange(n + 1),
        memory_s=np.full(n + 1, 5e-3),
        stages=4,
        slowest_stage_share=0.25,
    )
    trace = requests_of(np.sort(rng.uniform(0, 30, 300)), rng.integers(500, 3000, 300), [100] * 300)
    whole = replay(trace, cost, ROOMY)
    chunked = replay(trace, cost, replace(ROOMY, max_num_batched_tokens=256))
    assert np.median(whole.bubble_s) > 2 * np.median(chunked.bubble_s)


@pytest.mark.parametrize("rate", [0.0, 0.4, 0.8, 1.0])
def test_speculation_yields_the_expected_tokens_a_step(rate):
    """Leviathan's mean for equal acceptance; 200,000 tokens leave 3 σ below 1 %."""
    drafts = 4
    shares = tuple(rate**j for j in range(1, drafts + 1))
    chosen = replace(ROOMY, num_speculative_tokens=drafts, acceptance_rates=shares)
    lengths = np.full(40, 5001)
    trace = requests_of(np.zeros(40), np.full(40, 10), lengths)
    done = replay(trace, staged_cost(1, drafts), chosen)
    wanted = 0.020 / float(tokens_per_step(rate, drafts))
    assert done.tpot_s.mean() == pytest.approx(wanted, rel=1e-2)
    conditional = [rate] * drafts
    assert tokens_per_step_by_position(conditional) == pytest.approx(1 + sum(shares))
    assert (done.gaps.sum() < 5000 * 40) == (rate > 0.0)  # one gap before each step's tokens


def test_drafts_take_budget_rows_and_blocks():
    """Two decodes with three drafts share a budget of 6: the second has one draft left."""
    drafts = 3
    chosen = replace(
        ROOMY,
        max_num_batched_tokens=6,
        max_num_seqs=6,
        num_speculative_tokens=drafts,
        acceptance_rates=(1.0, 1.0, 1.0),
    )
    cost = replace(staged_cost(1, drafts))
    done = replay(requests_of([0.0, 0.0], [1, 1], [9, 9]), cost, chosen)
    # Tokens a step after the first: 4 and 4 for the one, 2, 2 and, alone, 4 for the other.
    assert done.e2e_s.tolist() == pytest.approx([0.06, 0.08])


def test_draws_hang_on_the_request_and_not_on_the_load():
    chosen = replace(ROOMY, num_speculative_tokens=2, acceptance_rates=(0.7, 0.5))
    trace = requests_of(np.arange(0, 200, 0.5), np.full(400, 20), np.full(400, 30))
    alone = replay(trace, staged_cost(1, 2), chosen, replicas=1)
    spread = replay(trace, staged_cost(1, 2), chosen, replicas=3, routing="round_robin")
    other = replay(trace, staged_cost(1, 2), chosen, replicas=1, seed=7)
    steps = [np.round(each.tpot_s * 29 / 0.020) for each in (alone, spread, other)]
    assert steps[0].tolist() == steps[1].tolist()
    assert steps[0].tolist() != steps[2].tolist()


def test_what_speculation_is_refused():
    with pytest.raises(ValueError, match="but there are 1 acceptance rates"):
        replace(ROOMY, num_speculative_tokens=2, acceptance_rates=(0.5,))
    with pytest.raises(ValueError, match="no falling shares"):
        replace(ROOMY, num_speculative_tokens=2, acceptance_rates=(0.5, 0.6))


def test_a_step_of_one_stage_is_the_step_of_the_closed_forms():
    """A lone decode and its accepted draft: two tokens in one step."""
    one = in_stages(case(5, most=30), 1, 1, (1.0,))
    trace = requests_of([0.0], [8], [3])
    done = replay(trace, one.cost, replace(one.settings, max_num_batched_tokens=40))
    decode = step_s(one.cost, tokens=2, decode_seqs=1, kv_tokens=10, rows=1)
    gpu = gpu_step_s(one.cost, tokens=2, decode_seqs=1, kv_tokens=10, rows=1)
    host = host_step_s(one.cost, tokens=2, decode_seqs=1, rows=1)
    assert float(latency_s(one.cost, gpu, host, 2)) == pytest.approx(float(decode))
    assert 2 * done.tpot_s[0] == pytest.approx(float(decode), rel=1e-12)
