"""Papers' experiments through the replay: sampled lengths, Poisson arrivals, capacity by bisection.

A paper's run is one draw of a few hundred requests. Each figure here is the median over `SEEDS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.sim.metrics import gap_percentile, percentile_of
from planner.sim.replay import Replay, replay
from planner.sim.settings import SchedulerSettings

SEEDS = range(1, 12)
MANY_SEEDS = range(1, 201)
FARTHEST = 1024.0  # from where a search for a capacity starts
CAPACITY_STEP = 1.025  # Sarathi-Serve's bisection ends within 2.5 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One replica: its step times and its scheduler."""

    cost: StepCost
    settings: SchedulerSettings


def requests_of(
    arrival_s: NDArray[np.float64], inputs: NDArray[np.int64], outputs: NDArray[np.int64]
) -> Requests:
    """Return requests of one class without sessions or prefixes; `arrival_s` ascends."""
    n = len(arrival_s)
    return Requests(
        arrival_s=arrival_s - arrival_s[0],
        input_tokens=inputs,
        output_tokens=outputs,
        class_id=np.zeros(n, np.int64),
        class_names=("all",),
        cached_tokens=np.zeros(n, np.int64),
        session_id=np.full(n, -1, np.int64),
    )


def poisson(
    pairs: NDArray[np.int64],
    count: int,
    per_s: float,
    seed: int,
    longest_gap: float = math.inf,
) -> Requests:
    """Return `count` requests with lengths drawn from `pairs` and Poisson arrivals.

    A seed's draws do not depend on the rate: a higher one shrinks the gaps. Gaps are cut at
    `longest_gap` times their mean.
    """
    rng = np.random.default_rng(seed)
    rows = pairs[rng.integers(len(pairs), size=count)]
    arrival = np.cumsum(np.minimum(rng.exponential(size=count), longest_gap)) / per_s
    return requests_of(arrival, rows[:, 0], rows[:, 1])


def run(machine: Machine, requests: Requests) -> Replay:
    """Return the replay of requests through one replica."""
    return replay(requests, machine.cost, machine.settings, bin_s=3600.0)


def tbt_s(done: Replay, percentile: float = 99.0) -> float:
    """Return a percentile of all times between tokens, in s."""
    return gap_percentile(done.gaps.sum(axis=(0, 1)), percentile)


def median_over(seeds: Sequence[int], measure: Callable[[int], float]) -> float:
    """Return the median of a figure over seeds."""
    return float(np.median([measure(seed) for seed in seeds]))


def capacity(holds: Callable[[float], bool], start: float) -> float:
    """Return the highest rate at which `holds`, to `CAPACITY_STEP`.

    From `start` the rate doubles or halves until the verdict turns, then the interval is halved.

    Raises
    ------
    ValueError
        It holds at every rate that makes sense, or at none.
    """
    low = high = start
    if holds(start):
        while holds(high := 2.0 * low):
            low = high
            if low > start * FARTHEST:
                raise ValueError(f"the limits hold even at {low:g} requests/s")
    else:
        while not holds(low := high / 2.0):
            high = low
            if high < start / FARTHEST:
                raise ValueError(f"the limits do not hold even at {high:g} requests/s")
    while high / low > CAPACITY_STEP:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def queueing_p50_s(done: Replay) -> float:
    """Return the median time from arrival to first scheduling, in s."""
    return percentile_of(done.queue_s, 50.0)
