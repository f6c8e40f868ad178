"""Sessions and closed loops against step-by-step references, closed forms and Little's law."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_loop import following
from reference_pipeline import PipelineEngine
from reference_sglang import SGLang
from reference_vllm_v0 import WholePrompts
from reference_vllm_v1 import Engine, Job
from sim_cases import assert_same, case, plain_cost, requests_of, trace
from test_bench_sim import cost_8b
from test_equality import cases, common, leave_out_ties, unchunked
from test_pipeline import drawn as accepted
from test_pipeline import fewer, in_stages, rates
from test_sglang import unmixed

from planner.errors import InputError
from planner.perf.closed_loop import Load, closed_loop
from planner.sim.disaggregated import Link, Pool, replay_disaggregated
from planner.sim.refusals import refuse_pools
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings


def run(one, engine, line=None):
    drafts = (accepted(one),) if engine is PipelineEngine else ()
    replica = following(engine)(one.jobs, one.settings, one.cost, *drafts)
    replica.line, replica.closed = deque(line or ()), line is not None
    replica.run()
    leave_out_ties(replica.margin_s)
    return replica


def in_sessions(one, sessions, seed, *, latency):
    """The same requests as turns of a few sessions, with or without recorded latencies."""
    rng = np.random.default_rng(seed)
    requests = one.trace
    session = rng.integers(-1, sessions, len(one.jobs))
    e2e = rng.exponential(0.2, len(one.jobs)) if latency else np.zeros(0)
    if latency:
        e2e[rng.random(len(e2e)) < 0.3] = np.nan
    requests = replace(requests, session_id=session, observed_e2e_s=e2e)
    last: dict[int, int] = {}
    recorded = requests.arrival_s
    for i, job in enumerate(one.jobs):
        before = last.get(session[i]) if session[i] >= 0 else None
        last[session[i]] = i
        if before is None:
            continue
        one.jobs[before].next_turn = job
        job.arrival_s = -math.inf
        if latency and not np.isnan(e2e[before]):
            job.think_s = max(0.0, recorded[i] - recorded[before] - e2e[before])
            job.earliest_s = -math.inf
        else:
            job.think_s, job.earliest_s = 0.0, recorded[i]
    return requests


def check_sessions(one, sessions, seed, latency, engine=Engine):
    requests = in_sessions(one, sessions, seed, latency=latency)
    run(one, engine)
    done = replay(
        requests, one.cost, one.settings, follow_sessions=True, use_cached_tokens=True, debug=True
    )
    assert_same(done, one.jobs)
    np.testing.assert_allclose(
        done.arrival_s, [job.arrival_s for job in one.jobs], rtol=1e-9, atol=1e-12
    )


drawn = (st.integers(1, 6), st.integers(0, 10**6), st.booleans())


@common
@given(cases(tight=True), *drawn)
def test_the_next_turn_waits_for_the_last(one, sessions, seed, latency):
    check_sessions(one, sessions, seed, latency)


@common
@given(cases(tight=True), *drawn)
def test_sessions_at_a_prefill_first_engine(one, sessions, seed, latency):
    check_sessions(unchunked(one), sessions, seed, latency, WholePrompts)


@common
@given(cases(tight=True), st.integers(0, 100), *drawn)
def test_sessions_at_sglang(one, spare, sessions, seed, latency):
    check_sessions(unmixed(one, spare=spare), sessions, seed, latency, SGLang)


@fewer
@given(cases(tight=True, cached=True), st.integers(1, 4), rates, *drawn)
def test_sessions_in_a_pipeline(one, stages, shares, sessions, seed, latency):
    one = in_stages(one, stages, len(shares), shares)
    check_sessions(one, sessions, seed, latency, PipelineEngine)


@fewer
@given(cases(tight=True), st.integers(2, 4), st.integers(1, 20))
def test_clients_of_a_pipeline(one, stages, concurrency):
    check_clients(in_stages(one, stages), concurrency, PipelineEngine)


@pytest.mark.parametrize("seed", range(20))
def test_long_sessions(seed):
    one = case(seed, tight=seed % 2 == 1, asynchronous=seed % 3 == 1, most=200)
    check_sessions(one, 1 + seed % 7, seed, seed % 2 == 0)


def check_clients(one, concurrency, engine=Engine):
    for job in one.jobs:
        job.arrival_s = -math.inf
    for job in one.jobs[:concurrency]:
        job.arrival_s = 0.0
    requests = replace(one.trace, arrival_s=np.zeros(len(one.jobs)))
    run(one, engine, line=one.jobs[concurrency:])
    done = replay(
        requests,
        one.cost,
        one.settings,
        concurrency=concurrency,
        use_cached_tokens=True,
        debug=True,
    )
    assert_same(done, one.jobs)
    return done


@common
@given(cases(tight=True), st.integers(1, 20))
def test_a_client_sends_when_its_last_request_has_ended(one, concurrency):
    check_clients(one, concurrency)


@common
@given(cases(tight=True), st.integers(0, 100), st.integers(1, 20))
def test_clients_of_sglang(one, spare, concurrency):
    check_clients(unmixed(one, spare=spare), concurrency, SGLang)


@pytest.mark.parametrize("seed", range(20))
def test_long_loops(seed):
    one = case(seed, tight=seed % 2 == 1, asynchronous=seed % 3 == 1, most=200)
    check_clients(one, 1 + seed)


def uniform(count, prompt, output):
    return requests_of(np.arange(count), np.full(count, prompt), np.full(count, output))


@pytest.mark.parametrize("replicas", [1, 3])
def test_littles_law(replicas):
    """Every client is always waiting for exactly one request, until the line is empty."""
    rng = np.random.default_rng(3)
    requests = requests_of(np.zeros(6000), rng.integers(50, 2000, 6000), rng.integers(2, 300, 6000))
    clients = 48
    settings = SchedulerSettings(
        max_num_batched_tokens=2048, max_num_seqs=64, max_model_len=4096, num_blocks=20_000
    )
    done = replay(
        requests, plain_cost(0.01, 2048, 64), settings, concurrency=clients, replicas=replicas
    )
    end = done.arrival_s + done.e2e_s
    # While the line lasts: the time in the system of all, cut at that moment, over that moment.
    until = np.array([done.arrival_s[done.replica == r].max() for r in range(replicas)])
    inside = np.minimum(end, until[done.replica]) - np.minimum(done.arrival_s, until[done.replica])
    for r in range(replicas):
        mean = inside[done.replica == r].sum() / until[r]
        assert mean == pytest.approx(clients / replicas, rel=1e-9)  # exact but for rounding


@pytest.mark.parametrize(
    ("clients", "prompt", "output"), [(1, 512, 64), (8, 256, 128), (32, 512, 256), (96, 200, 400)]
)
def test_the_closed_form_of_a_closed_loop(clients, prompt, output):
    """perf.closed_loop's mean field against replay.

    Its queue of prompts is an approximation (it takes starts as independent); against the exact
    replay of random lengths with the same means TPOT stays within 6 %, throughput within 8 %.
    """
    rng = np.random.default_rng(clients)
    count = 60 * clients + 200
    requests = requests_of(
        np.zeros(count),
        rng.integers(prompt // 2, prompt + prompt // 2, count),
        rng.integers(output // 2, output + output // 2, count),
    )
    cost = cost_8b()
    settings = SchedulerSettings(
        max_num_batched_tokens=8192, max_num_seqs=1024, max_model_len=8192, num_blocks=52_000
    )
    done = replay(requests, cost, settings, concurrency=clients)
    load = Load(
        prompt_tokens=float(requests.input_tokens.mean()),
        output_tokens=float(requests.output_tokens.mean()),
        concurrency=float(clients),
    )
    formula = closed_loop(cost, load, float(settings.kv_tokens), mixes=True)
    # The means over the stretch in which all clients have something to send.
    steady = slice(2 * clients, count - 2 * clients)
    tpot = float(np.nansum(done.tpot_s[steady] * (requests.output_tokens[steady] - 1)))
    tpot /= float((requests.output_tokens[steady] - 1).sum())
    assert formula.tpot_s == pytest.approx(tpot, rel=0.06)
    span = done.arrival_s[steady][-1] - done.arrival_s[steady][0]
    rate = requests.output_tokens[steady].sum() / span
    assert formula.output_tokens_per_s == pytest.approx(rate, rel=0.08)


def test_one_client_never_waits():
    """A lone client's requests follow each other without a gap, each as long as alone."""
    settings = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=64, num_blocks=100
    )
    done = replay(uniform(10, 5, 8), plain_cost(0.5, 64, 4), settings, concurrency=1)
    assert done.e2e_s.tolist() == [4.0] * 10
    assert done.arrival_s.tolist() == [4.0 * i for i in range(10)]
    assert done.queue_s.tolist() == [0.0] * 10


