"""What the solver says after the replay, held against replays made here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solve_cases import LLAMA_70B, poisson, slo_of
from test_recommend import CONTEXT

from planner.ingest.load import load_trace
from planner.sim.copying import INDEPENDENT, TOGETHER, Copying
from planner.sim.load import thin
from planner.sim.replay import replay
from planner.solve.candidates import families
from planner.solve.fleet import fleet_load, for_load
from planner.solve.recommend import solve
from planner.solve.verify import carried, trial_of

TARGETS = (("ttft_s", 99.0, 1.0), ("tpot_s", 99.0, 0.05))


@pytest.fixture(scope="module")
def trial(make_case):
    """8B on one H100 with a 2,048 budget, 40 minutes of Poisson traffic at 26 requests/s."""
    case = make_case(poisson(26.0, 2400.0, seed=3), slo_of(*TARGETS))
    demand = case.demand(32_768, 0.0)
    family = families(case.model, case.gpus[0], case.engine, case.slo, case.longest_tokens)[0]
    candidate = next(
        c
        for c in family.candidates
        if (c.deployment.max_num_batched_tokens, c.deployment.max_num_seqs) == (2048, 256)
    )
    cost = case.cost(candidate.deployment)
    made = trial_of(case, demand.traffic, demand.windows, candidate, cost, 0.0)
    assert made is not None
    return made, demand.spans


def test_carried_is_the_edge_between_holding_and_failing(trial):
    made, spans = trial
    load = carried(made, 0.5, 1.0, spans)
    fleet = max(1, int(1.0 / load))
    assert made.holds(load, fleet, spans)
    assert not made.holds(load * 1.0101, fleet, spans)  # PRECISION is one percent


@pytest.mark.parametrize("guess", [0.2, 3.0])
def test_carried_hardly_depends_on_the_guess(trial, guess):
    made, spans = trial
    # At the edge holding is not monotone: which requests meet differs from load to load, and
    # 2,400 s of traffic leave a P99 of TTFT several percent of noise.
    assert carried(made, guess, 1.0, spans) == pytest.approx(
        carried(made, 0.5, 1.0, spans), rel=0.1
    )


def test_slower_steps_carry_less(trial):
    made, spans = trial
    slow = replace(made, cost=replace(made.cost, memory_s=made.cost.memory_s * 1.2))
    assert carried(slow, 0.5, 1.0, spans) < carried(made, 0.5, 1.0, spans)


def test_one_replica_of_the_whole_trace_is_that_trace(trial):
    made, _ = trial
    ours = made.replayed(1.0, 1)
    direct = replay(made.requests, made.cost, made.settings, seed=made.seed)
    assert np.array_equal(ours.ttft_s, direct.ttft_s)


def test_a_whole_log_is_copied_ten_minutes_apart_and_read_burstier_together(trial):
    made, _ = trial
    assert made.copying == INDEPENDENT
    assert made.burstier.copying == TOGETHER
    noisy = replace(made, copying=Copying(within=((60.0, 0.1), (3600.0, 1.0))))
    assert noisy.burstier.copying.within == ((60.0, 0.1), (600.0, 1.0))


@pytest.mark.parametrize("limit_s", [0.15, 0.2])
def test_a_plan_holds_at_its_count_and_fails_at_one_fewer(shared, make_case, limit_s):
    """70B on four H100, no headroom: at 0.15 s one replica misses its TPOT, at 0.2 s it holds.

    Replayed here without the solver: every request once, routed at random.
    """
    trace = shared / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
    requests = load_trace([str(trace)]).requests
    slo = slo_of(
        ("ttft_s", 99.0, 6.0),
        ("tpot_s", 99.0, limit_s),
        model=LLAMA_70B,
        tensor_parallel_sizes=(4,),
        headroom=0.0,
    )
    case = make_case(requests, slo)
    plan = solve(case, CONTEXT)
    assert plan.verified == "replay"
    assert all(row.holds for row in plan.latency)
    demand = case.demand(32_768, 0.0)
    family = next(
        f
        for f in families(case.model, case.gpus[0], case.engine, case.slo, case.longest_tokens)
        if f.candidates[0].deployment.tensor_parallel_size == 4
    )
    candidate = next(c for c in family.candidates if c.deployment == plan.deployment)
    made = trial_of(
        case, demand.traffic, demand.windows, candidate, case.cost(candidate.deployment), 0.0
    )
    assert made is not None

    def holds(count: int) -> bool:
        found = replay(
            made.requests,
            made.cost,
            made.settings,
            replicas=count,
            seed=slo.seed,
            classes=slo.classes,
        )
        return found.holds

    count = plan.replicas.value
    assert holds(count)
    assert count == 1 or not holds(count - 1)


def test_fleet_load_and_count_agree(make_case):
    case = make_case(thin(poisson(5.0, 600.0), 0.9), slo_of(*TARGETS, headroom=0.2, growth=0.5))
    load = fleet_load(case.needs)
    assert load == pytest.approx(1.5 / 0.8)
    for count in (1, 3, 7):
        assert for_load(case.needs, load / count) == count
