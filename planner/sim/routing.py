"""Which replica a request goes to.

Random numbers come from counters instead of a stream: what a request draws depends on its place
and the seed alone, so two probes see the same luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROUTINGS = ("random", "round_robin", "least_loaded", "cache_aware")
ROUTED = ("least_loaded", "cache_aware")  # by what replicas do meanwhile
ROUTE, THIN, MOVE = 1, 2, 3  # independent streams of one seed; copy c moves by MOVE + c
WIDTH, CONTENT = 1 << 40, 1 << 41  # how far it moves, and whose requests its sessions bring
DRAW = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheAware:
    """Rule and thresholds of the "cache_aware" routing, under the routers' own flag names.

    If the loads differ by more than `balance_abs_threshold` requests and by more than the factor
    `balance_rel_threshold`, the least loaded replica gets the request. Otherwise the one whose
    prefix cache holds the most of the prompt's blocks, if that is more than `cache_threshold` of
    them, the less loaded of equals; else the least loaded. Load is unfinished requests.

    This is SGLang's router with its caches reported by events (cache_aware_zmq) and the defaults of
    SGLang's gateway and vLLM's router (docs.gpustack.ai, model deployment routing). Their plain
    cache_aware keeps a tree of past prompts instead, and guesses what replicas have evicted.
    """

    cache_threshold: float = 0.3
    balance_abs_threshold: float = 64
    balance_rel_threshold: float = 1.5

    @property
    def thresholds(self) -> tuple[float, float, float]:
        """The three, in the kernel's order."""
        return (
            float(self.cache_threshold),
            float(self.balance_abs_threshold),
            float(self.balance_rel_threshold),
        )


CACHE_AWARE = CacheAware()


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
    the others fill the answer while they run (zeros until then).
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
