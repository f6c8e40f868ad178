"""How a deployment does at a load: the one function that a replay can confirm or replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.latency import (
    Waits,
    e2e_within,
    itl_within,
    tpot_within,
    ttft_within,
    waits,
)
from planner.solve.steady import Lanes
from planner.solve.stretch import Stretch
from planner.spec.slo import Target, WorkloadClass

Floats = NDArray[np.float64]

SHORTEST_S, LONGEST_S = 1e-5, 1e6  # percentiles are sought between these
BRACKET = 8.0  # first bracket around a guess, widened until it holds the percentile
PERCENTILE_STEPS = 20  # bisection in log time: 8²/2^20, four parts in a million


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One target in one window of a stretch."""

    window: int  # index into Stretch.windows
    target: Target

    @property
    def required(self) -> float:
        """Share of requests that must meet the limit."""
        return self.target.percentile / 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Attainment of every check, per lane: (lane, check) shares of all requests of a window."""

    checks: tuple[Check, ...]
    attainment: Floats
    waits: Waits

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Per lane, whether every check reaches its required share."""
        required = np.array([check.required for check in self.checks])
        return np.asarray(np.all(self.attainment >= required - 1e-12, axis=1))


def checks_of(
    stretch: Stretch, classes: Sequence[WorkloadClass], class_names: Sequence[str]
) -> tuple[Check, ...]:
    """Return every target in every window of the stretch."""
    targets = {declared.name: declared.targets for declared in classes}
    return tuple(
        Check(window=index, target=target)
        for index, window in enumerate(stretch.windows)
        for target in targets.get(class_names[window.class_id], ())
    )


def estimate(
    cost: StepCost,
    stretch: Stretch,
    at: Lanes,
    checks: Sequence[Check],
    *,
    mixes: bool = True,
) -> Estimate:
    """Return what share of each window's requests meets each target, for every lane.

    Closed form: see `steady` for the state, `backlog` for the queue, `latency` for the chances.
    Requests too long to be served count as violations.

    Parameters
    ----------
    cost
        Physics of the lanes; its tables must cover their budgets.
    stretch
        Demand with its windows and sample.
    at
        Configurations and load factors.
    checks
        What to evaluate.
    mixes
        Whether the engine mixes prefill and decodes in a step.
    """
    found = waits(cost, stretch, at, mixes=mixes)
    columns = []
    cache: dict[tuple[str, float], Floats] = {}
    for check in checks:
        key = (check.target.metric, check.target.limit_s)
        if key not in cache:
            cache[key] = window_attainment(cost, stretch, found, *key, mixes=mixes)
        columns.append(cache[key][:, check.window])
    attainment = np.stack(columns, axis=1) if columns else np.ones((len(at), 0))
    return Estimate(checks=tuple(checks), attainment=attainment, waits=found)


def window_attainment(
    cost: StepCost,
    stretch: Stretch,
    found: Waits,
    metric: str,
    limit_s: float,
    *,
    mixes: bool = True,
) -> Floats:
    """Return the share of each window's requests within a limit, (lane, window).

    TPOT is defined for answers of two tokens or more, ITL pools tokens; a window without any of
    them meets every limit.
    """
    sample = stretch.sample
    lanes = found.own_s.shape[0]
    weight = sample.weight
    if metric == "ttft_s":
        within = ttft_within(found, limit_s)
    elif metric == "tpot_s":
        within, weight = tpot_within(found, limit_s), weight * (sample.output_tokens > 1)
    elif metric == "e2e_s":
        within = e2e_within(found, sample.output_tokens, limit_s)
    else:
        blocks = itl_within(cost, stretch, found.state, limit_s, mixes=mixes)
        within, weight = blocks[:, sample.block], weight * (sample.output_tokens - 1.0)
    served = np.zeros((lanes, len(stretch.windows)))
    totals = np.bincount(sample.group, weight, len(stretch.windows))
    for lane in range(lanes):
        served[lane] = np.bincount(sample.group, within[lane] * weight, len(stretch.windows))
    share = np.where(totals > 0, served / np.maximum(totals, 1e-12), 1.0)
    requests = np.array([max(1, window.requests) for window in stretch.windows])
    attained: Floats = share * (1.0 - stretch.rejected / requests)
    return attained


def percentile_s(
    cost: StepCost,
    stretch: Stretch,
    found: Waits,
    metric: str,
    percentile: float,
    *,
    window: int = 0,
    guess_s: float = 1.0,
    mixes: bool = True,
) -> float:
    """Return the smallest limit that `percentile` percent of a window's requests meet, in s.

    The inverse of `window_attainment` by bisection: "P99 ≤ x" and "attainment of x ≥ 99 %" agree.
    Infinite where the share can never be reached. Of several lanes the first is used.
    """
    part, waits_part = _only(stretch, found, window)

    def reaches(limit_s: float) -> bool:
        share = window_attainment(cost, part, waits_part, metric, limit_s, mixes=mixes)[0, 0]
        return bool(share >= percentile / 100.0 - 1e-12)

    low, high = guess_s / BRACKET, guess_s * BRACKET
    while not reaches(high):
        low, high = high, high * BRACKET**2
        if low > LONGEST_S:
            return float("inf")
    while reaches(low) and low > SHORTEST_S:
        low, high = low / BRACKET**2, low
    for _ in range(PERCENTILE_STEPS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _only(stretch: Stretch, found: Waits, window: int) -> tuple[Stretch, Waits]:
    """Return stretch and waits reduced to one window's requests and the first lane."""
    mine = np.flatnonzero(stretch.sample.group == window)
    sample = replace(
        stretch.sample,
        **{f.name: getattr(stretch.sample, f.name)[mine] for f in fields(stretch.sample)},
    )
    sample = replace(sample, group=np.zeros(len(mine), dtype=np.int64))
    part = replace(
        stretch,
        windows=(stretch.windows[window],),
        rejected=stretch.rejected[window : window + 1],
        sample=sample,
    )
    per_request = {
        f.name: getattr(found, f.name)[:1, mine] for f in fields(found) if f.name != "state"
    }
    return part, replace(found, **per_request)
