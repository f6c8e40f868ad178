"""The load at which a replay preempts first: what mean use of the KV cache cannot tell."""

from __future__ import annotations

from collections.abc import Callable

from planner.sim.measuring import Totals
from planner.solve.case import Decision
from planner.solve.plan import FirstPreemption
from planner.solve.verify import Span
from planner.solve.windows import window_label

STRIDE = 2.0  # multiples of the plan's load asked first: 2, then 4
MOST = 4.0  # beyond this no load is asked
PRECISION = 1.05  # of the bracket that is reported
FULL_SHARE = 0.99  # of the blocks: beyond it, whether a step overflows is the luck of the draw


def first_preemption(decision: Decision, span: Span) -> FirstPreemption | None:
    """Return between which multiples of the plan's load the replay preempts first.

    Mean use says little about it: a queue of prompts fills the cache in a surge long before the
    mean does, and where prompts saturate first the mean never gets there. A cache that is full to
    within a percent counts as well: there one request more or less decides. At most six replays.

    Parameters
    ----------
    decision
        The plan.
    span
        The window in which most KV is held; it is replayed with its lead-in.

    Returns
    -------
    FirstPreemption or None
        None where no replay stands behind the plan.
    """
    confirmed = decision.confirmed
    if confirmed is None:
        return None
    whole = confirmed.whole.totals

    def preempts(multiple: float) -> bool:
        load = multiple * decision.load
        return overfull(confirmed.trial.replayed(load, decision.replicas, span=span).totals)

    without, with_one = (0.0, 1.0) if whole.preemptions else bracket(preempts)
    return FirstPreemption(
        window=window_label(*span, decision.case.requests.origin),
        without_factor=without,
        with_factor=with_one,
        peak_use_share=whole.kv_use_max,
    )


def overfull(totals: Totals) -> bool:
    """Whether a replay preempted, or would have with a request more."""
    return totals.preemptions > 0 or totals.kv_use_max >= FULL_SHARE


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
