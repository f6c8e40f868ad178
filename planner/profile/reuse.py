"""Prefix reuse: what share of input tokens an LRU cache of each size would have found.

One cache for the whole trace. A request finds the blocks of its longest cached prefix, then touches
all of its blocks from the deepest to the first, so that the deepest is the first to be evicted.
LRU is a stack algorithm (Mattson et al., "Evaluation techniques for storage hierarchies", IBM
Systems Journal 9(2), 1970): a block is in a cache of C blocks exactly when fewer than C other
blocks were touched since its own last touch. One pass therefore answers for every C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.profile.types import ReuseStats

CACHE_BLOCKS = (1_000, 5_000, 10_000, 30_000, 50_000)
NEVER = np.iinfo(np.int64).max // 4  # the stack depth of a block that was never touched before


def prefix_depths(requests: Requests) -> NDArray[np.int64]:
    """Smallest cache, in blocks, that holds each block and all before it in its request.

    Runs parallel to `requests.block_ids`; NEVER where no cache helps.
    """
    offsets = requests.block_offset
    blocks = len(requests.block_ids)
    owner = np.repeat(np.arange(len(requests)), np.diff(offsets))
    touch = (offsets[1:] + offsets[:-1])[owner] - 1 - np.arange(blocks)  # deepest block first
    depths = np.empty(blocks, np.int64)
    depths[touch] = stack_depths(requests.block_ids[touch], owner)
    # A running maximum per request: requests are lifted apart by more than any finite depth.
    lift = owner * (blocks + 2)
    deepest = np.maximum.accumulate(np.minimum(depths, blocks + 1) + lift) - lift
    return np.where(deepest > blocks, NEVER, deepest)


def stack_depths(touched: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Depth of each touched block in the LRU stack as its request arrives; 1 is the top.

    `owner` says which request a touch belongs to; touches are in time order. A block that a request
    touches twice counts where it was before the request.

    Examples
    --------
    >>> stack_depths(np.array([1, 2, 2, 1]), np.array([0, 1, 2, 3])).tolist()[2:]
    [1, 2]
    """
    n = len(touched)
    order = np.argsort(touched, kind="stable")
    same = touched[order][1:] == touched[order][:-1]
    previous = np.full(n, -1, np.int64)
    previous[order[1:][same]] = order[:-1][same]
    begins = np.flatnonzero(np.diff(owner, prepend=-1))
    begin = np.repeat(begins, np.diff(begins, append=n))  # first touch of each touch's request
    before = previous.copy()
    while np.any(inside := before >= begin):  # touched twice by one request: look further back
        before[inside] = previous[before[inside]]
    seen = before >= 0
    depths = np.full(n, NEVER, np.int64)
    depths[seen] = _touched_since(previous, begin[seen], before[seen]) - before[seen]
    return depths


def _touched_since(
    previous: NDArray[np.int64], begin: NDArray[np.int64], before: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count touches ahead of `begin` whose own previous touch was at or ahead of `before`.

    Less `before`, that is the number of distinct blocks touched in [before, begin): each is counted
    at its first touch there. Neighbours that one earlier request touched one after the other have
    the same count, because neither has been touched since: only the first of a run is asked.
    """
    run = (begin[1:] == begin[:-1]) & (before[1:] == before[:-1] + 1)
    head = np.concatenate([[True], ~run])[: len(before)]
    asked = count_below(previous + 1, begin[head], before[head] + 1)
    counts: NDArray[np.int64] = asked[np.cumsum(head) - 1]
    return counts


def count_below(
    values: NDArray[np.int64], end: NDArray[np.int64], bound: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each query, how many of `values[:end]` are below `bound`.

    A wavelet matrix, walked from the highest bit down for all queries at once: O((n + q)·log n).
    Source: Claude, Navarro and Ordóñez, "The wavelet matrix", Information Systems 47, 2015.

    Examples
    --------
    >>> count_below(np.array([5, 1, 4, 2]), np.array([3, 4]), np.array([5, 3])).tolist()
    [2, 2]
    """
    low = np.zeros(len(end), np.int64)
    high = end.astype(np.int64)
    total = np.zeros(len(end), np.int64)
    top = max(int(values.max(initial=0)), int(bound.max(initial=0)))
    for bit in reversed(range(top.bit_length())):
        is_zero = (values >> bit) & 1 == 0
        zeros_before = np.concatenate([[0], np.cumsum(is_zero)])
        zeros = int(zeros_before[-1])
        low_zeros, high_zeros = zeros_before[low], zeros_before[high]
        right = (bound >> bit) & 1 == 1
        total += np.where(right, high_zeros - low_zeros, 0)
        low = np.where(right, zeros + low - low_zeros, low_zeros)
        high = np.where(right, zeros + high - high_zeros, high_zeros)
        values = np.concatenate([values[is_zero], values[~is_zero]])
    return total


def reuse_stats(
    requests: Requests, chosen: NDArray[np.bool_], depths: NDArray[np.int64] | None
) -> ReuseStats | None:
    """Reuse by the `chosen` requests in a cache that all requests share.

    Without block ids (`depths` None) the only evidence is what the log says was cached: the share
    for "inf" is then the logged one and `block_tokens` is 0. None where there is neither.
    """
    tokens = int(requests.input_tokens[chosen].sum())
    if depths is None:
        return _logged_reuse(requests, chosen, tokens)
    offsets = requests.block_offset
    mine = np.repeat(chosen, np.diff(offsets))
    owner = np.repeat(np.arange(len(requests)), np.diff(offsets))
    blocks = int(mine.sum())
    if blocks == 0 or tokens == 0:
        return None
    shares: dict[str, float] = {}
    hit_requests = 0
    for size in (*CACHE_BLOCKS, NEVER - 1):
        found = np.bincount(owner[mine & (depths <= size)], minlength=len(requests))
        hit = np.minimum(found * requests.block_tokens, requests.input_tokens)
        shares["inf" if size == NEVER - 1 else str(size)] = int(hit.sum()) / tokens
        hit_requests = int(np.count_nonzero(found))
    return ReuseStats(
        block_tokens=requests.block_tokens,
        blocks=blocks,
        unique_blocks=len(np.unique(requests.block_ids[mine])),
        requests_with_hit_share=hit_requests / int(np.count_nonzero(chosen)),
        hit_share_by_cache_blocks=shares,
    )


def _logged_reuse(requests: Requests, chosen: NDArray[np.bool_], tokens: int) -> ReuseStats | None:
    cached = requests.cached_tokens[chosen]
    if tokens == 0 or not cached.any():
        return None
    return ReuseStats(
        block_tokens=0,
        blocks=0,
        unique_blocks=0,
        requests_with_hit_share=float(np.count_nonzero(cached)) / len(cached),
        hit_share_by_cache_blocks={"inf": int(cached.sum()) / tokens},
    )
