"""Plans on real traffic in a simulator that was written apart: the count holds, fewer do not.

`confirmed` makes the plans and steps their fleets; docs/confirmed.md is its record.
"""

from __future__ import annotations

import numpy as np
import pytest
from confirmed import CLAIMS, SERVEGEN_DAY, fewer, hours_of, lines, outcome, planned, worst_hour

SHORT = [claim for claim in CLAIMS if claim.trace != SERVEGEN_DAY]


@pytest.mark.slow
@pytest.mark.parametrize("claim", SHORT, ids=lambda claim: claim.name)
def test_the_count_holds_and_fewer_do_not(shared, claim):
    decision = planned(claim, shared / "traces")
    assert decision.replicas > 1
    assert outcome(decision, decision.replicas).holds
    assert not outcome(decision, fewer(decision.replicas)).holds


@pytest.mark.bench
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_every_plan_is_confirmed_as_written(in_bench, benchmark, shared, root, claim):
    """The days of a million requests too; the page must say what comes out."""
    found = benchmark.pedantic(lines, args=(claim, shared / "traces"), rounds=1)
    print("", *found, sep="\n")  # noqa: T201
    assert found[0].endswith("| yes |")
    page = (root / "docs" / "confirmed.md").read_text(encoding="utf-8").splitlines()
    assert set(found) <= set(page)


def test_at_least_five_plans_on_three_traces():
    assert len(CLAIMS) >= 5
    assert len({claim.trace for claim in CLAIMS}) == 3


def test_the_page_has_every_plan_and_none_that_fails(root):
    page = (root / "docs" / "confirmed.md").read_text(encoding="utf-8")
    rows = [row for row in page.splitlines() if row.endswith("| yes |")]
    assert [row.split(" | ")[0] for row in rows] == [f"| {claim.name}" for claim in CLAIMS]
    assert "| NO |" not in page


def test_fewer():
    assert [fewer(count) for count in (2, 20, 21, 40, 100)] == [1, 19, 20, 38, 95]


def test_the_worst_hour_decides():
    hours = hours_of(np.array([0.0, 3599.0, 3600.0, 7100.0, 9000.1, 10_900.0]))
    assert hours.tolist() == [0, 0, 1, 1, 2, 2]
    values, has = np.array([1.0, 1.0, 3.0, 1.0, 9.0, 9.0]), np.array([1, 1, 1, 1, 0, 1], bool)
    assert worst_hour(values, has, hours, 2.0) == 0.0
    assert worst_hour(values[:4], has[:4], hours[:4], 2.0) == 0.5
