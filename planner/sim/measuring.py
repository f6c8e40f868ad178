"""What a replay measures over all replicas: set up before it runs, and summed up after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim import run
from planner.sim.kernel import world
from planner.sim.series import cut_points
from planner.sim.settings import SchedulerSettings
from planner.sim.targets import UNLIMITED, Judging, window_of
from planner.spec.slo import WorkloadClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts and means over all replicas and the whole replay, drain included."""

    events: int  # what the simulator handled one by one; a run of equal steps is one
    steps: int
    preemptions: int
    recomputed_tokens: int  # computed once, lost to preemption
    hit_tokens: int  # prompt tokens found in the prefix cache when first scheduled
    kv_use_mean: float  # share of KV blocks held while a replica is busy
    kv_use_max: float
    kv_peak_s: float  # when a replica first held that share, on the trace's clock; NaN: nothing ran
    kv_peak_replica: int
    kv_high_s: float  # longest time without a break that a replica held tables.HIGH_USE or more
    busy: float  # share of the span in which a replica runs steps
    queue_mean: float  # requests that wait to be scheduled first, per replica
    span_s: float  # first arrival to last step


def gauge(
    requests: Requests,
    rules: Judging,
    classes: Sequence[WorkloadClass],
    bin_s: float,
    *,
    stop_when_lost: bool,
) -> run.Gauge:
    """Return a gauge at zero, with time bins that end where windows do."""
    cuts = cut_points(requests, rules.edges, bin_s)
    starts = np.insert(cuts, 0, -np.inf)
    measures = run.gauge(
        np.append(cuts, np.inf),
        np.stack([window_of(starts, own) for own in rules.edges], axis=1),
        windows=rules.allowed.shape[1],
        targets=[(k.class_id, k.metric, k.target.limit_s) for k in rules.targets],
        rank=priority_ranks(requests.class_names, classes),
    )
    measures.tally[:] = rules.allowed
    if not stop_when_lost:
        measures.tally[np.count_nonzero(measures.targets.metric == world.ITL) :] = UNLIMITED
    return measures


def priority_ranks(
    class_names: Sequence[str], classes: Sequence[WorkloadClass]
) -> NDArray[np.int64]:
    """Return the order of the classes' priorities, equal for equal ones; 0 is served first."""
    priority = {each.name: each.priority for each in classes}
    each = np.array([priority.get(name, 0) for name in class_names], np.int64)
    return np.unique(each, return_inverse=True)[1].astype(np.int64)


def last_s(states: Any) -> float:  # noqa: ANN401 - records
    """Return when the last replica fell idle."""
    return float(states.now.max(initial=-np.inf))


def totals(
    rows: Any,  # noqa: ANN401 - records
    states: Any,  # noqa: ANN401 - records
    measures: run.Gauge,
    settings: SchedulerSettings,
    replicas: int,
) -> Totals:
    """Sum up what all replicas did."""
    span = last_s(states) - float(rows.arrival_s.min()) if len(rows) and len(states) else 0.0
    held, busy = float(measures.bins.used_block_s.sum()), float(measures.bins.busy_s.sum())
    waited = float(np.nansum(rows.scheduled_s - rows.arrival_s))
    there = span * replicas if span > 0.0 else np.inf
    fullest = int(states.max_used_blocks.argmax()) if len(states) else 0
    return Totals(
        events=int(states.events.sum()),
        steps=int(measures.bins.steps.sum()),
        preemptions=int(states.preempted.sum()),
        recomputed_tokens=int(states.recomputed_tokens.sum()),
        hit_tokens=int(states.hit_tokens.sum()),
        kv_use_mean=held / (busy * settings.num_blocks) if busy > 0.0 else 0.0,
        kv_use_max=int(states.max_used_blocks.max(initial=0)) / settings.num_blocks,
        kv_peak_s=float(states.peak_s[fullest]) if len(rows) and len(states) else np.nan,
        kv_peak_replica=fullest,
        kv_high_s=float(states.high_s.max(initial=0.0)),
        busy=busy / there,
        queue_mean=waited / there,
        span_s=max(span, 0.0),
    )
