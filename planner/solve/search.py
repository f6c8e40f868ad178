"""Which configuration is cheapest: families by optimistic cost, then capacity of their members."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.candidates import Candidate, Family
from planner.solve.capacity import (
    Configs,
    Judged,
    capacity_factors,
    holds_at,
    throughput_bound,
)
from planner.solve.fleet import Needs, for_load, replica_factor
from planner.spec.deployment import Deployment

Floats = NDArray[np.float64]

SEEDS = ((512, 256), (2048, 256), (8192, 256), (2048, 128))
MARGINS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)  # above the needed load


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A family with its physics, what it is judged on, and the price of one of its GPUs."""

    family: Family
    cost: StepCost
    judged: tuple[Judged, ...]
    usd_per_gpu_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A candidate with the load one replica of it carries within every target."""

    candidate: Candidate
    priced: Priced
    factor: float  # load factor; 0: no load at all
    replicas: int | None  # spares included; None: no count holds

    @property
    def gpus(self) -> int | None:
        """GPUs of the fleet."""
        return None if self.replicas is None else self.replicas * self.candidate.deployment.gpus

    def expense(self, by_price: bool) -> tuple[float, float]:
        """Return what is minimised: $/h and GPUs, or GPUs alone where a price is missing."""
        if self.gpus is None:
            return (math.inf, math.inf)
        price = self.priced.usd_per_gpu_hour if by_price else 1.0
        return (self.gpus * (price or 0.0), float(self.gpus))


def configs_of(candidates: Sequence[Candidate]) -> Configs:
    """Return the candidates' budgets, slots and KV capacities as arrays."""
    return Configs(
        max_num_batched_tokens=np.array(
            [c.deployment.max_num_batched_tokens for c in candidates], dtype=np.float64
        ),
        max_num_seqs=np.array([c.deployment.max_num_seqs for c in candidates], dtype=np.float64),
        kv_tokens=np.array([c.memory.kv_tokens for c in candidates], dtype=np.float64),
    )


def option(candidate: Candidate, priced: Priced, factor: float, needs: Needs) -> Option:
    """Return the candidate with its replica count."""
    count = for_load(needs, factor)
    replicas = None if count is None else count + needs.spare_replicas
    return Option(candidate=candidate, priced=priced, factor=factor, replicas=replicas)


def optimistic_cost(priced: Priced, needs: Needs, by_price: bool) -> float:
    """Return a cost below which no member of the family can come: throughput alone, no latency."""
    configs = configs_of(priced.family.candidates)
    bounds = [float(throughput_bound(priced.cost, j.stretch, configs).max()) for j in priced.judged]
    count = for_load(needs, min(bounds))
    if count is None:
        return math.inf
    gpus = (count + needs.spare_replicas) * priced.family.candidates[0].deployment.gpus
    return gpus * (priced.usd_per_gpu_hour or 0.0) if by_price else float(gpus)


def search(
    all_priced: Sequence[Priced], needs: Needs, *, mixes: bool, by_price: bool
) -> list[Option]:
    """Return the options whose capacity was computed; the cheapest plan is among them.

    Families are taken in the order of their optimistic cost. The first that holds shows what its
    usual settings carry (`seeds`); then every member of every family is tried at the load that
    would make it strictly cheaper than the best so far, and only those that pass get their
    capacity computed. A family whose optimistic cost is not below the best so far is left out.
    """
    queue = sorted(
        (optimistic_cost(priced, needs, by_price), index) for index, priced in enumerate(all_priced)
    )
    options: list[Option] = []
    for _, index in queue:
        priced = all_priced[index]
        if math.isinf(_cheapest(options, by_price)):
            options += capacities(priced, seeds(priced.family.candidates), needs, mixes=mixes)
    for lower, index in queue:
        if lower < _cheapest(options, by_price):
            options += _cheaper(all_priced[index], options, needs, mixes, by_price)
    return options


def _cheapest(options: Sequence[Option], by_price: bool) -> float:
    return min((o.expense(by_price)[0] for o in options), default=math.inf)


def capacities(
    priced: Priced, candidates: Sequence[Candidate], needs: Needs, *, mixes: bool
) -> list[Option]:
    """Return the options of chosen members of a family."""
    if not candidates:
        return []
    factors = capacity_factors(priced.cost, priced.judged, configs_of(candidates), mixes=mixes)
    return [option(c, priced, float(f), needs) for c, f in zip(candidates, factors, strict=True)]


