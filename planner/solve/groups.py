"""How the search came down to one configuration: every layout and dtype, and why it fell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.solve.candidates import Family
from planner.solve.case import Decision
from planner.solve.plan_search import SearchGroup, SearchTotals, Variant
from planner.solve.search import Priced, optimistic_cost
from planner.solve.verify import Tally
from planner.spec.deployment import Deployment


def search_groups(decision: Decision, found: Sequence[Family]) -> tuple[SearchGroup, ...]:
    """Return the groups of candidates that share GPU, layout and dtypes, cheapest at best first.

    A group is left out where throughput alone, without any latency target, already costs as much
    as the plan. Every other was asked at the counts that would be cheaper than the plan.
    """
    groups = [_group(decision, family) for family in found]
    return tuple(sorted(groups, key=lambda g: math.inf if g.least_gpus is None else g.least_gpus))


def _group(decision: Decision, family: Family) -> SearchGroup:
    case = decision.case
    some = family.candidates[0] if family.candidates else family.tightest
    deployment = some.deployment if some is not None else decision.deployment
    gpus = _least_gpus(decision, family)
    price = case.price(family.gpu)[0]
    return SearchGroup(
        gpu=family.gpu.id,
        tensor_parallel_size=deployment.tensor_parallel_size,
        pipeline_parallel_size=deployment.pipeline_parallel_size,
        expert_parallel=deployment.expert_parallel,
        gpu_memory_utilization=_share(family, deployment),
        weight_dtype=deployment.weight_dtype,
        kv_cache_dtype=deployment.kv_cache_dtype,
        candidates=len(family.candidates) + family.dropped,
        dropped=family.dropped,
        replayed=_replayed(decision, family),
        least_gpus=gpus,
        least_usd_per_hour=None if price is None or gpus is None else gpus * price,
        outcome=_outcome(decision, family, gpus),
    )


def _share(family: Family, some: Deployment) -> float | None:
    """Return the share of memory that every member gives the engine; None where they differ."""
    shares = {c.deployment.gpu_memory_utilization for c in family.candidates}
    shares = shares or {some.gpu_memory_utilization}
    return shares.pop() if len(shares) == 1 else None


def _replayed(decision: Decision, family: Family) -> int:
    """Return how many members were asked by replay."""
    asked = frozenset() if decision.confirmed is None else decision.confirmed.asked
    return sum(candidate.deployment in asked for candidate in family.candidates)


def search_totals(
    decision: Decision, groups: Sequence[SearchGroup], compared: Sequence[Variant]
) -> SearchTotals:
    """Return what the whole search asked, counted when everything else has been asked."""
    tally = Tally() if decision.confirmed is None else decision.confirmed.trial.tally
    alive = [g for g in groups if g.outcome in ("chosen", "misses_where_cheaper")]
    return SearchTotals(
        enumerated=sum(g.candidates for g in groups),
        fit=sum(g.candidates - g.dropped for g in groups),
        could_be_cheaper=sum(g.candidates - g.dropped for g in alive),
        replayed=sum(g.replayed for g in groups),
        replays=tally.replays,
        stopped_early=tally.stopped_early,
        requests=tally.requests,
        compared=sum(each.outcome != "cannot_win" and each.replays > 0 for each in compared),
        ruled_out=sum(each.outcome == "cannot_win" for each in compared),
    )


def _least_gpus(decision: Decision, family: Family) -> int | None:
    """Return the GPUs below which no member can carry the load, latency apart; None: no count."""
    if not family.candidates:
        return None
    priced = Priced(
        family=family,
        cost=decision.case.cost(family.widest),
        judged=decision.judged,
        usd_per_gpu_hour=None,
    )
    gpus = optimistic_cost(priced, decision.case.needs, by_price=False)
    return None if math.isinf(gpus) else round(gpus)


def _outcome(decision: Decision, family: Family, gpus: int | None) -> str:
    """Return what became of a group."""
    if not family.candidates:
        return "does_not_fit"
    if family.slower_everywhere:
        return "slower_everywhere"
    if decision.candidate in family.candidates:
        return "chosen"
    case = decision.case
    ours = (decision.replicas + case.slo.spare_replicas) * decision.deployment.gpus
    mine, plan = 1.0, 1.0
    if case.by_price:
        mine = case.price(family.gpu)[0] or 0.0
        plan = case.price(case.gpu(decision.deployment.gpu))[0] or 0.0
    if gpus is None or gpus * mine >= ours * plan - 1e-9:
        return "no_cheaper_at_best"
    return "misses_where_cheaper"
