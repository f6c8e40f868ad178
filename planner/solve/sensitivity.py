"""What would change the answer: one assumption moved at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.capacity import Configs, Judged, holds_at
from planner.solve.case import Decision
from planner.solve.counts import WIDEST
from planner.solve.demand import SCREEN_SAMPLE
from planner.solve.estimate import Check, checks_of, estimate
from planner.solve.fleet import Needs, exact_replicas, for_load, replica_factor
from planner.solve.plan import Sensitivity
from planner.solve.steady import lanes
from planner.solve.steps import stretched
from planner.solve.stretch import stretch_of
from planner.spec.slo import Target

Floats = NDArray[np.float64]

MOVE = 0.2
KV_MOVE = 0.1


def counts_around(replicas: int) -> list[int]:
    """Return replica counts to test, close together near the plan's own.

    >>> counts_around(3)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    """
    if replicas <= 4:
        return list(range(1, max(6, int(WIDEST * replicas)) + 1))
    shares = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3)
    far = (1.4, 1.5, 1.7, 2.0, 2.5, 3.0, WIDEST)
    return sorted({max(1, round(replicas * share)) for share in (*shares, *far)})


def least_count(
    cost: StepCost,
    judged: Sequence[Judged],
    configs: Configs,
    needs: Needs,
    around: int,
    *,
    mixes: bool = True,
) -> int | None:
    """Return the fewest replicas for load that hold, headroom included; None beyond WIDEST times.

    Two rounds: counts around the known one, then every count between the last that fails and the
    first that holds.
    """
    tested = counts_around(around)
    low, high = _bracket(cost, judged, configs, needs, tested, mixes)
    if high is None:
        return None
    between = list(range(low + 1, high))
    if len(between) > 24:
        between = sorted({round(x) for x in np.linspace(low + 1, high - 1, 24)})
    if between:
        _, finer = _bracket(cost, judged, configs, needs, between, mixes)
        high = finer if finer is not None else high
    return high


def _bracket(
    cost: StepCost,
    judged: Sequence[Judged],
    configs: Configs,
    needs: Needs,
    counts: Sequence[int],
    mixes: bool,
) -> tuple[int, int | None]:
    """Return the last count that fails (0: none) and the first from which all hold."""
    load = np.array([replica_factor(needs, n) / (1.0 - needs.headroom) for n in counts])
    same = np.zeros(len(counts), dtype=np.int64)
    holds = holds_at(cost, judged, configs.take(same), load, mixes=mixes)
    failing = np.flatnonzero(~holds)
    if not len(failing):
        return 0, counts[0]
    last = int(failing[-1])
    return counts[last], counts[last + 1] if last + 1 < len(counts) else None


def sensitivities(decision: Decision, band: tuple[int, int]) -> tuple[Sensitivity, ...]:
    """Return the plan's count under each moved assumption.

    Parameters
    ----------
    decision
        The plan.
    band
        Counts for load with every step faster and slower by the calibration's band.
    """
    rows = [*_arithmetic(decision)]
    width = f"{100 * decision.cost.band:.0f} %"
    rows.append(_row(decision, "step_time", f"−{width}", band[0]))
    rows.append(_row(decision, "step_time", f"+{width}", band[1]))
    rows += _lengths(decision)
    rows += _memory(decision)
    rows += _targets(decision)
    return tuple(rows)


def _row(decision: Decision, assumption: str, change: str, count: int | None) -> Sensitivity:
    """Return a row; counts are for load, the plan's spares are added."""
    spare = decision.case.slo.spare_replicas
    replicas = None if count is None else count + spare
    return Sensitivity(
        assumption=assumption,
        change=change,
        replicas=replicas,
        gpus=None if replicas is None else replicas * decision.deployment.gpus,
        flips=count != decision.replicas,
    )


def _arithmetic(decision: Decision) -> list[Sensitivity]:
    """Return what follows from the capacity alone: load and headroom."""
    needs = decision.case.needs
    moves = [
        ("load", "+20 %", replace(needs, growth=(1 + needs.growth) * (1 + MOVE) - 1)),
        ("load", "−20 %", replace(needs, growth=(1 + needs.growth) * (1 - MOVE) - 1)),
    ]
    if needs.headroom > 0:
        moves.append(("headroom", "none", replace(needs, headroom=0.0)))
    return [
        replace(
            _row(decision, name, change, for_load(moved, decision.factor)),
            exact=exact_replicas(moved, decision.factor),
        )
        for name, change, moved in moves
    ]