def seeds(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the members nearest to each of SEEDS: budgets small, middling and large."""
    picked = {
        min(range(len(candidates)), key=lambda i: _distance(candidates[i], budget, seqs))
        for budget, seqs in SEEDS
    }
    return [candidates[i] for i in sorted(picked)]


def _distance(candidate: Candidate, budget: int, seqs: int) -> float:
    deployment = candidate.deployment
    return abs(math.log(deployment.max_num_batched_tokens / budget)) + abs(
        math.log(deployment.max_num_seqs / seqs)
    )


def _cheaper(
    priced: Priced, options: Sequence[Option], needs: Needs, mixes: bool, by_price: bool
) -> list[Option]:
    """Return members of the family that are strictly cheaper than every option so far."""
    known = {(id(o.priced.family), o.candidate.deployment) for o in options}
    rest = [c for c in priced.family.candidates if (id(priced.family), c.deployment) not in known]
    each = priced.family.candidates[0].deployment.gpus
    unit = each * (priced.usd_per_gpu_hour or 0.0) if by_price else float(each)
    best = _cheapest(options, by_price)
    affordable = math.inf if math.isinf(best) else math.ceil(best / unit - 1e-9) - 1
    count = affordable - needs.spare_replicas
    if not rest or count < 1:
        return []
    if math.isinf(count):
        return capacities(priced, rest, needs, mixes=mixes)
    load = np.full(len(rest), replica_factor(needs, int(count)) / (1.0 - needs.headroom))
    passing = holds_at(priced.cost, priced.judged, configs_of(rest), load, mixes=mixes)
    better = [c for c, passed in zip(rest, passing, strict=True) if passed]
    return capacities(priced, better, needs, mixes=mixes)


def ties(
    all_priced: Sequence[Priced], best: Option, needs: Needs, *, mixes: bool, by_price: bool
) -> list[tuple[Option, int]]:
    """Return every candidate that costs what `best` costs and holds, with its margin's step.

    The step counts how many of MARGINS above the needed load it still passes: capacities within a
    step are the same to the model.
    """
    cost, gpus = best.expense(by_price)
    found: list[tuple[Option, int]] = []
    for priced in all_priced:
        candidates = priced.family.candidates
        each = candidates[0].deployment.gpus
        if gpus % each or abs(_cost(priced, gpus, by_price) - cost) > 1e-9:
            continue
        count = int(gpus) // each - needs.spare_replicas
        if count < 1:
            continue
        needed = replica_factor(needs, count) / (1.0 - needs.headroom)
        alive = list(range(len(candidates)))
        steps = [-1] * len(candidates)
        for level, margin in enumerate(MARGINS):
            members = [candidates[i] for i in alive]
            load = np.full(len(alive), needed * (1.0 + margin))
            passing = holds_at(priced.cost, priced.judged, configs_of(members), load, mixes=mixes)
            alive = [i for i, passed in zip(alive, passing, strict=True) if passed]
            for i in alive:
                steps[i] = level
            if not alive:
                break
        found += [
            (_known(candidates[i], priced, needed * (1.0 + MARGINS[steps[i]]), needs), steps[i])
            for i in range(len(candidates))
            if steps[i] >= 0
        ]
    return found


def _known(candidate: Candidate, priced: Priced, factor: float, needs: Needs) -> Option:
    """Return the option that is known to carry at least `factor`."""
    return option(candidate, priced, factor, needs)


def _cost(priced: Priced, gpus: float, by_price: bool) -> float:
    return gpus * (priced.usd_per_gpu_hour or 0.0) if by_price else gpus


def changes(deployment: Deployment, default: Deployment) -> int:
    """Return how many of the engine's own choices a deployment overrides."""
    names = (
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_model_len",
        "kv_cache_dtype",
        "expert_parallel",
        "gpu_memory_utilization",
    )
    return sum(getattr(deployment, name) != getattr(default, name) for name in names)


def choose(
    tied: Sequence[tuple[Option, int]],
    defaults: Mapping[str, Deployment],
    *,
    least_memory: bool = False,
) -> Option | None:
    """Return the option to recommend among those of least cost; None when there is none.

    With `least_memory` the least gpu_memory_utilization comes before everything else. Then the
    larger margin wins, in the steps of MARGINS; then fewer changes from the engine's defaults; then
    less tensor parallelism; then the smaller budget.
    """
    if not tied:
        return None
    return min(
        tied,
        key=lambda pair: (
            pair[0].candidate.deployment.gpu_memory_utilization if least_memory else 0.0,
            -pair[1],
            changes(pair[0].candidate.deployment, defaults[pair[0].candidate.deployment.gpu]),
            pair[0].candidate.deployment.tensor_parallel_size,
            pair[0].candidate.deployment.max_num_batched_tokens,
            pair[0].candidate.deployment.max_num_seqs,
        ),
    )[0]
