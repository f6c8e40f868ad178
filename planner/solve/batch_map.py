"""The map of max_num_batched_tokens and max_num_seqs: latency, stability and cost of every pair.

Equations give the whole grid at the load that each replica of the plan must carry, in the window
that decides; the chosen pair and its neighbours are replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.perf.step_cost import StepCost
from planner.sim.settings import SchedulerSettings
from planner.solve.candidates import Candidate, Family
from planner.solve.capacity import Judged, capacity_factors, throughput_bound
from planner.solve.case import Decision
from planner.solve.chunk import target_name
from planner.solve.estimate import Check, Estimate, estimate, window_attainment
from planner.solve.fleet import fleet_load, for_load
from planner.solve.plan import BatchCell, BatchMap
from planner.solve.search import configs_of
from planner.solve.steady import lanes
from planner.spec.slo import Target

Floats = NDArray[np.float64]

FIRST_TOKEN, NEXT_TOKEN = ("ttft_s",), ("tpot_s", "itl_s")
LIMITS = 65  # limits at which a percentile is bracketed, eight doublings either way of its target
DOUBLINGS = 8.0
STABILITY = "stability"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The pairs of one family at one load, as the equations see them; arrays over the pairs."""

    members: tuple[Candidate, ...]
    found: Estimate
    missed: Floats  # (pair, check) share that misses over the share that may
    stable: NDArray[np.bool_]
    replicas: tuple[int | None, ...]  # spares included


def batch_map(decision: Decision, binding: Judged, found: Sequence[Family]) -> BatchMap | None:
    """Return the map around the chosen pair; None where the family has no other pair.

    Parameters
    ----------
    decision
        The plan.
    binding
        The stretch that decides.
    found
        Families that were searched; the chosen one's members are the grid.
    """
    family = next((f for f in found if decision.candidate in f.candidates), None)
    if family is None or len(family.candidates) < 2 or not binding.checks:
        return None
    binding = _screened(decision, binding)
    cost = decision.case.cost(family.widest)
    grid = _grid(decision, binding, family, cost)
    chosen = family.candidates.index(decision.candidate)
    first = _nearest(grid, binding, chosen, FIRST_TOKEN)
    following = _nearest(grid, binding, chosen, NEXT_TOKEN)
    columns = [_percentiles(decision, binding, cost, grid, check) for check in (first, following)]
    asked = _neighbours(family.candidates, chosen)
    cells = tuple(
        _with_answer(
            BatchCell(
                max_num_batched_tokens=member.deployment.max_num_batched_tokens,
                max_num_seqs=member.deployment.max_num_seqs,
                holds=bool(grid.stable[i] and (grid.missed[i] <= 1.0 + 1e-9).all()),
                stable=bool(grid.stable[i]),
                ttft_s=_at(columns[0], i),
                gap_s=_at(columns[1], i),
                limit=_limit(decision, binding, grid, i),
                replicas=grid.replicas[i],
                replay_holds=_replay_holds(decision, cost, member) if i in asked else None,
                **_margins(decision, member),
            )
        )
        for i, member in enumerate(grid.members)
    )
    return BatchMap(
        load=_load(decision),
        ttft_target="" if first is None else _name(decision, binding, first),
        gap_target="" if following is None else _name(decision, binding, following),
        cells=cells,
        bounds=bounds(cells, decision),
    )


def _screened(decision: Decision, binding: Judged) -> Judged:
    """Return the same stretch with the search's smaller sample, which a map can do with."""
    same = zip(decision.judged, decision.demand.judged, strict=True)
    return next((screened for detailed, screened in same if detailed is binding), binding)


def _load(decision: Decision) -> float:
    """Return the load that each replica must carry, headroom included, as the equations see it."""
    return fleet_load(decision.case.screen_needs) / decision.replicas


def _grid(decision: Decision, binding: Judged, family: Family, cost: StepCost) -> Grid:
    case = decision.case
    configs, load = configs_of(family.candidates), _load(decision)
    at = lanes(
        np.full(len(configs), load),
        configs.max_num_batched_tokens,
        configs.max_num_seqs,
        configs.kv_tokens,
    )
    found = estimate(cost, binding.stretch, at, binding.checks, mixes=case.mixes)
    allowed = np.array([1.0 - check.required for check in binding.checks])
    around = np.full(len(configs), load)

    def count(factor: float) -> int | None:
        return for_load(case.screen_needs, factor)

    factors = capacity_factors(
        cost,
        [binding],
        configs,
        mixes=case.mixes,
        around=around,
        same=lambda low, high: count(low) == count(high),
    )
    counts = [count(float(factor)) for factor in factors]
    spare = case.slo.spare_replicas
    return Grid(
        members=family.candidates,
        found=found,
        missed=(1.0 - found.attainment) / allowed,
        stable=np.asarray(throughput_bound(cost, binding.stretch, configs) >= load),
        replicas=tuple(None if count is None else count + spare for count in counts),
    )


def _nearest(grid: Grid, binding: Judged, chosen: int, metrics: tuple[str, ...]) -> Check | None:
    """Return the check of these metrics that the chosen pair comes nearest to missing."""
    rows = [i for i, check in enumerate(binding.checks) if check.target.metric in metrics]
    if not rows:
        return None
    return binding.checks[max(rows, key=lambda i: float(grid.missed[chosen, i]))]


