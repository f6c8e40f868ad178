"""The compiled step-by-step simulator against the plain-Python one: every request, every time."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stepper import stepped

sys.path.append(str(Path(__file__).parents[1] / "sim"))

from reference_vllm_v1 import simulate
from sim_cases import jobs, settings, step_cost

# Closer to a step's boundary, the last bit of a sum decides which step sees an arrival.
MARGIN_S = 1e-9
# The two add the same terms of a step in another order: a few units in the last place a step.
SAME = 1e-12


def compared(seed, *, tight, asynchronous, windows):
    """Run one drawn case through both; return preemptions, None where a tie decides."""
    rng = np.random.default_rng(seed)
    chosen = settings(rng, tight=tight, admission="full_sequence")
    cost = step_cost(
        rng,
        chosen.max_num_batched_tokens,
        chosen.max_num_seqs,
        windows=windows,
        asynchronous=asynchronous,
    )
    made = jobs(rng, 60, gap_s=0.03)
    engine = simulate(made, chosen, cost)
    if engine.margin_s < MARGIN_S:
        return None
    found = stepped(
        np.array([job.arrival_s for job in made]),
        np.array([job.prompt for job in made]),
        np.array([job.output for job in made]),
        np.zeros(len(made), np.int32),
        chosen,
        cost,
    )
    assert found.steps == engine.steps
    assert found.preemptions == engine.preemptions
    first, last = ([job.token_s[i] for job in made] for i in (0, -1))
    np.testing.assert_allclose(found.first_s, first, rtol=SAME)
    np.testing.assert_allclose(found.last_s, last, rtol=SAME)
    return found.preemptions


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("windows", [0, 2])
@pytest.mark.parametrize("tight", [False, True])
def test_equals_the_plain_reference(tight, windows, asynchronous):
    found = [
        compared(seed, tight=tight, asynchronous=asynchronous, windows=windows)
        for seed in range(30)
    ]
    clear = [preemptions for preemptions in found if preemptions is not None]
    assert len(clear) >= 25
    assert (sum(clear) > 50) == tight


def test_replicas_know_nothing_of_each_other():
    """Two replicas at once are the two of them one after the other."""
    rng = np.random.default_rng(5)
    chosen = settings(rng, tight=False, admission="full_sequence")
    cost = step_cost(rng, chosen.max_num_batched_tokens, chosen.max_num_seqs)
    made = jobs(rng, 80)
    arrival, prompt, output = (
        np.array([getattr(job, name) for job in made]) for name in ("arrival_s", "prompt", "output")
    )
    owner = rng.integers(0, 2, len(made)).astype(np.int32)
    both = stepped(arrival, prompt, output, owner, chosen, cost)
    for replica in (0, 1):
        mine = owner == replica
        alone = stepped(
            arrival[mine], prompt[mine], output[mine], np.zeros(mine.sum(), int), chosen, cost
        )
        np.testing.assert_array_equal(both.last_s[mine], alone.last_s)


def test_refuses_what_it_does_not_know():
    rng = np.random.default_rng(1)
    chosen = settings(rng, tight=False, admission="full_sequence")
    cost = step_cost(rng, chosen.max_num_batched_tokens, chosen.max_num_seqs)
    one = np.ones(1, np.int64)
    for other in (
        replace(chosen, admission="chunk"),
        replace(chosen, long_prefill_token_threshold=8),
        replace(chosen, scheduling_policy="priority"),
    ):
        with pytest.raises(AssertionError):
            stepped(one * 1.0, one, one, one - 1, other, cost)
