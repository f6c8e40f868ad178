"""Separate prefill and decode pools: against a reference in plain Python and the closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from reference_disaggregated import simulate
from sim_cases import case, plain_cost, requests_of
from test_equality import MARGIN_S, cases, common

from planner.perf.disaggregation import prefill_replicas_per_decode, visible_transfer_s
from planner.sim.disaggregated import Link, Pool, replay_disaggregated
from planner.sim.routing import assign
from planner.sim.settings import SchedulerSettings
from planner.spec.slo import Target, WorkloadClass

fewer = settings(common, max_examples=120)


@st.composite
def splits(draw):
    """A case, its decode pool's own settings and physics, and a link."""
    one, other = draw(cases(tight=True)), draw(cases(tight=True))
    link = Link(
        kv_bytes_per_token=1e3,
        bytes_per_s=draw(st.sampled_from([1e5, 1e6, 1e8])),
        latency_s=draw(st.sampled_from([0.0, 1e-3])),
        layerwise=draw(st.booleans()),
        layers=draw(st.integers(1, 8)),
        fixed_s=draw(st.sampled_from([0.0, 2e-3])),
    )
    return one, other, link, draw(st.integers(1, 3)), draw(st.integers(1, 3))


def check(one, other, link, senders, receivers, first_token):
    """Compare every time with the reference; None where rounding could decide, else the replay."""
    prefill = Pool(cost=one.cost, settings=one.settings, replicas=senders, routing="round_robin")
    decode = Pool(
        cost=other.cost, settings=other.settings, replicas=receivers, routing="round_robin"
    )
    jobs = one.jobs
    count = sum(first_token == "decode" or job.output > 1 for job in jobs)
    first, last, handed, margin = simulate(
        jobs,
        (one.settings, replace(one.cost, frontend_s=0.0, frontend_token_s=0.0)),
        (other.settings, replace(other.cost, frontend_s=0.0, frontend_token_s=0.0)),
        link,
        assign(len(jobs), senders, "round_robin", 0).tolist(),
        assign(count, receivers, "round_robin", 0).tolist(),
        first_token,
    )
    if margin < MARGIN_S:
        return None
    done = replay_disaggregated(
        one.trace, prefill, decode, link, first_token=first_token, debug=True
    )
    arrival = np.array([job.arrival_s for job in jobs])
    wanted = [np.array([times.get(id(job), np.nan) for job in jobs]) for times in (first, last)]
    near = {"rtol": 1e-9, "atol": 1e-9}
    prompts = np.array([job.prompt for job in jobs])
    frontend = one.cost.frontend_s + one.cost.frontend_token_s * prompts
    np.testing.assert_allclose(done.whole.ttft_s, wanted[0] - arrival + frontend, **near)
    np.testing.assert_allclose(done.whole.e2e_s, wanted[1] - arrival + frontend, **near)
    going = ~np.isnan(done.handed_s)
    assert np.count_nonzero(going) == count
    expected = np.array([handed[id(job)] for job in jobs])
    np.testing.assert_allclose(done.handed_s[going], expected[going], **near)
    return done


@fewer
@given(splits(), st.sampled_from(["decode", "prefill"]))
def test_every_time_equals_the_reference(split, first_token):
    if check(*split, first_token) is None:
        reject()


def test_long_cases_queue_for_the_link_and_preempt_in_the_decode_pool():
    compared, preempted = 0, 0
    for seed in range(40):
        one = case(seed, asynchronous=seed % 2 == 0, most=120)
        other = case(seed + 100, tight=True, admission="chunk", asynchronous=seed % 3 == 0, most=2)
        link = Link(
            kv_bytes_per_token=1e3,
            bytes_per_s=2e6,
            latency_s=1e-4,
            layerwise=seed % 4 > 1,
            layers=4,
        )
        first_token = ("decode", "prefill")[seed % 2]
        done = check(one, other, link, 1 + seed % 2, 1 + seed % 3, first_token)
        compared += done is not None
        preempted += 0 if done is None else done.decode.totals.preemptions
    assert compared >= 25
    assert preempted > 100


ROOMY = SchedulerSettings(
    max_num_batched_tokens=4096, max_num_seqs=64, max_model_len=8192, num_blocks=60_000
)
POOL = Pool(cost=plain_cost(0.040), settings=ROOMY)
LINK = Link(kv_bytes_per_token=1e6, bytes_per_s=25e9)


