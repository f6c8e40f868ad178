"""What an alternative of equal cost says of its margin."""

from __future__ import annotations

from dataclasses import replace

from example_margins import alternative, cell, deployment

from planner.solve.margin_words import with_margins

TIE = " and misses where this does: a tie as far as it was asked"


def test_it_says_what_replay_found_beside_the_plan():
    chosen = deployment(2048)
    cells = (
        cell(1024, None, 0.0),
        cell(2048, 0.15, 0.4),
        cell(4096, 0.0, 0.4),
        cell(8192, 0.05, 0.15),
    )
    rows = [alternative(deployment(budget)) for budget in (1024, 4096, 8192, 16_384)]
    said = [row.detail for row in with_margins(rows, chosen, cells)]
    plan, far = "the plan holds at +15 % load", "misses a target at +40 % load"
    assert said == [
        f"same cost; by replay it misses a target at the load itself, {plan}",
        f"same cost; by replay it holds at the load itself, {far}, {plan}{TIE}",
        f"same cost; by replay it holds at +5 % load, misses a target at +15 % load, {plan}",
        "same cost; not asked by replay",
    ]


def test_other_reasons_stay_as_they_are():
    row = replace(alternative(deployment(1024)), reason="costs_more", detail="+33 %")
    assert with_margins([row], deployment(2048), ()) == (row,)
