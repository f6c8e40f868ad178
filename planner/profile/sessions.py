"""Multi-turn structure: how many requests a session makes and how long it waits between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.profile.types import SessionStats

if TYPE_CHECKING:
    import polars as pl


def session_stats(requests: Requests, chosen: NDArray[np.bool_]) -> SessionStats | None:
    """Sessions among the `chosen` requests; None where the log names none.

    Think time runs from the end of an answer to the session's next request where the log has
    end-to-end latencies, else from request to request (the answer's time is then part of it).
    Requests that overlap an earlier one of their session (parallel calls) have no think time.
    """
    import polars as pl

    known = chosen & (requests.session_id >= 0)
    if not known.any():
        return None
    turns = pl.DataFrame(
        {
            "session": requests.session_id[known],
            "start_s": requests.arrival_s[known],
            "end_s": requests.arrival_s[known] + _durations_s(requests)[known],
        }
    )
    per_session = turns.group_by("session").len()["len"]
    think = (
        turns.sort("session", maintain_order=True)
        .select(think=pl.col("start_s") - pl.col("end_s").shift(1).over("session"))
        .filter(pl.col("think") >= 0.0)["think"]
    )
    return SessionStats(
        sessions=len(per_session),
        turns_per_session_mean=len(turns) / len(per_session),
        turns_per_session_p95=_quantile(per_session.cast(pl.Float64), 0.95),
        think_time_p50_s=_quantile(think, 0.5),
        think_time_p95_s=_quantile(think, 0.95),
    )


def _durations_s(requests: Requests) -> NDArray[np.float64]:
    """End-to-end latencies where logged, else 0."""
    if len(requests.observed_e2e_s) != len(requests):
        return np.zeros(len(requests))
    return np.nan_to_num(requests.observed_e2e_s, nan=0.0)


def _quantile(values: pl.Series, share: float) -> float:
    """Inverted-CDF quantile; NaN of nothing."""
    found = values.sort()
    if len(found) == 0:
        return math.nan
    return float(found[max(math.ceil(round(share * len(found), 6)), 1) - 1])
