"""Share or split: one pool for every class, against pools of their own, at the same targets.

Each way of splitting is first given the fleet that throughput alone would need in the windows that
decide the shared plan, pool by pool. Where that already costs as much as sharing, the answer is
known; elsewhere every pool is solved and replayed like a plan, if that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from planner.profile.profile import profile_requests
from planner.sim.load import subset
from planner.solve.candidates import Family
from planner.solve.capacity import Judged
from planner.solve.case import Case, Decision
from planner.solve.demand import SCREEN_SAMPLE
from planner.solve.plan_search import Pool, Sharing, Split
from planner.solve.search import Priced, optimistic_cost
from planner.solve.stretch import stretch_of
from planner.solve.traffic import Traffic

Choose = Callable[[Case], Decision | None]
Names = tuple[str, ...]

SAME = 1e-9  # of a cost


def share_or_split(
    decision: Decision, found: Sequence[Family], choose: Choose | None
) -> Sharing | None:
    """Return what pools of their own would cost; None where fewer than two classes have targets.

    Parameters
    ----------
    decision
        The shared plan.
    found
        Everything enumerated for it.
    choose
        Solves a case by replay, None where nothing holds; without it equations alone speak.
    """
    names = _with_targets(decision.case)
    if len(names) < 2:
        return None
    ours = _cost(decision)
    solved: dict[Names, Decision | None] = {}
    bounds: dict[Names, float] = {}
    splits = []
    for pools in partitions(names):
        for pool in pools:
            if pool not in bounds:
                bounds[pool] = _least(decision, found, pool)
        splits.append(_split(decision, pools, bounds, ours, choose, solved))
    return Sharing(
        shared_gpus=(decision.replicas + decision.case.slo.spare_replicas)
        * decision.deployment.gpus,
        shared_usd_per_hour=ours if decision.case.by_price else None,
        splits=tuple(splits),
        cheapest=_cheapest(splits),
    )


def partitions(names: Names) -> Iterator[tuple[Names, ...]]:
    """Yield each class apart from the rest, and every class apart.

    >>> list(partitions(("chat", "batch")))
    [(('chat',), ('batch',))]
    >>> [len(pools) for pools in partitions(("chat", "rag", "batch"))]
    [2, 2, 2, 3]
    """
    if len(names) > 2:
        for name in names:
            yield (name,), tuple(other for other in names if other != name)
    yield tuple((name,) for name in names)


def _split(
    decision: Decision,
    pools: tuple[Names, ...],
    bounds: dict[Names, float],
    ours: float,
    choose: Choose | None,
    solved: dict[Names, Decision | None],
) -> Split:
    """Return one way of splitting: ruled out, left, or solved."""
    least = sum(bounds[pool] for pool in pools)
    if least >= ours * (1.0 - SAME):
        return _made(decision, pools, bounds, {}, "no_cheaper_at_best")
    if choose is None:
        return _made(decision, pools, bounds, {}, "not_asked")
    for pool in pools:
        if pool not in solved:
            solved[pool] = choose(pool_case(decision.case, pool))
    if any(solved[pool] is None for pool in pools):
        return _made(decision, pools, bounds, solved, "misses")
    cost = sum(_cost(made) for pool in pools if (made := solved[pool]) is not None)
    cheaper = cost < ours * (1.0 - SAME)
    return _made(decision, pools, bounds, solved, "cheaper" if cheaper else "no_cheaper")


def _made(
    decision: Decision,
    pools: tuple[Names, ...],
    bounds: dict[Names, float],
    solved: dict[Names, Decision | None],
    outcome: str,
) -> Split:
    by_price = decision.case.by_price
    rows = tuple(_pool(pool, bounds[pool], solved.get(pool), by_price) for pool in pools)
    known = all(row.gpus is not None for row in rows)
    usd = [row.usd_per_hour for row in rows if row.usd_per_hour is not None]
    least = sum(bounds[pool] for pool in pools)
    return Split(
        pools=rows,
        outcome=outcome,
        gpus=sum(row.gpus or 0 for row in rows) if known else None,
        usd_per_hour=sum(usd) if known and by_price else None,
        least_gpus=None if by_price or math.isinf(least) else round(least),
        least_usd_per_hour=least if by_price and math.isfinite(least) else None,
    )


def _pool(classes: Names, least: float, made: Decision | None, by_price: bool) -> Pool:
    bound = None if math.isinf(least) else least
    if made is None:
        return Pool(
            classes=classes,
            deployment=None,
            replicas=None,
            gpus=None,
            usd_per_hour=None,
            least_gpus=None if by_price or bound is None else round(bound),
            least_usd_per_hour=bound if by_price else None,
        )
    replicas = made.replicas + made.case.slo.spare_replicas
    return Pool(
        classes=classes,
        deployment=made.deployment,
        replicas=replicas,
        gpus=replicas * made.deployment.gpus,
        usd_per_hour=_cost(made) if by_price else None,
        least_gpus=None if by_price or bound is None else round(bound),
        least_usd_per_hour=bound if by_price else None,
    )


def _cheapest(splits: Sequence[Split]) -> int | None:
    """Return the place of the cheapest split that is cheaper than sharing."""
    better = [i for i, split in enumerate(splits) if split.outcome == "cheaper"]
    return min(better, key=lambda i: _expense(splits[i]), default=None)


def _expense(split: Split) -> float:
    return split.usd_per_hour if split.usd_per_hour is not None else float(split.gpus or 0)


def pool_case(case: Case, names: Names) -> Case:
    """Return the case of a pool that serves some classes, with their targets and requests alone.

    Requests of classes without targets go with the pool of the first class that has some.
    """
    served = _served(case, names)
    keep = np.isin(case.requests.class_id, served)
    requests = subset(case.requests, keep)
    classes = tuple(each for each in case.slo.classes if each.name in names)
    return replace(
        case,
        slo=replace(case.slo, classes=classes),
        requests=requests,
        profile=profile_requests(requests),
        correction=1.0,
    )


def _served(case: Case, names: Names) -> list[int]:
    """Return the ids of the classes that a pool serves."""
    targeted = _with_targets(case)
    wanted = set(names)
    if targeted[0] in wanted:
        wanted |= set(case.requests.class_names) - set(targeted)
    return [i for i, name in enumerate(case.requests.class_names) if name in wanted]


def _with_targets(case: Case) -> Names:
    """Return the classes that have targets and requests, as declared."""
    present = {case.requests.class_names[i] for i in np.unique(case.requests.class_id)}
    return tuple(c.name for c in case.slo.classes if c.targets and c.name in present)


def _cost(decision: Decision) -> float:
    """Return $/h of a fleet, or its GPUs where a price is missing."""
    case = decision.case
    gpus = (decision.replicas + case.slo.spare_replicas) * decision.deployment.gpus
    price = case.price(case.gpu(decision.deployment.gpu))[0] if case.by_price else 1.0
    return gpus * (price or 0.0)


def _least(decision: Decision, found: Sequence[Family], names: Names) -> float:
    """Return a cost below which no pool of these classes can come, by throughput alone."""
    case = decision.case
    judged = tuple(_judged(decision, span, names) for span in decision.demand.spans)
    costs = [
        optimistic_cost(
            Priced(
                family=family,
                cost=case.cost(family.widest),
                judged=judged,
                usd_per_gpu_hour=case.price(family.gpu)[0],
            ),
            case.needs,
            case.by_price,
        )
        for family in found
        if family.candidates
    ]
    return min(costs, default=math.inf)


def _judged(decision: Decision, span: tuple[float, float], names: Names) -> Judged:
    """Return a stretch of the trace with the traffic of some classes alone."""
    demand = decision.demand
    served = _served(decision.case, names)
    traffic = _only(demand.traffic, served)
    windows = [w for w in demand.windows if w.class_id in served]
    stretch = stretch_of(traffic, windows, start_s=span[0], end_s=span[1], per_window=SCREEN_SAMPLE)
    return Judged(stretch=stretch, checks=())


def _only(traffic: Traffic, served: Sequence[int]) -> Traffic:
    """Return the traffic of some classes, on the same clock."""
    keep = np.isin(traffic.class_id, served)
    return replace(
        traffic,
        arrival_s=traffic.arrival_s[keep],
        input_tokens=traffic.input_tokens[keep],
        prompt_tokens=traffic.prompt_tokens[keep],
        output_tokens=traffic.output_tokens[keep],
        class_id=traffic.class_id[keep],
        served=traffic.served[keep],
    )
