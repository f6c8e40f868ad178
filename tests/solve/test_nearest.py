"""Limits that are offered where those asked for do not hold: they hold, and less does not."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from solve_cases import poisson, requests_of, slo_of
from test_recommend import CONTEXT

from planner.errors import InfeasibleError
from planner.solve.nearest import (
    PRECISION,
    keeps_no_limit,
    nearest_limits,
    nearest_sentence,
    rounded_up,
)
from planner.solve.recommend import chosen, solve

TTFT, TPOT, E2E = (0, 0), (0, 1), (0, 2)


@pytest.fixture(scope="module")
def traffic():
    return poisson(6.0, 300.0, input_mean=1500, output_mean=250)


def rule(floors, ceiling=np.inf):
    """A rule that makes a plan where each limit reaches its floor, and refuses all above `ceiling`.

    Returns it with the list of limits it was asked.
    """
    asked = []

    def choose(case):
        limits = [t.limit_s for each in case.slo.classes for t in each.targets]
        asked.append(limits)
        if any(x < floor for x, floor in zip(limits, floors, strict=True)) or min(limits) > ceiling:
            raise InfeasibleError("no")
        return SimpleNamespace(
            deployment=SimpleNamespace(gpu="h100-sxm", gpus=2, max_num_batched_tokens=512),
            replicas=3,
        )

    return choose, asked


@pytest.fixture
def case(make_case, traffic):
    return make_case(
        traffic, slo_of(("ttft_s", 99.0, 0.01), ("tpot_s", 99.0, 0.05), ("e2e_s", 99.0, 5.0))
    )


def test_the_one_target_that_cannot_be_kept_is_moved_as_little_as_needed(case):
    screen, _ = rule((0.3, 0.02, 1.0))
    found = nearest_limits(case, screen, screen)
    assert set(found.limits) == {TTFT}
    assert 0.3 <= found.limits[TTFT] <= 0.3 * PRECISION


def test_of_targets_that_would_each_be_enough_the_one_that_moves_least_is_named(case):
    def either(other):
        ttft, _, e2e = (t.limit_s for t in other.slo.classes[0].targets)
        if ttft < 0.08 and e2e < 7.0:  # ×8 of one, ×1.4 of the other
            raise InfeasibleError("no")
        return rule((0.0, 0.0, 0.0))[0](other)

    found = nearest_limits(case, either, either)
    assert set(found.limits) == {E2E}
    assert 7.0 <= found.limits[E2E] <= 7.0 * PRECISION


def test_targets_that_must_all_move_are_all_named(case):
    screen, _ = rule((0.3, 0.02, 9.0))
    found = nearest_limits(case, screen, screen)
    assert set(found.limits) == {TTFT, E2E}
    assert 0.3 <= found.limits[TTFT] <= 0.3 * PRECISION
    assert 9.0 <= found.limits[E2E] <= 9.0 * PRECISION
    text = nearest_sentence(case, found)
    assert "limits are all ttft_s p99 ≤ 0.3" in text
    assert "3 replicas of 2 × h100-sxm, max_num_batched_tokens 512" in text


def test_what_replay_asks_beyond_the_equations_is_found_too(case):
    screen, _ = rule((0.3, 0.02, 1.0))
    confirm, asked = rule((0.51, 0.02, 1.0))
    found = nearest_limits(case, screen, confirm)
    assert 0.51 <= found.limits[TTFT] <= 0.51 * PRECISION
    refused = max(limits[0] for limits in asked if limits[0] < 0.51)
    assert found.limits[TTFT] <= refused * PRECISION * 1.005  # printed to three digits, upwards


def test_nothing_is_offered_where_replay_agrees_with_nothing(case):
    screen, _ = rule((0.3, 0.02, 1.0))
    never, _ = rule((1e9, 0.0, 0.0))
    assert nearest_limits(case, screen, never) is None
    assert keeps_no_limit(case, never)
    assert not keeps_no_limit(case, screen)


@pytest.mark.parametrize("value", [0.084713, 1.7, 0.0999999, 1234.5, 99.95])
def test_rounding_never_offers_less(value):
    assert value <= rounded_up(value) <= value * 1.01


@pytest.mark.parametrize(("metric", "impossible"), [("ttft_s", 0.0001), ("e2e_s", 0.01)])
def test_the_limit_offered_gives_a_plan_and_a_tenth_less_does_not(
    make_case, traffic, metric, impossible
):
    with pytest.raises(InfeasibleError) as caught:
        solve(make_case(traffic, slo_of((metric, 99.0, impossible))), CONTEXT)
    offered = re.search(
        rf"limit is (\S+) s for all {metric} p99 \((\d+) repl", caught.value.nearest
    )
    limit = float(offered[1])
    decision, _, _ = chosen(make_case(traffic, slo_of((metric, 99.0, limit))))
    assert decision.replicas == int(offered[2])
    # The limit is within 5 % of one that was refused, and printed to three digits upwards.
    with pytest.raises(InfeasibleError):
        chosen(make_case(traffic, slo_of((metric, 99.0, 0.9 * limit))))


def test_requests_longer_than_the_model_are_the_cause_that_is_named(make_case):
    arrival = np.arange(0.0, 120.0)
    some = np.where(np.arange(120) % 10 == 0, 200_000, 1000)
    slo = slo_of(("ttft_s", 99.0, 4.0), ("tpot_s", 99.0, 0.1))
    for lengths, number in ((200_000, "all 120 requests"), (some, "12 of 120 requests")):
        with pytest.raises(InfeasibleError) as caught:
            solve(make_case(requests_of(arrival, lengths, 40), slo), CONTEXT)
        text = str(caught.value)
        assert text.startswith(f"{number} are longer than the model's max_model_len of 131,072")
        assert "200,040" in text
        assert "Leave them out of the trace, or name a model" in text
        assert "ttft" not in text.lower()
