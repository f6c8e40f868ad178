"""How far preemption is, and whether KV memory nearly binds."""

from __future__ import annotations

from planner.solve.findings import finding
from planner.solve.plan import Concurrency, Finding, FirstPreemption

NEAR_PREEMPTION = 1.5  # load multiple below which the KV limit counts as near
LIKELY_PREEMPTION = 0.01  # share of steps that overflow
NEARLY_BINDING = 1.1  # the KV cache may fill at so much more than the targets' load and count


def preemption(kv: Concurrency, targets_factor: float) -> Finding:
    """Return how far preemption is: by replay where there is one, else by mean use.

    Parameters
    ----------
    kv
        The plan's KV account.
    targets_factor
        Multiple of the plan's load at which a latency target is lost.
    """
    found = kv.first_preemption
    if found is None or found.peak is None:
        return _by_mean(kv)
    common: dict[str, float | str] = {
        **_peak(kv, found),
        "without_factor": found.without_factor,
        "targets_factor": targets_factor,
        "recompute_s": kv.preemption_cost_s,
    }
    if found.with_factor is None:
        return finding("no_preemption_replayed", **common)
    return finding(
        "first_preemption",
        with_factor=found.with_factor,
        first_limit=first_limit(found.with_factor, targets_factor),
        preemptions=found.peak.preemptions,
        **common,
    )


def _by_mean(kv: Concurrency) -> Finding:
    near = (
        kv.preemption_load_factor < NEAR_PREEMPTION or kv.preemption_probability > LIKELY_PREEMPTION
    )
    return finding(
        "preemption_near" if near else "preemption_far",
        load_factor=kv.preemption_load_factor,
        kv_use_share=kv.kv_use_worst,
        window=kv.window,
        probability_share=kv.preemption_probability,
        recompute_s=kv.preemption_cost_s,
    )


def _peak(kv: Concurrency, found: FirstPreemption) -> dict[str, float | str]:
    """Return when and of what the KV cache is fullest in the replay."""
    peak = found.peak
    assert peak is not None
    return {
        "window": found.window,
        "at": peak.at,
        "peak_use_share": found.peak_use_share,
        "running": peak.running,
        "class_name": peak.class_name,
        "class_requests": peak.class_requests,
        "class_input_tokens": peak.class_input_tokens,
        "class_share": peak.class_share,
        "kv_use_share": kv.kv_use_worst,
        "mean_window": kv.window,
    }


def first_limit(kv_factor: float, targets_factor: float) -> str:
    """Return what ends first as the load grows: the KV cache, the latency targets, or both.

    >>> first_limit(1.0, 1.17), first_limit(1.2, 1.17), first_limit(2.0, 1.17)
    ('kv_cache', 'both', 'latency')
    """
    if kv_factor <= targets_factor:
        return "kv_cache"
    return "both" if kv_factor <= NEARLY_BINDING * targets_factor else "latency"