def _lengths(decision: Decision) -> list[Sensitivity]:
    """Return longer and shorter answers and prompts, with the binding stretches cut again."""
    case, length = decision.case, decision.deployment.max_model_len
    moves = (
        ("output_tokens", "+20 %", {"output_scale": 1.0 + MOVE}),
        ("output_tokens", "−20 %", {"output_scale": 1.0 - MOVE}),
        ("input_tokens", "+20 %", {"input_scale": 1.0 + MOVE}),
        ("input_tokens", "−20 %", {"input_scale": 1.0 - MOVE}),
    )
    rows = []
    for name, change, scales in moves:
        traffic = case.traffic(length, decision.cached, **scales)
        judged = []
        for part in decision.judged:
            stretch = stretch_of(
                traffic,
                decision.demand.windows,
                start_s=part.stretch.start_s,
                end_s=part.stretch.end_s,
                per_window=SCREEN_SAMPLE,
            )
            checks = checks_of(stretch, case.slo.classes, traffic.class_names)
            judged.append(Judged(stretch=stretch, checks=checks))
        rows.append(_row(decision, name, change, _count(decision, judged)))
    return rows


def _memory(decision: Decision) -> list[Sensitivity]:
    """Return more and less KV cache."""
    rows = []
    for change, factor in (("+10 %", 1.0 + KV_MOVE), ("−10 %", 1.0 - KV_MOVE)):
        configs = replace(decision.configs, kv_tokens=decision.configs.kv_tokens * factor)
        count = _count(decision, decision.judged, configs)
        rows.append(_row(decision, "kv_capacity", change, count))
    return rows


def _targets(decision: Decision) -> list[Sensitivity]:
    """Return each target made looser and tighter by a fifth, all evaluated together."""
    moves = [
        (declared.name, target, change, replace(target, limit_s=target.limit_s * factor))
        for declared in decision.case.slo.classes
        for target in declared.targets
        for change, factor in (("+20 %", 1.0 + MOVE), ("−20 %", 1.0 - MOVE))
    ]
    tested = counts_around(decision.replicas)
    holds = np.ones((len(moves), len(tested)), dtype=bool)
    for part in decision.judged:
        held, moved = _both(decision, part, moves, tested)
        for row, (name, target, _, _) in enumerate(moves):
            same = _is(decision, part, name, target)
            holds[row] &= held[:, ~same].all(axis=1) & moved[row]
    rows = []
    for row, (name, target, change, _) in enumerate(moves):
        failing = np.flatnonzero(~holds[row])
        first = 0 if not len(failing) else int(failing[-1]) + 1
        count = tested[first] if first < len(tested) else None
        label = f"{target.metric} p{target.percentile:g} target of {name}"
        rows.append(_row(decision, label, change, count))
    return rows


Move = tuple[str, Target, str, Target]


def _is(decision: Decision, part: Judged, class_name: str, target: Target) -> NDArray[np.bool_]:
    """Return which checks of a stretch are of one class's target."""
    names = decision.demand.traffic.class_names
    return np.array(
        [
            check.target == target
            and names[part.stretch.windows[check.window].class_id] == class_name
            for check in part.checks
        ],
        dtype=bool,
    )


def _both(
    decision: Decision, part: Judged, moves: Sequence[Move], counts: Sequence[int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return what holds at each count: (count, check), and with each target moved (move, count)."""
    needs, deployment = decision.case.screen_needs, decision.deployment
    load = np.array([replica_factor(needs, n) / (1.0 - needs.headroom) for n in counts])
    at = lanes(
        load,
        np.float64(deployment.max_num_batched_tokens),
        np.float64(deployment.max_num_seqs),
        np.float64(decision.candidate.memory.kv_tokens),
    )
    extra: list[Check] = []
    owner: list[int] = []
    for row, (name, target, _, moved) in enumerate(moves):
        for index in np.flatnonzero(_is(decision, part, name, target)):
            extra.append(replace(part.checks[index], target=moved))
            owner.append(row)
    checks = (*part.checks, *extra)
    found = estimate(decision.cost, part.stretch, at, checks, mixes=decision.case.mixes)
    required = np.array([check.required for check in checks])
    passed = found.attainment >= required - 1e-12
    moved_holds = np.ones((len(moves), len(counts)), dtype=bool)
    for column, row in enumerate(owner):
        moved_holds[row] &= passed[:, len(part.checks) + column]
    return passed[:, : len(part.checks)], moved_holds


def _count(
    decision: Decision, judged: Sequence[Judged], configs: Configs | None = None
) -> int | None:
    return least_count(
        decision.cost,
        judged,
        configs or decision.configs,
        decision.case.screen_needs,
        decision.replicas,
        mixes=decision.case.mixes,
    )


def step_time_band(decision: Decision) -> tuple[int, int]:
    """Return counts for load with every step faster and slower by the calibration's band."""
    counts = []
    for factor in (1.0 - decision.cost.band, 1.0 + decision.cost.band):
        count = least_count(
            stretched(decision.cost, factor),
            decision.judged,
            decision.configs,
            decision.case.screen_needs,
            decision.replicas,
            mixes=decision.case.mixes,
        )
        counts.append(count if count is not None else math.ceil(WIDEST * decision.replicas))
    return min(counts[0], decision.replicas), max(counts[1], decision.replicas)
