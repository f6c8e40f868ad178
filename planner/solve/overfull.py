"""The load at which a replay preempts first: what mean use of the KV cache cannot tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.sim.measuring import Totals
from planner.sim.replay import Replay
from planner.sim.series import Series
from planner.sim.tables import HIGH_USE
from planner.solve.case import Decision
from planner.solve.plan import FirstPreemption, KvPeak
from planner.solve.verify import Span
from planner.solve.windows import Window, moment_label, window_label

STRIDE = 2.0  # multiples of the plan's load asked first: 2, then 4
MOST = 4.0  # beyond this no load is asked
PRECISION = 1.05  # of the bracket that is reported
FULL_SHARE = 0.99  # of the blocks: beyond it, whether a step overflows is the luck of the draw
TEN_MINUTES_S = 600.0


def first_preemption(decision: Decision) -> FirstPreemption | None:
    """Return between which multiples of the plan's load the replay preempts first.

    Mean use says little about it: a queue of prompts fills the cache in a surge long before the
    mean does, and where prompts saturate first the mean never gets there. A cache that is full to
    within a percent counts as well: there one request more or less decides. The plan's own load is
    judged by the replay of the whole trace and by that of the window in which it is fullest, on as
    many replicas as a probe allows; larger loads in that window. At most seven replays.

    Returns
    -------
    FirstPreemption or None
        None where no replay stands behind the plan.
    """
    confirmed = decision.confirmed
    if confirmed is None:
        return None
    whole = confirmed.whole
    span = span_of(whole.totals.kv_peak_s, confirmed.trial.windows)

    def again(multiple: float) -> Replay:
        load = multiple * decision.load
        return confirmed.trial.replayed(load, decision.replicas, span=span)

    own = max((whole, again(1.0)), key=lambda seen: seen.totals.kv_use_max)
    without, with_one = (
        (0.0, 1.0)
        if overfull(whole.totals) or overfull(own.totals)
        else bracket(lambda multiple: overfull(again(multiple).totals))
    )
    return FirstPreemption(
        window=window_label(*span, decision.case.requests.origin),
        without_factor=without,
        with_factor=with_one,
        peak_use_share=own.totals.kv_use_max,
        peak=peak_of(own, whole, decision.case.requests.origin),
    )


def overfull(totals: Totals) -> bool:
    """Whether a replay preempted, or would have with a request more."""
    return totals.preemptions > 0 or totals.kv_use_max >= FULL_SHARE


def span_of(time_s: float, windows: tuple[Window, ...]) -> Span:
    """Return the shortest window that holds a moment; past the last, when queues drain, the last.

    >>> parts = [Window(class_id=0, start_s=a, end_s=b, requests=1, merged=1)
    ...          for a, b in ((0.0, 200.0), (0.0, 100.0), (100.0, 200.0))]
    >>> span_of(150.0, tuple(parts)), span_of(210.0, tuple(parts))
    ((100.0, 200.0), (100.0, 200.0))
    """

    def distance(span: Span) -> tuple[float, float, float]:
        outside = max(span[0] - time_s, time_s - span[1], 0.0)
        return outside, span[1] - span[0], -span[0]

    return min(((window.start_s, window.end_s) for window in windows), key=distance)


def peak_of(fullest: Replay, whole: Replay, origin: str) -> KvPeak:
    """Return the moment at which a replica's cache is fullest, and which requests fill it."""
    totals = fullest.totals
    at_s = totals.kv_peak_s
    with np.errstate(invalid="ignore"):
        there = (
            (fullest.replica == totals.kv_peak_replica)
            & (fullest.arrival_s + fullest.queue_s <= at_s)
            & (fullest.arrival_s + fullest.e2e_s > at_s)
        )
    running, prompts = fullest.class_id[there], fullest.input_tokens[there]
    held = np.bincount(running, prompts, len(fullest.class_names))
    most = int(held.argmax())
    count = int(np.count_nonzero(running == most))
    return KvPeak(
        at=moment_label(at_s, origin),
        running=len(running),
        class_name=fullest.class_names[most],
        class_requests=count,
        class_input_tokens=float(held[most]) / max(count, 1),
        class_share=float(held[most]) / max(float(held.sum()), 1.0),
        high_use_share=HIGH_USE,
        high_s=max(totals.kv_high_s, whole.totals.kv_high_s),
        preemptions=whole.totals.preemptions,
        preemptions_10min=most_preemptions(whole.series),
    )


def most_preemptions(series: Series) -> int:
    """Return the most preemptions in any ten minutes; bins that these cut count whole."""
    total = np.concatenate(([0], np.cumsum(series.preemptions)))
    first = np.searchsorted(series.end_s, series.end_s - TEN_MINUTES_S, side="right")
    started = np.maximum(first - 1, 0)  # ten minutes that end within a bin begin in one earlier
    return int((total[1:] - total[started]).max(initial=0))


def bracket(preempts: Callable[[float], bool]) -> tuple[float, float | None]:
    """Return the largest multiple asked without a preemption, and the least asked with one.

    Doubled until one occurs, then halved by ratio. None: not even at MOST. A multiple of one is
    known to go without.

    >>> [round(multiple, 3) for multiple in bracket(lambda multiple: multiple > 1.6)]
    [1.542, 1.61]
    >>> bracket(lambda multiple: False)
    (4.0, None)
    """
    low, high = 1.0, STRIDE
    while not preempts(high):
        if high >= MOST:
            return high, None
        low, high = high, high * STRIDE
    while high / low > PRECISION:
        middle = float((low * high) ** 0.5)
        low, high = (low, middle) if preempts(middle) else (middle, high)
    return low, high
