"""The hardest stretches of a trace: sliding windows, so no peak hides behind a boundary."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.profile.types import Window
from planner.units import HOUR_S, MINUTE_S

DURATIONS = (("second", 1.0), ("minute", MINUTE_S), ("10 minutes", 10 * MINUTE_S), ("hour", HOUR_S))


def kv_token_steps(
    input_tokens: NDArray[np.int64], output_tokens: NDArray[np.int64]
) -> NDArray[np.float64]:
    """KV tokens that a request holds, summed over its decode steps: O·(I + O/2).

    Times the seconds per step this is the token-seconds of KV cache it occupies, so it ranks
    windows by KV held without knowing how fast a step is.

    Examples
    --------
    >>> kv_token_steps(np.array([100]), np.array([10])).tolist()
    [1050.0]
    """
    output = output_tokens.astype(np.float64)
    return output * (input_tokens + output / 2.0)


def hardest_windows(requests: Requests) -> tuple[Window, ...]:
    """Busiest second, minute, ten minutes and hour by each resource.

    A window begins at a request and lasts its full duration. Durations that the trace does not
    reach are left out.
    """
    weights = (
        ("requests", np.ones(len(requests))),
        ("prompt tokens", requests.input_tokens.astype(np.float64)),
        ("output tokens", requests.output_tokens.astype(np.float64)),
        ("KV held", kv_token_steps(requests.input_tokens, requests.output_tokens)),
    )
    sums = [(name, np.concatenate([[0.0], np.cumsum(weight)])) for name, weight in weights]
    found = []
    for duration, duration_s in DURATIONS:
        if duration_s > requests.span_s:
            continue
        end = np.searchsorted(requests.arrival_s, requests.arrival_s + duration_s, side="left")
        for name, upto in sums:
            first = int(np.argmax(upto[end] - upto[:-1]))
            label = f"busiest {duration} by {name}"
            found.append(_window(requests, label, first, int(end[first]), duration_s))
    return tuple(found)


def _window(requests: Requests, label: str, first: int, end: int, duration_s: float) -> Window:
    inside = slice(first, end)
    return Window(
        label=label,
        start_s=float(requests.arrival_s[first]),
        duration_s=duration_s,
        requests=end - first,
        requests_per_s=(end - first) / duration_s,
        input_tokens_per_s=int(requests.input_tokens[inside].sum()) / duration_s,
        output_tokens_per_s=int(requests.output_tokens[inside].sum()) / duration_s,
    )


def moment(origin: str, second: float) -> str:
    """Name the instant `second` seconds into a trace: a weekday and time, else the seconds.

    Examples
    --------
    >>> moment("2026-10-12T00:00:00+00:00", 135_600.0), moment("", 135_600.0)
    ('Tue 2026-10-13 13:40:00', '135,600 s')
    """
    if not origin:
        return f"{second:,.0f} s"
    at = datetime.fromisoformat(origin) + timedelta(seconds=second)
    # Not strftime("%a"): that would follow the user's language.
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.weekday()]
    return f"{day} {at:%Y-%m-%d %H:%M:%S}"
