"""Which replica a request goes to.

Random numbers come from counters instead of a stream: what a request draws depends on its place
and the seed alone, so two probes see the same luck.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROUTINGS = ("random", "round_robin", "least_loaded")
ROUTE, THIN, MOVE = 1, 2, 3  # independent streams of one seed; copy c moves by MOVE + c
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniforms(counters: NDArray[np.int64], seed: int, stream: int) -> NDArray[np.float64]:
    """Return one number in [0, 1) per counter: splitmix64 (Steele, Lea, Flood 2014), 53 bits.

    >>> uniforms(np.arange(3), 42, THIN).round(6).tolist() == uniforms(
    ...     np.arange(3), 42, THIN).round(6).tolist()
    True
    """
    start = _mixed(np.array([seed, stream], np.int64).view(np.uint64) * _GOLDEN)
    origin = start[0] ^ (start[1] << np.uint64(1))
    bits = _mixed((counters.view(np.uint64) + np.uint64(1)) * _GOLDEN + origin)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def assign(count: int, replicas: int, routing: str, seed: int) -> NDArray[np.int32]:
    """Return the replica of each of `count` requests in order of arrival.

    Random and round-robin routers know nothing of the replicas, so the choice is made beforehand;
    a least-loaded router fills the answer while it runs (zeros until then).
    """
    if routing == "random":
        draws = uniforms(np.arange(count), seed, ROUTE)
        return (draws * replicas).astype(np.int32)
    if routing == "round_robin":
        return (np.arange(count) % replicas).astype(np.int32)
    return np.zeros(count, np.int32)


def in_order(owner: NDArray[np.int32], replicas: int) -> NDArray[np.int64]:
    """Return the requests replica by replica, each replica's in order of arrival."""
    # numpy sorts 16-bit integers by radix, in one pass.
    keys = owner.astype(np.int16) if replicas <= np.iinfo(np.int16).max else owner
    order: NDArray[np.int64] = np.argsort(keys, kind="stable")
    return order
