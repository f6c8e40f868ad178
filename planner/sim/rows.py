"""The trace's requests as the kernel's records, and what came of them in the trace's order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.sim.kernel import world
from planner.sim.settings import SchedulerSettings

Floats = NDArray[np.float64]


def stated_hits(requests: Requests, settings: SchedulerSettings) -> NDArray[np.int64]:
    """Return cached tokens in whole blocks."""
    return requests.cached_tokens // settings.block_size * settings.block_size


def request_records(
    requests: Requests,
    served: NDArray[np.int64],
    window: NDArray[np.int64],
) -> Any:  # noqa: ANN401 - records
    """Return the served requests as the kernel's records, nothing having happened yet."""
    rows = world.records(len(served), world.REQUEST)
    rows.arrival_s = requests.arrival_s[served]
    rows.input_tokens = requests.input_tokens[served]
    rows.output_tokens = requests.output_tokens[served]
    rows.class_id = requests.class_id[served]
    rows.window = window[served]
    rows.scheduled_s = rows.first_token_s = rows.finish_s = np.nan
    return rows


def outside_s(cost: StepCost, input_tokens: NDArray[np.int64]) -> Floats:
    """Return what requests spend in the front end: a time each, and one for each prompt token."""
    outside: Floats = cost.frontend_s + cost.frontend_token_s * input_tokens.astype(np.float64)
    return outside


def latencies(
    requests: Requests,
    served: NDArray[np.int64],
    rows: Any,  # noqa: ANN401 - records
    cost: StepCost,
) -> dict[int, Floats]:
    """Return TTFT, TPOT and E2E of every request of the trace, infinite for the rejected.

    What a request spends outside the engine's loop counts in TTFT and E2E.
    """
    n = len(requests)
    gaps = rows.output_tokens - 1
    outside = outside_s(cost, requests.input_tokens[served])
    with np.errstate(invalid="ignore"):
        tpot = (rows.finish_s - rows.first_token_s) / gaps
    found = {
        world.TTFT: spread(rows.first_token_s - rows.arrival_s + outside, served, n, np.inf),
        world.TPOT: spread(tpot, served, n, np.inf),
        world.E2E: spread(rows.finish_s - rows.arrival_s + outside, served, n, np.inf),
    }
    found[world.TPOT][requests.output_tokens <= 1] = np.nan
    return found


def spread(values: Any, served: NDArray[np.int64], n: int, otherwise: float) -> Any:  # noqa: ANN401
    """Return values of the served requests in the trace's order."""
    whole = np.full(n, otherwise, values.dtype)
    whole[served] = values
    return whole