def _percentiles(
    decision: Decision, binding: Judged, cost: StepCost, grid: Grid, check: Check | None
) -> Floats | None:
    """Return the check's percentile of every pair, in s; infinite where it is out of reach."""
    if check is None:
        return None
    limits = check.target.limit_s * np.exp2(np.linspace(-DOUBLINGS, DOUBLINGS, LIMITS))
    mixes = decision.case.mixes
    shares = np.stack(
        [
            window_attainment(
                cost, binding.stretch, grid.found.waits, check.target.metric, limit, mixes=mixes
            )[:, check.window]
            for limit in limits
        ],
        axis=1,
    )
    return np.array([crossing(limits, row, check.required) for row in shares])


def crossing(limits: Floats, shares: Floats, required: float) -> float:
    """Return where a share that grows with its limit reaches what is required; ∞: nowhere.

    >>> crossing(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.8, 1.0]), 0.9)
    2.8284271247461903
    """
    reached = np.flatnonzero(shares >= required - 1e-12)
    if not len(reached):
        return float("inf")
    i = int(reached[0])
    if i == 0:
        return float(limits[0])
    part = (required - shares[i - 1]) / max(shares[i] - shares[i - 1], 1e-12)
    return float(limits[i - 1] * (limits[i] / limits[i - 1]) ** min(1.0, part))


def _at(column: Floats | None, i: int) -> float:
    return float("nan") if column is None else float(column[i])


def _limit(decision: Decision, binding: Judged, grid: Grid, i: int) -> str:
    """Return what a pair misses most, or comes nearest to missing."""
    if not grid.stable[i]:
        return STABILITY
    return _name(decision, binding, binding.checks[int(grid.missed[i].argmax())])


def _name(decision: Decision, binding: Judged, check: Check) -> str:
    window = binding.stretch.windows[check.window]
    target: Target = check.target
    return target_name(decision.demand.traffic.class_names[window.class_id], target)


def _neighbours(members: Sequence[Candidate], chosen: int) -> set[int]:
    """Return the chosen pair and the next on each side of it."""
    mine = _pair(members[chosen])
    places = {_pair(member): i for i, member in enumerate(members)}
    wanted = {chosen}
    for axis in (0, 1):
        line = sorted(pair for pair in places if pair[1 - axis] == mine[1 - axis])
        at = line.index(mine)
        wanted |= {places[pair] for pair in (*line[max(0, at - 1) : at], *line[at + 1 : at + 2])}
    return wanted


def _pair(member: Candidate) -> tuple[int, int]:
    return member.deployment.max_num_batched_tokens, member.deployment.max_num_seqs


def _replay_holds(decision: Decision, cost: StepCost, member: Candidate) -> bool | None:
    """Return whether a pair holds by replay at the plan's count; None: replay has not spoken."""
    confirmed, case = decision.confirmed, decision.case
    if confirmed is None:
        return None
    if member == decision.candidate:
        return True  # the plan's own answer
    try:
        settings = SchedulerSettings.of(member.deployment, case.engine, member.memory)
    except InputError:
        return None
    trial = replace(confirmed.trial, candidate=member, cost=cost, settings=settings)
    load = fleet_load(case.needs) / decision.replicas
    return trial.holds(load, decision.replicas, confirmed.spans)


def _margins(decision: Decision, member: Candidate) -> dict[str, float | None]:
    """Return the margins above the load that the search's replay found to hold and to be missed."""
    confirmed = decision.confirmed
    nothing = (None, None)
    held, missed = (
        nothing if confirmed is None else confirmed.margins.get(member.deployment, nothing)
    )
    return {"replay_margin": held, "replay_missed": missed}


def _with_answer(cell: BatchCell) -> BatchCell:
    """Return a cell whose margins know what the map itself asked at the needed load."""
    if cell.replay_holds is None:
        return cell
    if cell.replay_holds:
        return replace(cell, replay_margin=max(cell.replay_margin or 0.0, 0.0))
    return replace(cell, replay_margin=None, replay_missed=0.0)


def bounds(cells: Sequence[BatchCell], decision: Decision) -> Mapping[str, str]:
    """Return what ends the feasible region on each side of the chosen pair.

    "" where every pair up to the edge of the grid holds. Replay overrules the equations where it
    was asked.
    """
    chosen = decision.deployment
    tokens, slots = chosen.max_num_batched_tokens, chosen.max_num_seqs
    row = [c for c in cells if c.max_num_seqs == slots]
    column = [c for c in cells if c.max_num_batched_tokens == tokens]
    sides = {
        "smaller_budget": [c for c in row if c.max_num_batched_tokens < tokens][::-1],
        "larger_budget": [c for c in row if c.max_num_batched_tokens > tokens],
        "fewer_seqs": [c for c in column if c.max_num_seqs < slots][::-1],
        "more_seqs": [c for c in column if c.max_num_seqs > slots],
    }
    return {name: _first_limit(side) for name, side in sides.items()}


def _first_limit(side: Sequence[BatchCell]) -> str:
    for cell in side:
        holds = cell.holds if cell.replay_holds is None else cell.replay_holds
        if not holds:
            pair = f"{cell.max_num_batched_tokens}/{cell.max_num_seqs}"
            return f"{cell.limit} at {pair}"
    return ""
