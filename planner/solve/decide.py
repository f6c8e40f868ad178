"""The decision: which configuration, how many replicas, and the windows that decide it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.errors import InfeasibleError
from planner.perf.step_cost import StepCost
from planner.solve.alternatives import first_miss
from planner.solve.candidates import Family, default_deployment
from planner.solve.capacity import Configs, capacity_factors, throughput_bound
from planner.solve.case import Case, Decision
from planner.solve.demand import Demand, in_detail, with_spans
from planner.solve.estimate import estimate
from planner.solve.fleet import for_load, replica_factor
from planner.solve.infeasible import nothing_holds, nothing_practical
from planner.solve.search import (
    Option,
    Priced,
    choose,
    configs_of,
    optimistic_cost,
    search,
    seeds,
    ties,
)
from planner.solve.steady import lanes

IMPRACTICAL_SHARE = 0.02  # of a replica's stable throughput: below, a plan is a waste of GPUs
ROUNDS = 6  # times the whole trace may reveal windows harder than those searched
SPAN_SLACK = 1.15  # windows whose capacity is this close to the least stay in the search
TOLERATED = 0.03  # of the allowance: windows that differ only by which requests were sampled

Progress = Callable[[str], None]


def decide(
    case: Case, fitting: tuple[Family, ...], progress: Progress
) -> tuple[Decision, list[Option]]:
    """Return the decision and every option whose capacity was computed.

    Where the trace shows prefix reuse, a first pass without it gives the replica count that the
    reuse is then computed for: more replicas share less. Where nothing holds without it, one
    replica's share is the start.
    """
    if case.profile.total.reuse is None:
        return _decide(case, fitting, lambda _: 0.0, progress)
    try:
        first, _ = _decide(case, fitting, lambda _: 0.0, progress)
    except InfeasibleError:
        alone = case.needs.fleet_factor
        first, _ = _decide(case, fitting, lambda kv: case.cached(kv, alone), progress)
    load = first.load
    return _decide(case, fitting, lambda kv: case.cached(kv, load), progress)


def _decide(
    case: Case, fitting: tuple[Family, ...], cached: Callable[[float], float], progress: Progress
) -> tuple[Decision, list[Option]]:
    demands: dict[tuple[int, float], Demand] = {}
    for family in fitting:
        key = _key(family, cached)
        if key not in demands:
            demands[key] = case.demand(*key)
    costs = [case.cost(family.widest) for family in fitting]
    defaults = {
        f.gpu.id: default_deployment(case.model, f.gpu, case.engine, f.candidates[0].deployment)
        for f in fitting
    }
    needs, mixes, by_price = case.needs, case.mixes, case.by_price
    several = len(case.slo.gpu_memory_utilization) > 1
    found: list[tuple[float, float]] = []
    for turn in range(ROUNDS):
        priced = [
            Priced(
                family=family,
                cost=cost,
                judged=demands[_key(family, cached)].judged,
                usd_per_gpu_hour=case.price(family.gpu)[0],
            )
            for family, cost in zip(fitting, costs, strict=True)
        ]
        if turn == 0:
            found = _hardest(case, priced, demands, cached)
        else:
            options = search(priced, needs, mixes=mixes, by_price=by_price)
            holding = [o for o in options if o.replicas is not None]
            if not holding:
                raise nothing_holds(case, options)
            best = min(holding, key=lambda o: o.expense(by_price))
            tied = ties(priced, best, needs, mixes=mixes, by_price=by_price)
            chosen = choose(tied, defaults, least_memory=several) or best
            key = _key(chosen.priced.family, cached)
            decision, found = _judge_whole(case, chosen, demands[key], key[1])
            if not found:
                check_practical(decision, chosen)
                return decision, options
            progress("a harder window was found, searching again")
        for key, demand in list(demands.items()):
            kept = demand.spans if turn else ()
            spans = sorted({*kept, *found} or set(demand.spans))
            demands[key] = with_spans(demand, case.slo, spans)
    return decision, options


def check_practical(decision: Decision, chosen: Option) -> None:
    """Raise an InfeasibleError where the plan holds only because its replicas hardly work.

    Even at its fullest moment a replica then carries next to nothing: traffic that comes all at
    once and leaves them idle for the rest of the hour is a good reason for many. One replica is the
    least there can be: where it holds, it may be as idle as the traffic is.
    """
    if decision.replicas == 1:
        return
    share = decision.factor * max(
        part.stretch.peak_over_mean
        / float(throughput_bound(decision.cost, part.stretch, decision.configs)[0])
        for part in decision.judged
    )
    if share < IMPRACTICAL_SHARE:
        fewer = max(1, decision.replicas // 2)
        miss = first_miss(decision, chosen.candidate, fewer)
        raise nothing_practical(chosen, decision.replicas, share, miss)


def _hardest(
    case: Case,
    priced: list[Priced],
    demands: dict[tuple[int, float], Demand],
    cached: Callable[[float], float],
) -> list[tuple[float, float]]:
    """Return the windows that bind for a usual configuration, found by judging the whole trace.

    Its capacity in the windows that look hardest is tried on all of them; windows where that fails
    lower it, until none does.
    """
    needs, by_price = case.needs, case.by_price
    first = min(priced, key=lambda each: optimistic_cost(each, needs, by_price))
    candidate = seeds(first.family.candidates)[0]
    demand = demands[_key(first.family, cached)]
    configs = configs_of([candidate])
    judged, spans = demand.judged, list(demand.spans)
    capacity: dict[tuple[float, float], float] = {}
    for _ in range(ROUNDS):
        for span, part in zip(spans, judged, strict=True):
            if span not in capacity:
                factor = capacity_factors(first.cost, [part], configs, mixes=case.mixes)
                capacity[span] = float(factor[0])
        least = min(capacity.values())
        if least <= 0.0:
            break
        failing = _failing(case, first.cost, configs, demand, least)
        new = [span for span in failing if span not in capacity]
        if not new:
            break
        extra = with_spans(demand, case.slo, new)
        judged, spans = extra.judged, list(extra.spans)
    least = min(capacity.values())
    return [span for span, factor in capacity.items() if factor <= least * SPAN_SLACK]


def _failing(
    case: Case, cost: StepCost, configs: Configs, demand: Demand, factor: float
) -> list[tuple[float, float]]:
    """Return spans of the windows, worst two first, in which a load does not hold."""
    at = lanes(
        np.float64(factor), configs.max_num_batched_tokens, configs.max_num_seqs, configs.kv_tokens
    )
    everything = demand.whole
    found = estimate(cost, everything.stretch, at, everything.checks, mixes=case.mixes)
    failing: dict[tuple[float, float], float] = {}
    for index, check in enumerate(everything.checks):
        window = everything.stretch.windows[check.window]
        span = (window.start_s, window.end_s)
        missed = (1.0 - float(found.attainment[0, index])) / (1.0 - check.required)
        if missed > 1.0 + TOLERATED:
            failing[span] = max(failing.get(span, 0.0), missed)
    return sorted(failing, key=lambda span: -failing[span])[:2]


def _key(family: Family, cached: Callable[[float], float]) -> tuple[int, float]:
    """Return what decides a family's demand: the longest request served and the prefix cache."""
    kv_tokens = max(candidate.memory.kv_tokens for candidate in family.candidates)
    return family.served_tokens, round(cached(float(kv_tokens)), 3)


def _judge_whole(
    case: Case, chosen: Option, demand: Demand, cached: float
) -> tuple[Decision, list[tuple[float, float]]]:
    """Return the decision for an option, and the spans of windows in which it does not hold."""
    candidate = chosen.candidate
    cost, configs = case.cost(candidate.deployment), configs_of([candidate])
    judged = in_detail(demand, case.slo)
    factor = float(capacity_factors(cost, judged, configs, mixes=case.mixes)[0])
    count = for_load(case.needs, factor)
    if count is None:
        raise nothing_holds(case, [chosen])
    decision = Decision(
        case=case,
        candidate=candidate,
        cost=cost,
        demand=demand,
        judged=judged,
        whole=demand.whole,
        cached=cached,
        factor=factor,
        replicas=count,
    )
    load = replica_factor(case.needs, count) / (1.0 - case.needs.headroom)
    failing = _failing(case, cost, configs, demand, load)
    return decision, [span for span in failing if span not in demand.spans]
