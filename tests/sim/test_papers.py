"""The papers' policies against their step-by-step references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_papers import Orca, Sarathi, SarathiServe
from reference_vllm_v1 import Engine, simulate
from sim_cases import case, results, step_cost
from test_equality import cases, check, common

from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings

REFERENCES = {"orca": Orca, "sarathi": Sarathi, "sarathi_serve": SarathiServe}


def under(one, policy, *, blocks=0):
    """The same case under a paper's policy; `blocks` reservations where it reserves."""
    mine = one.settings
    budget = mine.max_num_batched_tokens
    if policy == "orca":
        budget = max(budget, mine.max_model_len)
    reserves = policy != "sarathi_serve"
    chosen = replace(
        mine,
        policy=policy,
        admission="full_sequence",
        max_num_batched_tokens=budget,
        block_size=mine.max_model_len if reserves else mine.block_size,
        num_blocks=(blocks or 3) if reserves else mine.num_blocks + 1,
        watermark_blocks=0 if reserves else 1,
    )
    cost = step_cost(
        np.random.default_rng(len(one.jobs)),
        budget,
        mine.max_num_seqs,
        asynchronous=one.cost.async_scheduling,
    )
    return replace(one, settings=chosen, cost=cost)


@common
@given(cases(tight=True))
def test_sarathi_serve(one):
    check(under(one, "sarathi_serve"), reference=SarathiServe)


@common
@given(cases(tight=False), st.integers(1, 8))
def test_orca(one, blocks):
    check(under(one, "orca", blocks=blocks), reference=Orca)


@common
@given(cases(tight=False), st.integers(1, 8))
def test_sarathi(one, blocks):
    check(under(one, "sarathi", blocks=blocks), reference=Sarathi)


@pytest.mark.parametrize("policy", REFERENCES)
@pytest.mark.parametrize("seed", range(8))
def test_long_cases(policy, seed):
    one = case(seed, tight=seed % 2 == 0, asynchronous=seed % 4 > 1, most=200)
    check(under(one, policy, blocks=1 + seed), reference=REFERENCES[policy])


@pytest.mark.parametrize("policy", REFERENCES)
def test_the_policies_differ_from_vllm(policy):
    """Each reference's own rule shows: vLLM V1 in its place gives other times."""
    different = 0
    for seed in range(16):
        one = under(case(seed, tight=True, most=120), policy, blocks=8)
        simulate(one.jobs, one.settings, one.cost, Engine)
        done = replay(one.trace, one.cost, one.settings)
        arrival = np.array([job.arrival_s for job in one.jobs])
        different += not np.allclose(done.e2e_s, results(one.jobs)[1] - arrival, rtol=1e-6)
    assert different >= 5


def test_what_a_policy_cannot_be_combined_with():
    base = {"max_num_batched_tokens": 64, "max_num_seqs": 4, "num_blocks": 10}
    for policy in ("orca", "sarathi"):
        with pytest.raises(ValueError, match="reserve max_model_len"):
            SchedulerSettings(**base, max_model_len=64, policy=policy)
    with pytest.raises(ValueError, match="without chunking"):
        SchedulerSettings(**base, max_model_len=100, block_size=100, policy="orca")
    with pytest.raises(ValueError, match="threshold"):
        SchedulerSettings(
            **base, max_model_len=64, policy="sarathi_serve", long_prefill_token_threshold=5
        )
