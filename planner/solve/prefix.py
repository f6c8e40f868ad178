"""How much of the reusable prefix a replica's own cache really holds."""

from __future__ import annotations

import math

import numpy as np

from planner.ingest.requests import Requests
from planner.profile.types import ReuseStats

# Running sequences pin their blocks; what is left of the KV cache keeps old prefixes.
CACHE_SHARE_OF_KV = 0.5


def capacity_share(reuse: ReuseStats, cache_blocks: float) -> float:
    """Return hits with `cache_blocks` (LRU) over hits with an unlimited cache.

    Between the sizes of the profile, linear in the logarithm of the size.

    >>> stats = ReuseStats(block_tokens=512, blocks=10, unique_blocks=5, requests_with_hit_share=1,
    ...     hit_share_by_cache_blocks={"1000": 0.1, "10000": 0.2, "inf": 0.4})
    >>> capacity_share(stats, 1000), capacity_share(stats, 1e9)
    (0.25, 1.0)
    """
    shares = dict(reuse.hit_share_by_cache_blocks)
    unlimited = shares.pop("inf", 0.0)
    if unlimited <= 0.0:
        return 0.0
    sizes = sorted((float(size), share) for size, share in shares.items())
    sizes = [
        (1.0, 0.0),
        *sizes,
        (max(float(reuse.unique_blocks), sizes[-1][0] + 1.0) if sizes else 2.0, unlimited),
    ]
    logs = [math.log(size) for size, _ in sizes]
    share = np.interp(math.log(max(cache_blocks, 1.0)), logs, [value for _, value in sizes])
    return float(share) / unlimited


def routing_share(requests: Requests, streams: float) -> float:
    """Return hits that survive when requests are split at random over `streams` caches.

    A block that occurs n times misses once globally, and once in every cache that meets it:
    R·(1 − (1 − 1/R)ⁿ) of them. Share = Σ(n − that) / Σ(n − 1).

    >>> import numpy as np
    >>> ones, zeros = np.ones(2, int), np.zeros(2, int)
    >>> two = Requests(arrival_s=np.zeros(2), input_tokens=ones, output_tokens=ones,
    ...     class_id=zeros, class_names=("all",), cached_tokens=zeros, session_id=zeros,
    ...     block_tokens=16, block_offset=np.arange(3), block_ids=np.array([7, 7]))
    >>> round(routing_share(two, 4.0), 6)
    0.25
    """
    if streams <= 1.0 or not len(requests.block_ids):
        return 1.0
    _, times = np.unique(requests.block_ids, return_counts=True)
    repeats = float((times - 1).sum())
    if repeats <= 0.0:
        return 0.0
    misses = streams * -np.expm1(times * math.log1p(-1.0 / streams))
    return float((times - misses).sum()) / repeats


def cached_share(
    requests: Requests, reuse: ReuseStats | None, kv_tokens: float, load_factor: float
) -> float:
    """Return the share of `Requests.cached_tokens` that a replica's cache serves.

    Random routing and an LRU cache of half the KV blocks. Affinity routing keeps more; so this is
    the careful side.

    Parameters
    ----------
    requests, reuse
        The trace and what its profile says about reuse; None: no block ids, no credit.
    kv_tokens
        KV capacity of a replica.
    load_factor
        Share of the trace's requests that one replica sees.
    """
    if reuse is None or not requests.block_tokens:
        return 0.0
    blocks = CACHE_SHARE_OF_KV * kv_tokens / requests.block_tokens
    streams = max(1.0, 1.0 / load_factor) if load_factor > 0 else 1.0
    return capacity_share(reuse, blocks) * routing_share(requests, streams)
