"""Findings about what a target leaves for waiting: what a request needs by itself."""

from __future__ import annotations

from collections.abc import Iterator

from planner.solve.alone import alone_s, smaller_replica
from planner.solve.capacity import IDLE
from planner.solve.estimate import estimate, percentile_s
from planner.solve.findings import finding
from planner.solve.plan import Finding, LatencyRow
from planner.solve.remarks_engine import Parts

NEAR_FLOOR = 0.7  # of a limit that a request alone on a replica already uses


def floor_remarks(parts: Parts, row: LatencyRow) -> Iterator[Finding]:
    """Yield how much of the binding limit no replica can save, if that is most of it.

    And whether that is why a replica has as many GPUs as it has.
    """
    value = _idle_s(parts, row)
    named: dict[str, float | int | str] = {
        "class_name": row.class_name,
        "metric": row.metric,
        "percentile": row.percentile,
    }
    if value is not None and value > NEAR_FLOOR * row.limit_s:
        yield finding(
            "target_near_floor",
            **named,
            idle_s=value,
            slow_idle_s=(1.0 + parts.decision.cost.band) * value,
            limit_s=row.limit_s,
        )
    smaller = smaller_replica(parts.decision)
    if smaller is None:
        return
    stretch = parts.binding.stretch
    declared = next(k for k in parts.decision.case.slo.classes if k.name == row.class_name)
    alone = alone_s(smaller, (stretch.start_s, stretch.end_s), declared)
    needs = alone.get((row.metric, row.percentile), 0.0)
    if needs > row.limit_s:
        yield finding(
            "smaller_replica_too_slow",
            **named,
            tensor_parallel_size=smaller.candidate.deployment.tensor_parallel_size,
            idle_s=needs,
            limit_s=row.limit_s,
        )


def _idle_s(parts: Parts, row: LatencyRow) -> float | None:
    """Return the row's percentile without any wait, by replay or, without one, by the equations."""
    decision, stretch = parts.decision, parts.binding.stretch
    if decision.confirmed is not None:
        declared = next(k for k in decision.case.slo.classes if k.name == row.class_name)
        span = (stretch.start_s, stretch.end_s)
        return alone_s(decision.confirmed.trial, span, declared).get((row.metric, row.percentile))
    names = decision.demand.traffic.class_names
    mine = [i for i, w in enumerate(stretch.windows) if names[w.class_id] == row.class_name]
    if not mine:
        return None
    mixes = decision.case.mixes
    idle = estimate(decision.cost, stretch, decision.at(decision.load * IDLE), (), mixes=mixes)
    return percentile_s(
        decision.cost,
        stretch,
        idle.waits,
        row.metric,
        row.percentile,
        window=mine[0],
        guess_s=row.limit_s,
        mixes=mixes,
    )