def test_sessions_stay_with_their_replica():
    requests = replace(
        uniform(300, 20, 4), session_id=np.arange(300) % 30, observed_e2e_s=np.full(300, 0.5)
    )
    settings = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=64, num_blocks=100
    )
    done = replay(requests, plain_cost(0.5, 64, 4), settings, replicas=3, follow_sessions=True)
    for session in range(30):
        assert len(set(done.replica[requests.session_id == session])) == 1
    assert len(set(done.replica)) == 3
    end = done.arrival_s + done.e2e_s
    # 30 s between turns, of which half a second was the recorded answer.
    np.testing.assert_allclose(done.arrival_s[30:], end[:-30] + 29.5, rtol=1e-12)


def test_a_turn_after_a_refused_one_keeps_its_time():
    requests = replace(uniform(3, 5, 4), session_id=np.zeros(3, np.int64))
    requests.input_tokens[1] = 1000
    settings = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=64, num_blocks=100
    )
    done = replay(requests, plain_cost(2.0, 64, 4), settings, follow_sessions=True)
    assert done.rejected.tolist() == [0, 1, 0]
    assert done.arrival_s.tolist() == [0.0, 1.0, 2.0]
    requests.input_tokens[1] = 5
    done = replay(requests, plain_cost(2.0, 64, 4), settings, follow_sessions=True)
    assert done.arrival_s.tolist() == [0.0, 8.0, 16.0]


