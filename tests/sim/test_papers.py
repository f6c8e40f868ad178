"""The papers' policies against their step-by-step references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_papers import Orca, Sarathi, SarathiServe, SplitFuse
from reference_vllm_v1 import Engine, simulate
from sim_cases import case, plain_cost, requests_of, results, step_cost
from test_equality import cases, check, common

from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings

REFERENCES = {"orca": Orca, "sarathi": Sarathi, "sarathi_serve": SarathiServe}
ALL = REFERENCES | {"dynamic_splitfuse": SplitFuse}


def under(one, policy, *, blocks=0):
    """The same case under a paper's policy; `blocks` reservations where it reserves."""
    mine = one.settings
    budget = mine.max_num_batched_tokens
    if policy == "orca":
        budget = max(budget, mine.max_model_len)
    reserves = policy in ("orca", "sarathi")
    chosen = replace(
        mine,
        policy=policy,
        admission="full_sequence",
        max_num_batched_tokens=budget,
        block_size=mine.max_model_len if reserves else mine.block_size,
        num_blocks=(blocks or 3) if reserves else mine.num_blocks + 1,
        watermark_blocks=1 if policy == "sarathi_serve" else 0,
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


@common
@given(cases(tight=True))
def test_dynamic_splitfuse(one):
    check(under(one, "dynamic_splitfuse"), reference=SplitFuse)


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("seed", range(8))
def test_long_cases(policy, seed):
    one = case(seed, tight=seed % 2 == 0, asynchronous=seed % 4 > 1, most=200)
    check(under(one, policy, blocks=1 + seed), reference=ALL[policy])


def test_dynamic_splitfuse_fills_every_step():
    """100 prompts of 1 to 79 tokens at once: every step but the last carries 50 tokens."""
    rng = np.random.default_rng(1)
    prompts = rng.integers(1, 80, 100)
    one = requests_of(np.zeros(100), prompts, np.ones(100))
    chosen = SchedulerSettings(
        max_num_batched_tokens=50,
        max_num_seqs=50,
        max_model_len=128,
        num_blocks=1000,
        policy="dynamic_splitfuse",
    )
    done = replay(one, plain_cost(1.0, 50, 50), chosen)
    assert done.totals.steps == -(-prompts.sum() // 50)


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
    with pytest.raises(ValueError, match="full_sequence"):
        SchedulerSettings(**base, max_model_len=64, policy="dynamic_splitfuse", admission="chunk")
