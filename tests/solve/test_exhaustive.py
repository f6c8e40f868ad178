"""Whatever `recommend` chooses, replaying every member of the space finds nothing cheaper."""

from __future__ import annotations

import pytest
from exhaustive import SPACES, cheaper_that_hold, members

from planner.solve.recommend import chosen

MOST_MEMBERS = 300
QUICK = (
    "tight-tpot-loose-ttft",
    "tight-itl",
    "batch-with-a-surge",
    "two-classes",
    "three-gpus-loose",
    "large-model-tight-tpot",
    "sampled",
    "priced-against-the-larger",
)


def search_everything(make_case, space):
    """Return what the solver missed, and a line that says what was asked."""
    case = make_case(space.requests(), space.slo, *space.gpus)
    decision, _, found = chosen(case)
    count = sum(1 for _ in members(found))
    assert 10 <= count <= MOST_MEMBERS
    cheaper, replays = cheaper_that_hold(case, decision, found)
    deployment = decision.deployment
    line = (
        f"{space.name}: {decision.replicas} × {deployment.gpu} TP"
        f"{deployment.tensor_parallel_size} of {count} members, {replays} replays"
    )
    missed = [
        f"{replicas} × {c.deployment.gpu} TP{c.deployment.tensor_parallel_size}"
        f" {c.deployment.max_num_batched_tokens}/{c.deployment.max_num_seqs}"
        for c, replicas in cheaper
    ]
    return missed, line


@pytest.mark.parametrize("space", [s for s in SPACES if s.name in QUICK], ids=lambda s: s.name)
def test_nothing_in_a_small_space_is_cheaper(make_case, space):
    missed, line = search_everything(make_case, space)
    assert not missed, line


@pytest.mark.bench
def test_nothing_in_any_small_space_is_cheaper(make_case, benchmark):
    """All spaces; the printed lines are the record."""

    def everything():
        return [search_everything(make_case, space) for space in SPACES]

    found = benchmark.pedantic(everything, rounds=1)
    print("\n" + "\n".join(line for _, line in found))  # noqa: T201
    assert len(SPACES) >= 20
    assert [line for missed, line in found if missed] == []


def test_the_spaces_ask_something():
    """Names are unique, and GPUs, targets and traffic vary."""
    assert len({s.name for s in SPACES}) == len({s.seed for s in SPACES}) == len(SPACES)
    metrics = {m for s in SPACES for stream in s.streams for m, _, _ in stream.targets}
    assert metrics == {"ttft_s", "tpot_s", "itl_s", "e2e_s"}
    assert len({gpu for s in SPACES for gpu in s.gpus}) >= 4
