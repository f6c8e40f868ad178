"""A benchmark run of finitely many requests: clients, a start, and a tail that empties.

A steady state describes the middle of a run. With few requests a client the tail is much of it:
the last long answers run nearly alone, faster each but far below the throughput of the middle.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FiniteRun:
    """Wall-clock time of a whole run and the mean of its requests' times per output token."""

    duration_s: float
    tpot_s: float


def finite_run(
    output_tokens: NDArray[np.float64],
    clients: int,
    ttft_s: float,
    busy_step_s: Callable[[float], float],
    tail_step_s: Callable[[float], float],
) -> FiniteRun:
    """Return duration and mean TPOT of a closed loop that ends.

    Every running request advances one token a step; how long a step takes depends on how many run.
    A request that ends is followed by the next one until none is left.

    Parameters
    ----------
    output_tokens
        Output length of each request, in the order they are sent.
    clients
        Requests at a time.
    ttft_s
        Time from sending a request to its first token.
    busy_step_s
        Mean step time by running requests while prompts keep coming.
    tail_step_s
        The same without prompts, for the tail.

    >>> run = finite_run(np.full(4, 11.0), 2, 0.5, lambda d: 0.1, lambda d: 0.1)
    >>> round(run.duration_s, 6), round(run.tpot_s, 6)
    (3.0, 0.1)
    """
    gaps = np.maximum(output_tokens - 1.0, 1.0).tolist()
    busy = _table(busy_step_s, clients)
    tail = _table(tail_step_s, clients)
    now = steps = total = 0.0
    running: list[tuple[float, float, int]] = []  # (step it ends at, when it started, index)
    sent = 0
    while sent < len(gaps) or running:
        while sent < len(gaps) and len(running) < clients:
            waiting = ttft_s / busy[min(len(running) + 1, clients)]
            heapq.heappush(running, (steps + waiting + gaps[sent], now, sent))
            sent += 1
        end, start, index = heapq.heappop(running)
        step = (busy if sent < len(gaps) else tail)[len(running) + 1]
        now += (end - steps) * step
        steps = end
        total += max(now - start - ttft_s, 0.0) / gaps[index]
    return FiniteRun(duration_s=now, tpot_s=total / len(gaps))


def _table(step_s: Callable[[float], float], most: int) -> Sequence[float]:
    """Evaluate a step time on a geometric grid of 0 … most requests and fill in between."""
    counts = np.unique(np.round(np.geomspace(1, max(most, 1), 9)))
    times = [step_s(float(count)) for count in counts]
    return np.interp(np.arange(most + 1), counts, times).tolist()
