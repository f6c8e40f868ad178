"""The LRU curve against a cache that really evicts."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.profile import reuse
from planner.profile.profile import profile_requests
from planner.profile.reuse import NEVER, count_below, prefix_depths

# Prefix chains as real logs have them, and arbitrary ids (repeats within a prompt, shuffled order).
CHAINS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9)).map(
        lambda pair: [100 * pair[0] + depth for depth in range(pair[1])]
    ),
    min_size=1,
    max_size=30,
)
ARBITRARY = st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=25)


def naive_hits(prompts: list[list[int]], size: int | None) -> list[int]:
    """Leading blocks found per prompt, with a cache of `size` blocks that evicts as it goes."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = []
    for prompt in prompts:
        found = 0
        while found < len(prompt) and prompt[found] in cache:
            found += 1
        hits.append(found)
        for block in reversed(prompt):  # the deepest is touched first, so it is evicted first
            cache[block] = None
            cache.move_to_end(block)
        while size is not None and len(cache) > size:
            cache.popitem(last=False)
    return hits


@settings(deadline=None)
@given(st.one_of(CHAINS, ARBITRARY))
def test_depths_give_the_hits_of_every_cache_size(samples, prompts) -> None:
    requests = samples.with_blocks(prompts, 16)
    depths = prefix_depths(requests)
    owner = np.repeat(np.arange(len(prompts)), [len(prompt) for prompt in prompts])
    for size in (1, 2, 3, 5, 8, 13, None):
        inside = depths <= (NEVER - 1 if size is None else size)
        found = np.bincount(owner[inside], minlength=len(prompts))
        assert found.tolist() == naive_hits(prompts, size)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 70), min_size=1, max_size=70),
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 80)), min_size=1, max_size=20),
)
def test_count_below_is_a_plain_count(values, queries) -> None:
    ends = np.array([min(end, len(values)) for end, _ in queries])
    bounds = np.array([bound for _, bound in queries])
    wanted = [sum(v < b for v in values[:e]) for e, b in zip(ends, bounds, strict=True)]
    assert count_below(np.array(values), ends, bounds).tolist() == wanted


def test_shares_by_hand(samples, monkeypatch) -> None:
    """Blocks of 10 tokens. The third prompt's last block is half full: 25 tokens, not 30."""
    monkeypatch.setattr(reuse, "CACHE_BLOCKS", (2, 3))
    requests = samples.requests(
        [0, 1, 2],
        [30, 20, 25],
        [1, 1, 1],
        block_tokens=10,
        block_offset=np.array([0, 3, 5, 8]),
        block_ids=np.array([1, 2, 3, 1, 9, 1, 2, 3]),
    )
    found = profile_requests(requests).total.reuse
    # Prompt 2 finds block 1 (stack: 1 2 3). Then the stack is 1 9 2 3: prompt 3 finds block 1 with
    # two blocks, with three also block 2, with no limit all three, which hold its 25 tokens.
    assert found is not None
    assert found.hit_share_by_cache_blocks == {
        "2": pytest.approx(20 / 75),
        "3": pytest.approx(30 / 75),
        "inf": pytest.approx(35 / 75),
    }
    assert (found.blocks, found.unique_blocks) == (8, 4)
    assert found.requests_with_hit_share == pytest.approx(2 / 3)


def test_classes_share_the_cache(samples) -> None:
    requests = samples.with_blocks([[1, 2], [1, 2], [7]], 16, classes=["a", "b", "b"])
    profile = profile_requests(requests)
    first, second = profile.classes
    assert first.reuse is not None
    assert second.reuse is not None
    assert first.reuse.hit_share_by_cache_blocks["inf"] == 0.0
    assert second.reuse.hit_share_by_cache_blocks["inf"] == pytest.approx(2 / 3)


def test_logged_cache_hits_stand_in_for_missing_ids(samples) -> None:
    requests = samples.requests([0, 1], [100, 300], [1, 1], cached_tokens=np.array([0, 200]))
    found = profile_requests(requests).total.reuse
    assert found is not None
    assert found.block_tokens == 0
    assert found.hit_share_by_cache_blocks == {"inf": 0.5}
    assert found.requests_with_hit_share == 0.5


def test_no_evidence_is_not_zero_reuse(samples) -> None:
    assert profile_requests(samples.requests([0, 1], [9, 9], [1, 1])).total.reuse is None
