"""The settled state against its own equations, written again with arrays and plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solve_cases import linear_cost, poisson

from planner.solve.sharing import kv_sequences, mixed_steps
from planner.solve.steady import lanes, lone_chunks, mean_past, remaining_tokens, steady
from planner.solve.steps import step
from planner.solve.stretch import SPEEDS_S, stretch_of
from planner.solve.traffic import traffic_of

SPAN_S = 3600.0

# The kernel stops when a correction is below 1e-4 of the gap and applies 0.7 of it.
SETTLED = 3e-4


def harmonic_gap(gaps, life_tokens, block_s):
    """Time per token of a sequence that has made `life_tokens` by the end of each block."""
    found = []
    for last in range(len(gaps)):
        blocks = max(life_tokens * gaps[last] / block_s, 1.0)
        tokens, left, at = 0.0, blocks, last
        while left > 0:
            part = min(left, 1.0)
            tokens += part / gaps[max(at, 0)]  # before the stretch: as at its start
            left -= part
            at -= 1
        found.append(blocks / tokens)
    return np.array(found)


@pytest.fixture
def part():
    traffic = traffic_of(poisson(4.0, SPAN_S), max_model_len=100_000)
    return stretch_of(traffic, (), start_s=0.0, end_s=SPAN_S)


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_the_state_solves_its_equations(part, mixes, stages, asynchronous):
    cost = replace(
        linear_cost(per_kv_token_s=2e-8, asynchronous=asynchronous),
        stages=stages,
        slowest_stage_share=1.0 / stages,
        send_fixed_s=1e-4,
        send_s_per_token=1e-9,
        host_step_s=2e-3,
        host_seq_s=1e-5,
        host_prefill_s=1e-3,
        decode_fixed_s=3e-4,
        prefill_fixed_s=2e-4,
        launch_s=4e-3,
        seq_s=1e-6,
        pair_s=np.array([1e-11]),
    )
    at = lanes(np.array([0.3, 1.0]), np.array([512.0, 4096.0]), 256.0, 4e5)
    found = steady(cost, part, at, mixes=mixes)
    past = mean_past(part)
    alone = step(cost, found.decodes, found.context)

    def with_prefill(chunk):
        beside = (found.decodes, found.context) if mixes else (0.0 * found.decodes, 0.0)
        times = step(cost, *beside, chunk, past)
        return times.gap_s + (0.0 if mixes else alone.gap_s), times.interval_s

    # The physics of the kernel is that of `steps.step`, to rounding.
    full, interval = with_prefill(found.full_chunk)
    mixed, _ = with_prefill(found.chunk)
    assert found.decode_gap_s == pytest.approx(alone.gap_s, rel=1e-12)
    assert found.full_gap_s == pytest.approx(full, rel=1e-12)
    assert found.mixed_gap_s == pytest.approx(mixed, rel=1e-12)
    assert found.budget_supply == pytest.approx(found.full_chunk / interval, rel=1e-12)
    # The statements that the state is a fixed point of.
    gap = (1.0 - found.mixed_share) * alone.gap_s + found.mixed_share * mixed
    assert found.mean_gap_s == pytest.approx(gap, rel=SETTLED)
    share, chunk = mixed_steps(
        found.demand,
        found.mean_gap_s / stages,
        lone_chunks(part, at.max_num_batched_tokens),
        found.full_chunk,
    )
    assert found.mixed_share == pytest.approx(share, rel=10 * SETTLED)
    assert found.chunk == pytest.approx(chunk, rel=10 * SETTLED)
    life = remaining_tokens(part.sample.output_tokens)
    for lane, factor in enumerate((0.3, 1.0)):
        recent = harmonic_gap(found.mean_gap_s[lane], life, part.block_s)
        for block, seconds in enumerate(recent):
            rates = part.residents[:, block] / SPEEDS_S
            wanted = factor * seconds * np.interp(np.log(seconds), np.log(SPEEDS_S), rates)
            assert found.wanted[lane, block] == pytest.approx(wanted, rel=10 * SETTLED)


def test_slots_and_the_kv_cache_limit_the_decodes(part):
    tight = steady(linear_cost(), part, lanes(2.0, 4096.0, 8.0, 1e9))
    assert tight.decodes.max() == 8.0
    assert np.all(tight.wanted[tight.decodes == 8.0] >= 8.0)
    small = steady(linear_cost(), part, lanes(2.0, 4096.0, 512.0, 2e4))
    limit = kv_sequences(2e4, small.context)
    assert np.all(small.decodes <= limit + 1e-9)
    assert np.any(small.decodes == pytest.approx(limit))


def test_a_sequence_remembers_the_speed_it_ran_at():
    # At the present 0.1 s a token its 1,200 tokens reach two minutes back: one of them slow, one
    # ten times faster, so on average 2 minutes over 1/0.1 + 1/0.01 = 110 tokens per unit of time.
    assert harmonic_gap(np.array([0.01, 0.01, 0.1]), 1200, 60.0)[-1] == pytest.approx(2 / 110)
