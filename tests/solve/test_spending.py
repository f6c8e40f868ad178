"""Costs per token: of tokens that are served, in traces long enough to have a rate."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from solve_cases import requests_of, slo_of
from test_recommend import CONTEXT

from planner.solve.recommend import solve
from planner.solve.spending import token_rates, turned_away, window_rates
from planner.solve.traffic import traffic_of


def decision(requests, *, window_s=3600.0, max_model_len=131_072):
    traffic = traffic_of(requests, max_model_len=max_model_len)
    return SimpleNamespace(
        demand=SimpleNamespace(traffic=traffic),
        deployment=SimpleNamespace(max_model_len=max_model_len),
        case=SimpleNamespace(
            slo=SimpleNamespace(evaluation_window_s=window_s),
            needs=SimpleNamespace(fleet_factor=2.0),
        ),
    )


def evenly(count, span_s, inputs=900):
    return requests_of(np.linspace(0.0, span_s, count), inputs, 100)


def test_rejected_tokens_are_in_no_rate():
    lengths = np.where(np.arange(7201) % 100 == 0, 200_000, 900)
    made = decision(evenly(7201, 7200.0, lengths))
    served = 7201 - 73
    mean, peak = token_rates(made)
    assert mean == pytest.approx(2.0 * served * 1000 / 7200.0)
    assert peak == pytest.approx(mean, rel=0.01)  # arrivals are even: windows differ by a request
    assert "73 of 7,201 requests are longer than max_model_len 131,072" in turned_away(made)[0]


def test_nobody_is_warned_where_all_are_served():
    assert turned_away(decision(evenly(100, 600.0))) == ()


def test_a_trace_shorter_than_a_window_has_no_busiest_one():
    made = decision(evenly(100, 1800.0))
    mean, peak = token_rates(made)
    assert mean == pytest.approx(2.0 * 100 * 1000 / 1800.0)
    assert peak is None
    assert len(window_rates(made)) == 0


def test_an_hour_of_logs_that_ends_at_its_last_arrival_is_an_hour():
    mean, peak = token_rates(decision(evenly(3000, 3500.0)))
    assert peak == pytest.approx(mean)


@pytest.mark.parametrize("requests", [evenly(1, 0.0), evenly(2, 0.0002), evenly(50, 30.0)])
def test_less_than_a_minute_has_no_rate(requests):
    assert token_rates(decision(requests)) == (None, None)


def test_a_plan_without_a_rate_still_costs_its_hours(make_case):
    slo = slo_of(("ttft_s", 99.0, 4.0))
    plan = solve(make_case(requests_of(np.zeros(1), 1000, 40), slo), CONTEXT)
    assert plan.cost.usd_per_hour > 0.0
    assert plan.cost.usd_per_million_tokens_mean is None
    assert plan.cost.usd_per_million_tokens_peak is None
    assert plan.cost_at_load.usd_per_million_tokens_p95 is None
    assert plan.cost_at_load.kwh_per_million_tokens_mean is None
    assert plan.cost_at_load.classes[0].usd_per_million_tokens_mean is None


def test_a_plan_says_first_how_many_requests_it_turns_away(make_case):
    lengths = np.where(np.arange(1000) == 3, 200_000, 900)
    requests = requests_of(np.arange(1000) * 0.6, lengths, 40)
    plan = solve(make_case(requests, slo_of(("ttft_s", 99.0, 4.0))), CONTEXT)
    assert plan.warnings[0].startswith("1 of 1,000 requests is longer than max_model_len")
    tokens_per_s = 999 * 940 / (999 * 0.6)
    assert plan.cost.mean_tokens_per_s == pytest.approx(tokens_per_s)
