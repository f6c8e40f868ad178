"""What one replica shows under constant load, against arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from solve_cases import linear_cost, poisson, slo_of

from planner.sim.settings import SchedulerSettings
from planner.solve.load_test import MEANS, constant_load, expected, load_test, readings
from planner.solve.plan import LatencyRow, ReplicaTerms
from planner.solve.recommend import chosen
from planner.solve.steps import stretched

FLOOR_S, TOKEN_S, PROMPT, ANSWER = 0.010, 20e-6, 1_000, 200
ASKED = (*MEANS, ("ttft_s", 99.0), ("tpot_s", 99.0), ("itl_s", 99.0), ("e2e_s", 90.0))
SETTINGS = SchedulerSettings(
    max_num_batched_tokens=8_192, max_num_seqs=256, max_model_len=8_192, num_blocks=100_000
)
SGLANG = replace(
    SETTINGS, policy="sglang", admission="reserved_output", block_size=1, num_blocks=1_600_000
)


def load(rate, prompts=2_000, *, seed=1, fills_time=True):
    lengths = (PROMPT, ANSWER)
    return constant_load(rate, prompts, lengths, seed=seed, fills_time=fills_time)


def mean_tpot_s(rate):
    """Of T seconds λ·T steps hold a prompt and take β, the rest the floor; each gives a token."""
    beta = PROMPT * TOKEN_S
    tokens_per_s = (1.0 - rate * beta) / FLOOR_S + rate
    return 1.0 / tokens_per_s


@pytest.mark.parametrize("rate", [0.5, 4.0, 10.0])
def test_the_mean_time_per_token_follows_from_the_share_of_prefill_steps(rate):
    found = readings(load(rate), linear_cost(floor_s=FLOOR_S, per_token_s=TOKEN_S), SETTINGS, ASKED)
    # Decodes in a prefill step cost 20 µs each and prompts may share a step: 3 % covers both.
    assert found["tpot_s", None] == pytest.approx(mean_tpot_s(rate), rel=0.03)


def test_sglang_runs_the_prompt_before_the_next_token():
    """Prefill first, in a batch of its own: the same share of time, no token from those steps."""
    rate, cost = 4.0, linear_cost(floor_s=FLOOR_S, per_token_s=TOKEN_S)
    found = readings(load(rate), cost, SGLANG, ASKED)
    between = (mean_tpot_s(rate), FLOOR_S / (1.0 - rate * PROMPT * TOKEN_S))
    assert 0.97 * between[0] <= found["tpot_s", None] <= 1.03 * between[1]


def test_an_idle_replica_takes_one_prefill_step_to_the_first_token():
    cost, median = linear_cost(per_token_s=TOKEN_S), ("ttft_s", 50.0)  # most meet nobody
    found = readings(load(0.01, 100), cost, SETTINGS, [median])
    assert found[median] == pytest.approx(PROMPT * TOKEN_S, rel=1e-9)


@pytest.mark.parametrize("settings", [SETTINGS, SGLANG], ids=["vllm", "sglang"])
def test_every_figure_grows_with_the_step_time(settings):
    cost, run = linear_cost(floor_s=FLOOR_S, per_token_s=TOKEN_S), load(10.0)
    found = [readings(run, stretched(cost, f), settings, ASKED) for f in (0.9, 1.0, 1.1)]
    for each in ASKED:
        fast, usual, slow = (one[each] for one in found)
        assert fast < usual < slow


def test_vllm_s_generator_sends_the_last_prompt_when_the_rate_says():
    assert load(4.0).arrival_s[-1] == pytest.approx(2_000 / 4.0, rel=1e-12)
    drawn = load(4.0, fills_time=False).arrival_s
    # The sum of 2,000 exponentials scatters by 1/√2000 = 2.2 %; five of those.
    assert drawn[-1] == pytest.approx(2_000 / 4.0, rel=0.11)
    assert drawn[-1] != pytest.approx(2_000 / 4.0, rel=1e-6)
    assert (load(4.0).arrival_s == load(4.0).arrival_s).all()
    assert (load(4.0).arrival_s != load(4.0, seed=2).arrival_s)[:-1].all()


@pytest.fixture(scope="module")
def decision(make_case):
    traffic = poisson(4.0, 600.0, input_mean=2_000, output_mean=200)
    return chosen(make_case(traffic, slo_of(("ttft_s", 99.0, 4.0), ("tpot_s", 99.0, 0.05))))[0]


def terms(rate=6.004):
    return ReplicaTerms(
        window="w",
        peak_requests_per_s=4.0,
        growth=0.0,
        headroom=0.0,
        capacity_requests_per_s=rate,
        exact=1.0,
        for_load=1,
        spare=0,
        band_terms={},
        band_counts={},
        mean_input_tokens=1_999.6,
        mean_output_tokens=199.7,
        one_fewer=None,
    )


def row(metric, percentile, limit_s, class_name="all"):
    return LatencyRow(
        class_name=class_name,
        metric=metric,
        percentile=percentile,
        limit_s=limit_s,
        worst_s=limit_s,
        low_s=limit_s,
        high_s=limit_s,
        high_by_doubt_s={},
        whole_s=limit_s,
        attainment=1.0,
        margin=0.0,
        worst_window="w",
        requests_in_window=1,
        merged_windows=1,
        holds=True,
        binds=False,
    )


LATENCY = (
    row("ttft_s", 99.0, 9.0, "loose"),
    row("ttft_s", 99.0, 4.0),
    row("tpot_s", 99.0, 0.05),
    row("itl_s", 99.0, 1e-3),
)


def test_the_test_is_the_command_s_and_its_replay_says_what_to_expect(decision):
    made = load_test(decision, terms(), LATENCY, ())
    assert (made.requests_per_s, made.prompts) == (6.0, 3_600)
    assert (made.input_tokens, made.output_tokens) == (2_000, 200)
    assert made.runs * 3 * made.prompts <= 45_000
    rows = {(each.metric, each.percentile): each for each in made.rows}
    assert list(rows) == [*MEANS, ("ttft_s", 99.0), ("tpot_s", 99.0), ("itl_s", 99.0)]
    for each in made.rows:
        assert 0.0 < each.low_s < each.expected_s < each.high_s < math.inf
    assert rows["ttft_s", 99.0].limit_s == 4.0  # the tightest of the two
    assert rows["tpot_s", None].refuted_above_s == rows["tpot_s", None].high_s
    assert rows["tpot_s", 99.0].refuted_above_s <= 0.05
    assert rows["itl_s", 99.0].refuted_above_s == rows["itl_s", 99.0].high_s  # limit out of reach
    assert made == load_test(decision, terms(), LATENCY, ())


def test_the_luck_of_one_run_lies_inside_the_band(decision):
    asked = (*MEANS, ("ttft_s", 99.0), ("tpot_s", 99.0), ("e2e_s", 90.0))
    found = expected(decision, 6.0, (2_000, 200), 3_600, 4, asked)
    trial = decision.confirmed.trial
    for seed in range(1_000, 1_008):
        run = constant_load(6.0, 3_600, (2_000, 200), seed=seed, fills_time=True)
        seen = readings(run, trial.cost, trial.settings, asked)
        for each in asked:
            assert found[each][1] < seen[each] < found[each][2]


def test_a_step_slower_than_the_band_is_refuted(decision):
    made = load_test(decision, terms(), LATENCY, ())
    trial = decision.confirmed.trial
    slower = stretched(trial.cost, 1.0 + 2.0 * decision.cost.band)
    run = constant_load(6.0, made.prompts, (2_000, 200), seed=1_000, fills_time=True)
    seen = readings(run, slower, trial.settings, MEANS)
    limits = {(each.metric, each.percentile): each.refuted_above_s for each in made.rows}
    assert all(seen[each] > limits[each] for each in MEANS)


@pytest.mark.parametrize("rate", [math.inf, 0.0, 6.0])
def test_without_a_replay_the_limits_stand(decision, rate):
    made = load_test(replace(decision, confirmed=None), terms(rate), LATENCY, ())
    assert made.runs == 0
    assert [each.refuted_above_s for each in made.rows] == [4.0, 0.05, 1e-3]
    assert all(math.isnan(each.expected_s) for each in made.rows)


@pytest.mark.parametrize("rate", [math.inf, 0.0, 0.002, 500.0])
def test_no_rate_is_refused(decision, rate):
    made = load_test(decision, terms(rate), LATENCY[:1], ())
    assert 100 <= made.prompts <= 7_500
    assert made.runs == {math.inf: 0, 0.0: 0, 0.002: 8, 500.0: 2}[rate]
