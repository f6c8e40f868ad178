"""The map of budgets and slots: what its cells say, and what ends the region around the choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exhaustive import Space, Stream

from planner.solve.batch_map import batch_map, crossing
from planner.solve.fleet import fleet_load
from planner.solve.recommend import chosen

SPACE = Space(
    name="map",
    seed=5,
    streams=(
        Stream(
            per_s=30,
            prompt=900,
            answer=200,
            targets=(("ttft_s", 99.0, 1.0), ("tpot_s", 99.0, 0.02)),
        ),
    ),
    tensor=(1,),
    budgets=(256, 512, 2048, 8192),
    slots=(16, 64, 256),
)


@pytest.fixture(scope="module")
def made(make_case):
    case = make_case(SPACE.requests(), SPACE.slo, *SPACE.gpus)
    decision, _, found = chosen(case)
    return decision, found, batch_map(decision, decision.judged[0], found)


def test_the_map_covers_the_grid_and_the_choice_holds(made):
    decision, _, found = made
    pairs = {(c.max_num_batched_tokens, c.max_num_seqs) for c in found.cells}
    assert pairs == {(b, s) for b in SPACE.budgets for s in SPACE.slots}
    mine = decision.deployment
    (cell,) = [
        c
        for c in found.cells
        if (c.max_num_batched_tokens, c.max_num_seqs)
        == (mine.max_num_batched_tokens, mine.max_num_seqs)
    ]
    assert cell.replay_holds
    asked = [c for c in found.cells if c.replay_holds is not None]
    assert 3 <= len(asked) <= 5


def test_neighbours_say_what_their_own_replay_says(made):
    decision, _, found = made
    trial, count = decision.confirmed.trial, decision.replicas
    load = fleet_load(decision.case.needs) / count
    for cell in found.cells:
        if cell.replay_holds is None:
            continue
        settings = replace(
            trial.settings,
            max_num_batched_tokens=cell.max_num_batched_tokens,
            max_num_seqs=cell.max_num_seqs,
        )
        # Slots move a little memory from the KV cache, which is far from full here.
        again = replace(trial, settings=settings)
        assert again.holds(load, count, decision.confirmed.spans) == cell.replay_holds


def test_a_cell_that_holds_meets_the_limits_and_needs_no_more_replicas(made):
    decision, _, found = made
    ttft, tpot = (t.limit_s for t in decision.case.slo.classes[0].targets)
    for cell in found.cells:
        if cell.holds:
            # Percentiles are read off limits a quarter of a doubling apart: 1 % between them.
            assert cell.ttft_s <= 1.01 * ttft
            assert cell.gap_s <= 1.01 * tpot
            assert cell.replicas <= decision.replicas + decision.case.slo.spare_replicas
        elif cell.stable:
            assert cell.ttft_s >= 0.99 * ttft or cell.gap_s >= 0.99 * tpot


def test_every_side_names_the_first_pair_that_fails(made):
    decision, _, found = made
    assert set(found.bounds) == {"smaller_budget", "larger_budget", "fewer_seqs", "more_seqs"}
    tokens, slots = decision.deployment.max_num_batched_tokens, decision.deployment.max_num_seqs
    for side, text in found.bounds.items():
        if not text:
            continue
        limit, _, pair = text.rpartition(" at ")
        budget, seqs = map(int, pair.split("/"))
        assert (budget == tokens) == side.endswith("seqs")
        assert (seqs == slots) == side.endswith("budget")
        (cell,) = [
            c for c in found.cells if (c.max_num_batched_tokens, c.max_num_seqs) == (budget, seqs)
        ]
        assert limit == cell.limit
    assert found.bounds["smaller_budget"]  # 256 tokens a step cannot carry this load


def test_a_percentile_lies_between_the_limits_around_it():
    limits = np.array([1.0, 2.0, 4.0])
    assert crossing(limits, np.array([0.0, 0.0, 0.5]), 0.9) == np.inf
    assert crossing(limits, np.array([0.95, 1.0, 1.0]), 0.9) == 1.0
    assert crossing(limits, np.array([0.0, 0.5, 1.0]), 0.5) == pytest.approx(2.0)
