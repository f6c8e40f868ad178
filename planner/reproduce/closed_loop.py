"""Clients that send their next request when the last one is answered, through the replay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.reproduce import replays
from planner.reproduce.replays import Machine
from planner.sim.replay import Replay

ROUND_TRIP_S = 1e-3  # from an answer to the client's next request

# (arrivals ascending, which request each of them is) -> those requests.
Requested = Callable[[NDArray[np.float64], NDArray[np.int64]], Requests]


def plain(pairs: NDArray[np.int64]) -> Requested:
    """Return requests without prefixes, (prompt, output) by number."""
    return lambda arrival, order: replays.requests_of(arrival, pairs[order, 0], pairs[order, 1])


def closed_loop(machine: Machine, requested: Requested, count: int, clients: int) -> Replay:
    """Return the run of `clients`; request i is client i mod `clients`'s.

    Arrivals are found round by round: a replay's answers are right up to the first arrival that
    was guessed wrongly, so each round is right for longer.
    """
    arrival = np.zeros(count)
    for _ in range(2 * count):
        order = np.argsort(arrival, kind="stable")
        done = replays.run(machine, requested(arrival[order], order))
        finish = np.empty(count)
        finish[order] = arrival[order] + done.e2e_s
        found = np.concatenate([np.zeros(clients), finish[:-clients] + ROUND_TRIP_S])
        if np.allclose(found, arrival, rtol=0.0, atol=1e-9):
            return done
        arrival = found
    raise AssertionError("arrivals of a closed loop did not settle")


def throughput_per_s(done: Replay) -> float:
    """Return requests finished per second of the run."""
    return len(done) / done.totals.span_s
