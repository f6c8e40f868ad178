"""Expected latency of every target: worst window, band, whole trace, and what binds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.case import Decision
from planner.solve.demand import FINAL_SAMPLE, whole_classes
from planner.solve.estimate import estimate, percentile_s, window_attainment
from planner.solve.latency import Waits
from planner.solve.plan import LatencyRow, Miss
from planner.solve.steps import stretched
from planner.solve.stretch import Stretch, stretch_of
from planner.solve.windows import Window, window_label
from planner.spec.slo import Target

Floats = NDArray[np.float64]

TELLING = 0.1  # a limit tells windows apart if some window uses this share of its allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """A target with the window it comes closest to failing in."""

    class_id: int
    target: Target
    window: Window
    whole_s: float  # the percentile over the whole trace


def worst_windows(decision: Decision, found: Waits) -> list[Worst]:
    """Return each class's targets with their worst windows, in the order they are declared.

    Where every window meets a limit entirely, the worst is the one that would miss the class's
    whole-trace percentile most: the limit that tells windows apart.
    """
    stretch, mixes = decision.whole.stretch, decision.case.mixes
    whole = whole_classes(stretch, FINAL_SAMPLE)
    whole_waits = estimate(decision.cost, whole, decision.at(), (), mixes=mixes).waits
    rows = []
    for index, over_all in enumerate(whole.windows):
        mine = [i for i, w in enumerate(stretch.windows) if w.class_id == over_all.class_id]
        for target in _targets(decision, over_all.class_id):
            value = percentile_s(
                decision.cost,
                whole,
                whole_waits,
                target.metric,
                target.percentile,
                window=index,
                guess_s=target.limit_s,
                mixes=mixes,
            )
            attained = _attained(decision, found, target.metric, target.limit_s)[mine]
            if attained.min() > 1.0 - TELLING * (1.0 - target.percentile / 100.0):
                attained = _attained(decision, found, target.metric, value)[mine]
            window = stretch.windows[mine[int(np.argmin(attained))]]
            rows.append(
                Worst(class_id=over_all.class_id, target=target, window=window, whole_s=value)
            )
    return rows


def _targets(decision: Decision, class_id: int) -> tuple[Target, ...]:
    name = decision.demand.traffic.class_names[class_id]
    return next((c.targets for c in decision.case.slo.classes if c.name == name), ())


def _attained(decision: Decision, found: Waits, metric: str, limit_s: float) -> Floats:
    """Return the attainment of every window of the whole trace."""
    attained: Floats = window_attainment(
        decision.cost, decision.whole.stretch, found, metric, limit_s, mixes=decision.case.mixes
    )[0]
    return attained


def latency_rows(decision: Decision, found: Waits) -> tuple[LatencyRow, ...]:
    """Return every target with what is expected of it.

    The band is the same window with every step slower or faster by the calibration's error band.
    The binding target is the one with the least margin, relative to its limit.

    Parameters
    ----------
    decision
        The plan's configuration and replica count.
    found
        The whole trace at the plan's load.
    """
    stretches: dict[tuple[float, float], Stretch] = {}
    bands: dict[tuple[float, float], tuple[Waits, ...]] = {}
    costs = _costs(decision)
    rows = []
    for worst in worst_windows(decision, found):
        span = (worst.window.start_s, worst.window.end_s)
        if span not in stretches:
            stretches[span] = _stretch(decision, span)
            bands[span] = tuple(
                estimate(cost, stretches[span], decision.at(), (), mixes=decision.case.mixes).waits
                for cost in costs
            )
        rows.append(_row(decision, worst, stretches[span], costs, bands[span]))
    return with_binding(rows)


def _costs(decision: Decision) -> tuple[StepCost, StepCost, StepCost]:
    """Return the physics as expected, with the fastest and with the slowest steps of its band."""
    cost = decision.cost
    return cost, stretched(cost, 1.0 - cost.band), stretched(cost, 1.0 + cost.band)


def _stretch(decision: Decision, span: tuple[float, float]) -> Stretch:
    demand = decision.demand
    return stretch_of(
        demand.traffic, demand.windows, start_s=span[0], end_s=span[1], per_window=FINAL_SAMPLE
    )


def _row(
    decision: Decision,
    worst: Worst,
    stretch: Stretch,
    costs: tuple[StepCost, ...],
    bands: tuple[Waits, ...],
) -> LatencyRow:
    target, window, mixes = worst.target, worst.window, decision.case.mixes
    place = stretch.windows.index(window)
    value, low, high = (
        percentile_s(
            cost,
            stretch,
            found,
            target.metric,
            target.percentile,
            window=place,
            guess_s=target.limit_s,
            mixes=mixes,
        )
        for cost, found in zip(costs, bands, strict=True)
    )
    attained = window_attainment(
        costs[0], stretch, bands[0], target.metric, target.limit_s, mixes=mixes
    )[0, place]
    return LatencyRow(
        class_name=decision.demand.traffic.class_names[worst.class_id],
        metric=target.metric,
        percentile=target.percentile,
        limit_s=target.limit_s,
        worst_s=value,
        low_s=low,
        high_s=high,
        high_by_doubt_s={"step_time": high},
        whole_s=worst.whole_s,
        attainment=float(attained),
        margin=(target.limit_s - value) / target.limit_s,
        worst_window=window_label(window.start_s, window.end_s, decision.case.requests.origin),
        requests_in_window=window.requests,
        merged_windows=window.merged,
        holds=bool(attained >= target.percentile / 100.0 - 1e-9),
        binds=False,
    )


def with_binding(rows: list[LatencyRow], fewer: Miss | None = None) -> tuple[LatencyRow, ...]:
    """Return the rows with the target that one replica fewer would miss most marked as binding.

    Where nothing is known of fewer replicas it is the one of least margin.
    """
    if not rows:
        return ()
    if fewer is not None:
        stops = (fewer.class_name, fewer.metric, fewer.percentile)
        return tuple(
            replace(row, binds=(row.class_name, row.metric, row.percentile) == stops)
            for row in rows
        )
    margins = [row.margin if np.isfinite(row.margin) else -np.inf for row in rows]
    tightest = int(np.argmin(margins))
    return tuple(replace(row, binds=index == tightest) for index, row in enumerate(rows))
