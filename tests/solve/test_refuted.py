"""No bound of the chunk stands that the plan's own comparisons refute."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from planner.solve.refuted import high_refuted, low_refuted, with_misses, worth_testing
from planner.spec.deployment import Deployment

CHOSEN = Deployment(
    gpu="h100-sxm",
    model="m",
    engine="vllm",
    engine_version="",
    max_num_batched_tokens=2048,
    max_num_seqs=256,
    max_model_len=32_768,
    gpu_memory_utilization=0.92,
)


@pytest.fixture
def chunk(chunk_of):
    """Chosen: 2,000 prefill tokens of a budget of 2,048; the equations allow 700 to 6,000."""
    return chunk_of(low_tokens=700, high_tokens=6_000, chosen_tokens=2_000, chosen_flag_tokens=2048)


def cell(budget, replay_holds, seqs=256):
    return SimpleNamespace(
        max_num_batched_tokens=budget, max_num_seqs=seqs, replay_holds=replay_holds
    )


def other(budget, gpus, **changes):
    deployment = replace(CHOSEN, max_num_batched_tokens=budget, **changes)
    return SimpleNamespace(deployment=deployment, gpus=gpus)


def test_a_budget_that_misses_by_replay_refutes_every_smaller_one(chunk):
    found = with_misses(chunk, CHOSEN, 8, [cell(1024, False), cell(4096, True)], [])
    assert (found.missed_below_flag_tokens, found.missed_above_flag_tokens) == (1024, None)
    assert low_refuted(found)
    assert not high_refuted(found)
    # Half of 2,000 beside 48 decodes is a budget of 1,048: above the one that misses.
    assert worth_testing(found) == (0, 6_000, 1_000)


def test_a_bound_nearer_to_the_chosen_chunk_than_the_miss_stands(chunk):
    near = replace(chunk, low_tokens=1_500)
    found = with_misses(near, CHOSEN, 8, [cell(1024, False)], [])
    assert not low_refuted(found)
    assert worth_testing(found)[0] == 1_500


def test_an_alternative_that_needs_more_gpus_misses_at_the_plan_s_count(chunk):
    rows = [other(1536, 12), other(512, None), other(4096, 8), other(8192, 12)]
    found = with_misses(chunk, CHOSEN, 8, [], rows)
    assert (found.missed_below_flag_tokens, found.missed_above_flag_tokens) == (1536, 8192)
    assert worth_testing(found) == (0, 6_000, 0)  # 6,048 lies below 8,192; half lies below 1,536


def test_replay_overrules_an_alternative_by_the_equations(chunk):
    found = with_misses(chunk, CHOSEN, 8, [cell(1024, True)], [other(1024, 12)])
    assert found.missed_below_flag_tokens is None


def test_another_layout_or_other_slots_say_nothing_of_the_budget(chunk):
    rows = [other(1024, 16, tensor_parallel_size=2), other(1024, 16, max_num_seqs=128)]
    found = with_misses(chunk, CHOSEN, 8, [cell(1024, False, seqs=128)], rows)
    assert found == chunk
