"""The largest load one replica carries within every target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.estimate import Check, estimate
from planner.solve.sharing import kv_sequences
from planner.solve.steady import lanes, mean_past
from planner.solve.steps import step
from planner.solve.stretch import SPEEDS_S, Stretch

Floats = NDArray[np.float64]

POINTS = 5  # loads tried side by side in each round
ROUNDS = 4
RANGE = 200.0  # first bracket: from the throughput bound down to this fraction of it
IDLE = 1e-4  # of the throughput bound: a target that fails even here can never hold
LANES_AT_ONCE = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Configs:
    """Budgets, slots and KV capacities to evaluate together, arrays of one length."""

    max_num_batched_tokens: Floats
    max_num_seqs: Floats
    kv_tokens: Floats

    def __len__(self) -> int:
        return len(self.kv_tokens)

    def take(self, index: NDArray[np.int64]) -> Configs:
        """Return the chosen configurations, in the order of `index`."""
        return Configs(
            max_num_batched_tokens=self.max_num_batched_tokens[index],
            max_num_seqs=self.max_num_seqs[index],
            kv_tokens=self.kv_tokens[index],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A stretch with the checks that a load must pass in it."""

    stretch: Stretch
    checks: tuple[Check, ...]


def throughput_bound(cost: StepCost, stretch: Stretch, configs: Configs) -> Floats:
    """Return the load factor at which mean demand reaches what the replica can do at best.

    The lesser of prompt tokens/s with every step full and no decodes, and generated tokens/s with
    every slot taken. No load above it is stable, so the search starts here.
    """
    budget = configs.max_num_batched_tokens
    full = budget / step(cost, 0.0, 0.0, budget, mean_past(stretch)).interval_s
    prompts = full / max(stretch.prompt_tokens_per_s, 1e-9)
    unit, held = float(stretch.residents[0].mean()), float(stretch.held[0].mean())
    context = np.float64(held / max(unit, 1e-12))
    slots = np.minimum(configs.max_num_seqs, kv_sequences(configs.kv_tokens, context))
    tokens_per_s = unit / float(SPEEDS_S[0])  # generated at load factor 1, by Little's law
    decodes = slots / (max(tokens_per_s, 1e-12) * step(cost, slots, context).gap_s)
    bound: Floats = np.minimum(prompts, decodes)
    return bound


def capacity_factors(
    cost: StepCost,
    judged: Sequence[Judged],
    configs: Configs,
    *,
    mixes: bool = True,
    known: Floats | None = None,
    around: Floats | None = None,
    same: Callable[[float, float], bool] = float.__eq__,
) -> Floats:
    """Return, for each configuration, the largest load factor that passes every check; 0: none.

    Bisection with POINTS loads a round, all configurations side by side. After the first stretch
    only configurations that fail at what the earlier ones allow are searched again.

    Parameters
    ----------
    cost, judged, configs, mixes
        Physics, demand with checks, and what to evaluate.
    known
        Capacities that earlier stretches allow; these are only ever lowered.
    around
        A capacity known from a close relative; narrows the first bracket to a factor 4 around it.
    same
        Whether two load factors answer the same: a bracket between them is narrowed no further.
    """
    found = np.full(len(configs), np.inf) if known is None else known.copy()
    for part in judged:
        bound = throughput_bound(cost, part.stretch, configs) * 1.05
        todo = np.arange(len(configs))
        tested = np.isfinite(found)
        if tested.any():
            passes = _passes(cost, part, configs, mixes)(np.arange(len(configs)), found)
            todo = np.flatnonzero(~passes & (found > 0))
        if len(todo):
            high = np.minimum(bound, found)[todo]
            low = high / RANGE
            if around is not None:
                high = np.minimum(high, 2.0 * np.maximum(around[todo], 1e-12))
                low = high / 8.0
            found[todo] = _search(_passes(cost, part, configs, mixes), todo, low, high, same)
    return np.where(np.isfinite(found), found, 0.0)


def holds_at(
    cost: StepCost,
    judged: Sequence[Judged],
    configs: Configs,
    factor: Floats,
    *,
    mixes: bool = True,
) -> NDArray[np.bool_]:
    """Return for each configuration whether it passes every check at its own load factor.

    Stretches are judged in turn, each only for the configurations that passed the ones before.
    """
    alive = np.arange(len(configs))
    for part in judged:
        if len(alive):
            alive = alive[_passes(cost, part, configs, mixes)(alive, factor[alive])]
    held = np.zeros(len(configs), dtype=bool)
    held[alive] = True
    return held


Passes = Callable[[NDArray[np.int64], Floats], NDArray[np.bool_]]


def _passes(cost: StepCost, part: Judged, configs: Configs, mixes: bool) -> Passes:
    """Return a function (configurations, load factors) → whether every check holds."""

    def passes(which: NDArray[np.int64], factor: Floats) -> NDArray[np.bool_]:
        result = np.zeros(len(which), dtype=bool)
        for first in range(0, len(which), LANES_AT_ONCE):
            some = slice(first, first + LANES_AT_ONCE)
            chosen = configs.take(which[some])
            at = lanes(
                factor[some],
                chosen.max_num_batched_tokens,
                chosen.max_num_seqs,
                chosen.kv_tokens,
            )
            result[some] = estimate(cost, part.stretch, at, part.checks, mixes=mixes).holds
        return result

    return passes


def _search(
    passes: Passes,
    which: NDArray[np.int64],
    low: Floats,
    high: Floats,
    same: Callable[[float, float], bool],
) -> Floats:
    """Return the largest passing load of each configuration between low and high."""
    edges = np.stack([low, high], axis=1)
    floor = passes(which, low)
    ceiling = passes(which, high)
    failing = np.flatnonzero(~floor)
    if len(failing):  # fails at the low end: look down to an idle replica
        idle = low[failing] * RANGE * IDLE
        alive = passes(which[failing], idle)
        edges[failing] = np.stack([np.where(alive, idle, 0.0), low[failing]], axis=1)
    edges[ceiling & floor, 0] = high[ceiling & floor]
    open_ = np.flatnonzero((edges[:, 0] > 0) & (edges[:, 0] < edges[:, 1]))
    for _ in range(ROUNDS + 1):
        apart = [not same(float(bottom), float(top)) for bottom, top in edges[open_]]
        open_ = open_[np.array(apart, dtype=bool)]
        if not len(open_):
            break
        edges[open_] = _narrow(passes, which[open_], edges[open_])
    return edges[:, 0]


def _narrow(passes: Passes, which: NDArray[np.int64], edges: Floats) -> Floats:
    """Return the sub-bracket whose lower end passes and whose upper end does not."""
    steps = np.arange(1, POINTS + 1) / (POINTS + 1)
    grid = edges[:, :1] * (edges[:, 1:] / edges[:, :1]) ** steps
    passed = passes(np.repeat(which, POINTS), grid.ravel()).reshape(grid.shape)
    passing = np.cumprod(passed, axis=1).sum(axis=1)  # up to the first failure
    padded = np.concatenate([edges[:, :1], grid, edges[:, 1:]], axis=1)
    rows = np.arange(len(which))
    return np.stack([padded[rows, passing], padded[rows, passing + 1]], axis=1)
