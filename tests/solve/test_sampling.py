"""Bursts of a service, estimated from a sample of its log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solve_cases import poisson, requests_of, slo_of

from planner.sim.load import thin
from planner.solve.fleet import fleet_load
from planner.solve.recommend import chosen
from planner.solve.sampling import ALL_SIGNAL, LEVELS_S, burst_shares, estimated_rate, kept_shares

SPAN_S = 6 * 3600.0


def service(seed, minute_spread):
    """Arrivals of 50 req/s whose rate changes from minute to minute by a log-normal factor."""
    draw = np.random.default_rng(seed)
    minutes = int(SPAN_S // 60)
    rate = 50.0 * np.exp(minute_spread * draw.standard_normal(minutes) - minute_spread**2 / 2)
    counts = draw.poisson(rate * 60.0)
    arrival = np.repeat(np.arange(minutes) * 60.0, counts) + draw.uniform(0, 60.0, counts.sum())
    return np.sort(arrival), rate


def sampled(arrival, share, seed=9):
    return arrival[np.random.default_rng(seed).random(len(arrival)) < share]


def alone(arrival):
    return np.full(len(arrival), -1)


def test_a_full_log_is_taken_as_it_is():
    arrival, _ = service(1, 0.3)
    assert burst_shares(arrival, np.ones_like(arrival), alone(arrival), 1.0) == ALL_SIGNAL


def test_noise_of_the_draw_is_not_taken_for_bursts():
    arrival, _ = service(1, 0.0)  # a steady service
    few = sampled(arrival, 0.05)
    shares = burst_shares(few, np.full(len(few), 1000.0), alone(few), 0.05)
    assert max(shares) < 0.15  # 0 but for the variance of the variance


def test_real_bursts_survive_the_draw():
    arrival, rate = service(2, 0.5)
    few = sampled(arrival, 0.05)
    shares = burst_shares(few, np.ones(len(few)), alone(few), 0.05)
    # A minute holds 150 of the sample: noise 1/150 against a spread of exp(0.25) − 1 = 0.28.
    assert shares[1] == pytest.approx(1 - 1 / 150 / 0.28, abs=0.1)
    bins = np.bincount((few // 2.0).astype(int), minlength=int(SPAN_S // 2)) / 2.0 / 0.05
    found = estimated_rate(bins, 2.0, shares).reshape(-1, 30).mean(axis=1)
    # The estimated minutes follow the service's own rate.
    assert np.corrcoef(found, rate)[0, 1] > 0.85


def test_estimate_keeps_the_mean():
    arrival, _ = service(3, 0.3)
    few = sampled(arrival, 0.05)
    bins = np.bincount((few // 2.0).astype(int), minlength=int(SPAN_S // 2)) / 2.0
    for shares in ((0.0, 0.0, 0.0), (0.2, 0.7, 0.9)):
        estimate = estimated_rate(bins, 2.0, shares)
        # Running means are narrower at the ends, which moves the mean a little.
        assert estimate.mean() == pytest.approx(bins.mean(), rel=0.02)


def test_sessions_make_the_draw_noisier():
    # Sessions of twenty requests in a row: a drawn session brings all of them.
    draw = np.random.default_rng(4)
    starts = np.sort(draw.uniform(0, SPAN_S, 20_000))
    arrival = np.sort((starts[:, None] + np.arange(20) * 1.5).ravel())
    session = np.repeat(np.arange(20_000), 20)[
        np.argsort((starts[:, None] + np.arange(20) * 1.5).ravel(), kind="stable")
    ]
    kept = np.random.default_rng(5).random(20_000)[session] < 0.05
    few, own = arrival[kept], session[kept]
    ones = np.ones(len(few))
    aware = burst_shares(few, ones, own, 0.05)
    unaware = burst_shares(few, ones, alone(few), 0.05)
    assert aware[1] < 0.3  # the minutes' bursts are the draw's
    assert unaware[1] > 0.8  # without sessions they would pass for the service's


def test_independent_arrivals_leave_nothing_to_keep_together():
    arrival, _ = service(1, 0.0)
    few = sampled(arrival, 0.05)
    kept = kept_shares(few, np.full(len(few), 1000.0), alone(few), LEVELS_S)
    assert max(kept) < 0.35  # √0.1: what the variance of a variance lets through


def test_common_bursts_are_kept_at_their_own_scale():
    """Minutes change by a factor: of their variance 1 − noise/V stays, of two seconds' much less.

    Not nothing: whole minutes stand against means that run across their edges.
    """
    arrival, _ = service(2, 0.5)
    few = sampled(arrival, 0.05)
    kept = kept_shares(few, np.ones(len(few)), alone(few), LEVELS_S)
    assert kept[0] < 0.5 < kept[1]
    # 150 of the sample in a minute: noise 1/150 against a spread of exp(0.25) − 1 = 0.28.
    assert kept[1] == pytest.approx(np.sqrt(1 - 1 / 150 / (0.28 + 1 / 150)), abs=0.05)


def bursty_service():
    """Two hours at 12 requests/s whose ten-second spells of five times the rate come at random."""
    draw = np.random.default_rng(8)
    rate = np.where(draw.random(720) < 0.1, 5.0, 0.56) * 12.0
    counts = draw.poisson(rate * 10.0)
    arrival = np.repeat(np.arange(720) * 10.0, counts) + draw.uniform(0, 10.0, counts.sum())
    lengths = np.exp(0.7 * draw.standard_normal((2, len(arrival)))) * [[1500.0], [150.0]]
    inputs, outputs = np.maximum(2, lengths.astype(np.int64))
    return requests_of(np.sort(arrival), inputs, outputs)


@pytest.mark.slow
@pytest.mark.parametrize("traffic", ["steady", "bursty"])
@pytest.mark.parametrize("part", [1, 2])
def test_a_sample_asks_for_what_the_whole_log_asks(make_case, traffic, part):
    """Within one replica or a tenth, as the replay of the whole log says; the settings pinned."""
    whole = poisson(60.0, 7200.0, seed=6) if traffic == "steady" else bursty_service()
    slo = slo_of(
        ("ttft_s", 99.0, 1.0),
        ("tpot_s", 99.0, 0.05),
        max_num_batched_tokens=(2048,),
        max_num_seqs=(256,),
        tensor_parallel_sizes=(1,),
    )
    full, _, _ = chosen(make_case(whole, slo))
    few = thin(whole, 0.1, seed=100 + part)
    few = replace(few, arrival_s=few.arrival_s - few.arrival_s[0])
    found, _, _ = chosen(make_case(few, replace(slo, sample_rate=0.1)))
    slack = max(1, round(0.1 * full.replicas))
    assert abs(found.replicas - full.replicas) <= slack
    generous = full.replicas + slack
    trial = full.confirmed.trial
    assert trial.whole(fleet_load(full.case.needs) / generous, generous).holds
