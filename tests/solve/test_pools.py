"""Share or split: what is ruled out by equations, what replay says, and what a pool serves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exhaustive import Space, Stream

from planner.solve.pools import pool_case, share_or_split
from planner.solve.recommend import chosen

# Answers that stream to a reader against jobs whose long prompts break every TPOT beside them.
READERS = Stream(
    per_s=25, prompt=300, answer=150, targets=(("ttft_s", 99.0, 0.5), ("tpot_s", 99.0, 0.012))
)
JOBS = Stream(per_s=2.5, prompt=9000, answer=40, sigma=0.4, targets=(("e2e_s", 90.0, 100.0),))
SPACE = Space(
    name="readers-and-jobs",
    seed=31,
    streams=(READERS, JOBS),
    budgets=(512, 2048, 8192),
    slots=(64, 256),
)


@pytest.fixture(scope="module")
def case(make_case):
    return make_case(SPACE.requests(), SPACE.slo, *SPACE.gpus)


@pytest.fixture(scope="module")
def shared(case):
    return chosen(case)


def expense(decision):
    price = decision.case.price(decision.case.gpu(decision.deployment.gpu))[0]
    return decision.replicas * decision.deployment.gpus * price


def test_a_split_that_is_cheaper_is_found_with_its_price(shared):
    decision, _, found = shared
    sharing = share_or_split(decision, found, lambda case: chosen(case)[0])
    (split,) = sharing.splits
    apart = [chosen(pool_case(decision.case, pool.classes))[0] for pool in split.pools]
    assert split.usd_per_hour == pytest.approx(sum(map(expense, apart)))
    assert sharing.shared_usd_per_hour == pytest.approx(expense(decision))
    assert split.least_usd_per_hour <= split.usd_per_hour
    cheaper = split.usd_per_hour < sharing.shared_usd_per_hour
    assert cheaper  # the jobs' long steps cost the shared pool its TPOT
    assert (split.outcome, sharing.cheapest) == ("cheaper", 0)


def test_without_replay_equations_rule_out_or_say_that_nobody_asked(shared):
    decision, _, found = shared
    (split,) = share_or_split(decision, found, None).splits
    assert split.outcome == "not_asked"
    assert split.gpus is None
    # Where the shared plan costs no more than throughput alone, nothing is left to win.
    lean = replace(decision, replicas=1)
    asked = []
    (split,) = share_or_split(lean, found, asked.append).splits
    assert split.outcome == "no_cheaper_at_best"
    assert asked == []


def test_a_pool_serves_its_classes_and_the_first_those_without_targets(case):
    names = ("c0", "c1", "untold")
    third = np.where(np.arange(len(case.requests)) % 3 == 0, 2, case.requests.class_id)
    mixed = replace(case, requests=replace(case.requests, class_names=names, class_id=third))
    first, second = pool_case(mixed, ("c0",)), pool_case(mixed, ("c1",))
    assert set(np.unique(first.requests.class_id)) == {0, 2}
    assert set(np.unique(second.requests.class_id)) == {1}
    assert len(first.requests) + len(second.requests) == len(mixed.requests)
    assert [c.name for c in second.slo.classes] == ["c1"]


def test_one_class_has_nobody_to_share_with(case, shared):
    decision, _, found = shared
    alone = replace(
        decision, case=replace(case, slo=replace(case.slo, classes=case.slo.classes[:1]))
    )
    assert share_or_split(alone, found, None) is None