@pytest.mark.parametrize("layerwise", [False, True])
def test_a_lone_request_waits_for_the_visible_transfer(layerwise):
    link = replace(LINK, layerwise=layerwise, layers=40, fixed_s=0.005, latency_s=0.005)
    decode = Pool(cost=plain_cost(0.010), settings=ROOMY)
    trace = requests_of([0.0], [1000], [21])
    for first_token in ("decode", "prefill"):
        done = replay_disaggregated(trace, POOL, decode, link, first_token=first_token)
        transfer = 1000 * 1e6 / 25e9 + 0.005
        hidden = visible_transfer_s(transfer, 0.040, 40, 0.005)
        wait = hidden if layerwise else transfer + 0.005
        assert hidden == pytest.approx(0.011) or not layerwise
        steps = 20 if first_token == "prefill" else 21
        assert done.whole.e2e_s[0] == pytest.approx(0.040 + wait + steps * 0.010)
        first = 0.040 + (wait + 0.010 if first_token == "decode" else 0.0)
        assert done.whole.ttft_s[0] == pytest.approx(first)


def test_a_link_that_is_too_slow_queues():
    """Ten requests a second of 4000 tokens and 1 MB a token need 40 GB/s; the link has 20."""
    n = 200
    trace = requests_of(np.arange(n) / 10.0, np.full(n, 4000), np.full(n, 2))
    fast = replay_disaggregated(trace, POOL, POOL, replace(LINK, bytes_per_s=80e9))
    slow = replay_disaggregated(trace, POOL, POOL, replace(LINK, bytes_per_s=20e9))
    waits = slow.handed_s - trace.arrival_s
    assert np.diff(waits).min() == pytest.approx(0.1)  # each waits 0.2 s − 0.1 s longer
    assert np.ptp(fast.handed_s - trace.arrival_s) < 1e-6


def test_pools_in_the_ratio_of_the_closed_form_are_equally_busy():
    """A prefill step of one prompt takes 40 ms; a decode batch of 16 gives 101 tokens at 20 ms."""
    one_prompt = replace(ROOMY, max_num_batched_tokens=1000, max_num_seqs=16)
    seats = replace(ROOMY, max_num_seqs=16)
    ratio = prefill_replicas_per_decode(0.040, 101 * 0.020, 16)
    decodes = 6
    prefills = round(ratio * decodes)
    assert ratio * decodes == pytest.approx(prefills, rel=0.06)
    n = 4000
    rate = decodes * 16 / (101 * 0.020)
    trace = requests_of(np.arange(n) / (1.5 * rate), np.full(n, 1000), np.full(n, 101))
    done = replay_disaggregated(
        trace,
        Pool(cost=plain_cost(0.040), settings=one_prompt, replicas=prefills, routing="round_robin"),
        Pool(cost=plain_cost(0.020), settings=seats, replicas=decodes, routing="round_robin"),
        replace(LINK, bytes_per_s=1e12),
    )
    # Both saturated at 1.5 times the rate that they share: both end within the ratio's rounding.
    assert done.prefill.totals.span_s == pytest.approx(n / rate, rel=0.06)
    assert done.decode.totals.span_s == pytest.approx(n / rate, rel=0.06)


def test_targets_are_judged_over_both_pools():
    classes = [
        WorkloadClass(
            name="all",
            targets=(
                Target(metric="ttft_s", percentile=99, limit_s=0.1),
                Target(metric="itl_s", percentile=99, limit_s=0.05),
                Target(metric="tpot_s", percentile=50, limit_s=0.005),
            ),
        )
    ]
    trace = requests_of([0.0, 1.0, 2.0], [100, 9000, 200], [5, 5, 1])
    done = replay_disaggregated(trace, POOL, POOL, LINK, classes=classes).whole
    assert done.rejected.tolist() == [0, 1, 0]
    assert np.isinf(done.ttft_s[1])
    by_metric = {result.target.metric: result for result in done.targets}
    assert set(by_metric) == {"ttft_s", "itl_s", "tpot_s"}
    assert by_metric["ttft_s"].attainment == pytest.approx(2 / 3)
    assert by_metric["itl_s"].holds
    assert not by_metric["tpot_s"].holds
    assert done.ttft_s[0] == pytest.approx(0.080 + 100 * 1e6 / 25e9)