def test_what_is_not_combined():
    requests = uniform(3, 5, 4)
    settings = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=64, num_blocks=100
    )
    cost = plain_cost(1.0, 64, 4)
    staged = replace(cost, stages=2)
    with pytest.raises(InputError, match="least_loaded through pipelines where requests arrive"):
        replay(requests, staged, settings, replicas=2, routing="least_loaded", concurrency=4)
    with pytest.raises(InputError, match="closed loops are replayed without separate pools"):
        refuse_pools(settings, follows_ends=True)
    urgent = replace(settings, scheduling_policy="priority")
    with pytest.raises(InputError, match="priority is replayed without pipelines, drafts"):
        replay(requests, staged, urgent)
    pool, late = (Pool(cost=cost, settings=each) for each in (settings, urgent))
    link = Link(kv_bytes_per_token=1.0, bytes_per_s=1e4)
    for pools in ((pool, late), (late, pool)):
        with pytest.raises(InputError, match="priority is replayed without separate pools"):
            replay_disaggregated(requests, *pools, link)
    paged = replace(
        settings, policy="sglang", admission="reserved_output", block_size=1, num_blocks=1600
    )
    with pytest.raises(InputError, match="policy sglang is replayed without pipelines"):
        replay(requests, staged, paged)
    with pytest.raises(ValueError, match="sessions go with neither"):
        replay(requests, cost, settings, follow_sessions=True, concurrency=4)
    with pytest.raises(ValueError, match="sessions go with neither"):
        replay(requests, cost, settings, follow_sessions=True, owners=np.zeros(3, np.int32))


def test_the_first_client_that_is_ready_takes_the_line():
    """Long prompts take the front end longer: whoever is done with a short one sends first.

    Two clients; steps of 1 s, 0.1 s of the front end for each token of a prompt. Requests 0 (20
    tokens, out at 1 s) and 1 (1 token, out at 2 s) are seen at 3 s and 2.1 s: request 2 is sent at
    2.1 s by the client of request 1 and runs at once, request 3 at 3 s and runs from 3.1 s.
    """
    requests = requests_of([0.0] * 4, [20, 1, 1, 1], [1, 2, 1, 1])
    settings = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=64, num_blocks=100
    )
    cost = replace(plain_cost(1.0, 64, 4), frontend_token_s=0.1)
    done = replay(requests, cost, settings, concurrency=2, debug=True)
    np.testing.assert_allclose(done.arrival_s, [0.0, 0.0, 2.1, 3.0], rtol=1e-12)
    np.testing.assert_allclose(done.arrival_s + done.e2e_s, [3.0, 2.1, 3.2, 4.2], rtol=1e-12)


def test_jobs_without_followers_are_plain():
    """The reference without sessions is the plain engine."""
    made = [Job(arrival_s=0.1 * i, prompt=3, output=3) for i in range(5)]
    settings = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=64, num_blocks=100
    )
    cost = plain_cost(0.33, 64, 4)
    following()(made, settings, cost).run()
    done = replay(trace(made), cost, settings)
    assert_same(done, made)
