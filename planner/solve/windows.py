"""Which stretches of time a target must hold in (design: what a percentile target means)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

PARTIAL_WINDOW_SHARE = 0.5  # a last window shorter than this joins its neighbour


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Requests of one class in [start_s, end_s): the target holds for each such group.

    `merged` counts the evaluation windows it spans.
    """

    class_id: int
    start_s: float
    end_s: float
    requests: int
    merged: int


def window_edges(span_s: float, window_s: float) -> NDArray[np.float64]:
    """Return edges of the evaluation windows from the first arrival on.

    The last one takes a remainder shorter than half a window.

    >>> window_edges(9000.0, 3600.0).tolist(), window_edges(4000.0, 3600.0).tolist()
    ([0.0, 3600.0, 7200.0, 9000.0], [0.0, 4000.0])
    """
    whole = int(span_s // window_s)
    edges = [window_s * i for i in range(whole + 1)]
    rest = span_s - whole * window_s
    if rest >= PARTIAL_WINDOW_SHARE * window_s or not whole:
        edges.append(span_s)
    else:
        edges[-1] = span_s
    return np.asarray(edges)


def class_windows(
    arrival_s: NDArray[np.float64],
    class_id: NDArray[np.int64],
    classes: int,
    *,
    span_s: float,
    window_s: float,
    min_requests: int,
) -> tuple[Window, ...]:
    """Return every class's windows, neighbours merged until each holds `min_requests`.

    A class with fewer requests in the whole trace gets one window: all of it.
    """
    edges = window_edges(span_s, window_s)
    windows: list[Window] = []
    for which in range(classes):
        counts, _ = np.histogram(arrival_s[class_id == which], _closed(edges))
        windows += [
            Window(
                class_id=which,
                start_s=float(edges[first]),
                end_s=float(edges[last]),
                requests=int(counts[first:last].sum()),
                merged=last - first,
            )
            for first, last in merge_groups(counts.tolist(), min_requests)
        ]
    return tuple(window for window in windows if window.requests)


def _closed(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Let the last window include arrivals at the very end."""
    closed = edges.copy()
    closed[-1] += 1e6
    return closed


def merge_groups(counts: Sequence[int], minimum: int) -> list[tuple[int, int]]:
    """Group neighbours from the left until each group reaches `minimum`; the rest joins the last.

    >>> merge_groups([5, 20, 3, 4, 30, 2], 10)
    [(0, 2), (2, 6)]
    """
    groups: list[tuple[int, int]] = []
    first = total = 0
    for index, count in enumerate(counts):
        total += count
        if total >= minimum:
            groups.append((first, index + 1))
            first, total = index + 1, 0
    if first < len(counts):
        if groups:
            groups[-1] = (groups[-1][0], len(counts))
        else:
            groups.append((0, len(counts)))
    return groups


def window_label(start_s: float, end_s: float, origin: str) -> str:
    """Name a window: its weekday and hour where the trace has dates, seconds where it has not.

    >>> window_label(36000, 39600, "2026-10-13T00:00:00+00:00")
    'Tue 2026-10-13 10:00–11:00'
    >>> window_label(82800, 86400, "2026-10-13T00:00:00+00:00")
    'Tue 2026-10-13 23:00–24:00'
    >>> window_label(18000, 90000, "2026-10-13T00:00:00+00:00")
    'Tue 2026-10-13 05:00–Wed 2026-10-14 01:00'
    >>> window_label(7200, 10800, "")
    'hour 2 (7200–10800 s)'
    """
    if not origin:
        hour = f"hour {start_s / 3600:g} " if start_s % 3600 == 0 else ""
        return f"{hour}({start_s:.0f}–{end_s:.0f} s)" if hour else f"{start_s:.0f}–{end_s:.0f} s"
    begin = datetime.fromisoformat(origin) + timedelta(seconds=start_s)
    end = datetime.fromisoformat(origin) + timedelta(seconds=end_s)
    if end.date() == begin.date():
        until = f"{end:%H:%M}"
    elif (end.date() - begin.date()).days == 1 and f"{end:%H:%M}" == "00:00":
        until = "24:00"
    else:
        until = _day_and_time(end)
    return f"{_day_and_time(begin)}–{until}"


def moment_label(time_s: float, origin: str) -> str:
    """Name a moment to the second: by its date where the trace has dates.

    >>> moment_label(36_200.7, "2026-10-13T00:00:00+00:00"), moment_label(36_200.7, "")
    ('Tue 2026-10-13 10:03:20', '36200 s after the first arrival')
    """
    if not origin:
        return f"{int(time_s)} s after the first arrival"
    at = datetime.fromisoformat(origin) + timedelta(seconds=int(time_s))
    return f"{_day_and_time(at)}:{at:%S}"


def _day_and_time(at: datetime) -> str:
    """Write weekday, date and time; not by strftime("%a"), which follows the user's language."""
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.weekday()]
    return f"{day} {at:%Y-%m-%d %H:%M}"
