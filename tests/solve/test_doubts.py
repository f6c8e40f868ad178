"""The ends of a plan's band: a doubt that more replicas cannot answer, a request's own cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solve_cases import linear_cost, poisson, requests_of, slo_of
from test_recommend import CONTEXT

from planner.solve.alone import alone_s, smaller_replica
from planner.solve.fleet import fleet_load
from planner.solve.recommend import chosen, solve
from planner.solve.steps import stretched
from planner.spec.slo import Target, WorkloadClass

CALM = (("tpot_s", 99.0, 1.0), ("ttft_s", 99.0, 10.0))


@pytest.fixture(scope="module")
def edgy(make_case):
    """8B on MI300X; the TPOT target lies between a decode by itself and one as slow as the band."""
    requests = poisson(12.0, 1800.0, seed=5)
    calm, _, _ = chosen(make_case(requests, slo_of(*CALM), "mi300x"))
    (window,) = calm.confirmed.spans
    free = alone_s(calm.confirmed.trial, window, calm.case.slo.classes[0])["tpot_s", 99.0]
    limit = free * (1.0 + 0.9 * calm.cost.band)  # a third more: the band of this GPU is wide
    # With tp 1 alone there is no faster configuration to flee to.
    slo = slo_of(("tpot_s", 99.0, limit), ("ttft_s", 99.0, 10.0), tensor_parallel_sizes=(1,))
    return make_case(requests, slo, "mi300x")


def test_a_band_that_no_count_reaches_has_no_end(edgy):
    decision, _, _ = chosen(edgy)
    low, high = decision.confirmed.counts["step_time"]
    assert low <= decision.replicas
    assert high is None
    (unheld,) = decision.confirmed.unheld
    assert (unheld.doubt, unheld.miss.metric) == ("step_time", "tpot_s")
    assert unheld.miss.value_s > unheld.miss.limit_s
    slow = replace(
        decision.confirmed.trial, cost=stretched(decision.cost, 1.0 + decision.cost.band)
    )
    for count in (unheld.tried, 20 * unheld.tried):
        load = fleet_load(edgy.needs) / count
        assert not slow.holds(load, count, decision.confirmed.spans)
    assert unheld.deployment is None  # every other setting of one GPU decodes as slowly


def test_another_configuration_ends_the_band_of_the_gpus(edgy):
    wider = replace(edgy, slo=replace(edgy.slo, tensor_parallel_sizes=(1, 8)))
    plan = solve(wider, CONTEXT)
    assert plan.deployment.tensor_parallel_size == 1  # eight GPUs a replica cost more here
    (unheld,) = plan.replica_terms.unheld
    assert plan.replicas.high is None
    assert unheld.deployment.tensor_parallel_size == 8
    assert plan.gpus.high == unheld.gpus >= plan.gpus.value
    row = next(s for s in plan.sensitivity if (s.assumption, s.change[0]) == ("step_time", "+"))
    assert row.replicas is None
    assert row.miss == unheld.miss


def test_alone_is_the_sum_of_a_request_s_own_steps(make_case):
    # Prompts of 1 to 4 budgets of 2,048 tokens, 20 µs a token, answers of 11 tokens at 10 ms.
    arrival = np.arange(400) * 0.5
    prompts = 2048 * (1 + np.arange(400) % 4)
    case = make_case(requests_of(arrival, prompts, 11), slo_of(*CALM))
    decision, _, _ = chosen(case)
    trial = replace(
        decision.confirmed.trial,
        cost=linear_cost(budget=16384, seqs=1024),
        settings=replace(
            decision.confirmed.trial.settings, max_num_batched_tokens=2048, max_num_seqs=256
        ),
    )
    declared = WorkloadClass(
        name="all",
        targets=(
            Target(metric="ttft_s", percentile=50.0, limit_s=1.0),
            Target(metric="ttft_s", percentile=99.0, limit_s=1.0),
            Target(metric="tpot_s", percentile=99.0, limit_s=1.0),
        ),
    )
    found = alone_s(trial, (0.0, 200.0), declared)
    step = 2048 * 20e-6
    # Sums of a handful of steps: only rounding of clocks at 1e7 s (2e-9) differs.
    assert found["ttft_s", 50.0] == pytest.approx(2 * step, abs=1e-7)
    assert found["ttft_s", 99.0] == pytest.approx(4 * step, abs=1e-7)
    assert found["tpot_s", 99.0] == pytest.approx(0.010, abs=1e-7)


def test_no_fleet_beats_a_request_alone(edgy):
    decision, _, _ = chosen(edgy)
    trial, (window, *_) = decision.confirmed.trial, decision.confirmed.spans
    alone = alone_s(trial, window, edgy.slo.classes[0])
    crowd = trial.replayed(fleet_load(edgy.needs) / 400, 400, span=window)
    for result in crowd.targets:
        # Some of a window's first and last requests count in one and not in the other.
        key = (result.target.metric, result.target.percentile)
        assert result.whole_s >= 0.99 * alone[key]


def test_half_a_replica_of_one_gpu_is_not_asked(edgy):
    decision, _, _ = chosen(edgy)
    assert smaller_replica(decision) is None
