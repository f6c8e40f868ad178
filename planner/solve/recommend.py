"""solve(): from the inputs to a Plan. Screens by equations, chooses, then explains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from planner.errors import InfeasibleError
from planner.perf.cost import usd_per_hour, usd_per_million_tokens, usd_per_month
from planner.perf.step_cost import StepCost
from planner.solve.alternatives import alternatives, first_miss
from planner.solve.candidates import Candidate, Family, default_deployment, families
from planner.solve.capacity import Configs, Judged, capacity_factors, throughput_bound
from planner.solve.case import Case, Decision
from planner.solve.chunk import chunk_analysis
from planner.solve.concurrency import concurrency
from planner.solve.demand import Demand, in_detail, with_spans
from planner.solve.estimate import estimate
from planner.solve.evidence import NOT_MODELLED, evidence
from planner.solve.expected import latency_rows
from planner.solve.fleet import exact_replicas, for_load, replica_factor
from planner.solve.infeasible import nothing_fits, nothing_holds, nothing_practical
from planner.solve.plan import (
    Cost,
    Count,
    IngestSummary,
    LatencyRow,
    Plan,
    Provenance,
    ReplicaTerms,
    SearchStage,
)
from planner.solve.remarks import remarks
from planner.solve.remarks_engine import Parts
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
from planner.solve.sensitivity import sensitivities, step_time_band
from planner.solve.steady import lanes
from planner.solve.surge import surge
from planner.spec.launch import launch_argv

SCHEMA_VERSION = "1"
IMPRACTICAL_SHARE = 0.01  # of a replica's stable throughput: below, a plan is a waste of GPUs
ROUNDS = 6  # times the whole trace may reveal windows harder than those searched
SPAN_SLACK = 1.15  # windows whose capacity is this close to the least stay in the search
TOLERATED = 0.03  # of the allowance: windows that differ only by which requests were sampled

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the plan repeats but the solver does not read."""

    name: str
    ingest: IngestSummary
    slo: Mapping[str, object]
    warnings: tuple[str, ...]
    provenance: Provenance


def solve(case: Case, context: Context, progress: Progress = lambda _: None) -> Plan:
    """Return the recommendation.

    Parameters
    ----------
    case
        Model, engine, GPUs, targets and traffic.
    context
        What the plan carries along: how the trace was read, what was declared, provenance.
    progress
        Called with what is being done.

    Raises
    ------
    InfeasibleError
        The model fits on none of the GPUs, or no configuration meets the targets at any load.
    """
    progress("enumerating configurations")
    found = _enumerate(case, pipelines=False)
    if not any(family.candidates for family in found):
        raise nothing_fits(case, found)
    progress("searching for the cheapest that holds")
    try:
        decision, options = decide(case, _fitting(found), progress)
    except InfeasibleError as error:
        wider = _enumerate(case, pipelines=True)
        if len(wider) == len(found):
            raise
        progress("nothing holds, trying pipeline stages")
        found = wider
        try:
            decision, options = decide(case, _fitting(found), progress)
        except InfeasibleError:
            raise error from None
    progress("explaining")
    return _plan(decision, options, found, context)


def _enumerate(case: Case, *, pipelines: bool) -> tuple[Family, ...]:
    return tuple(
        family
        for gpu in case.gpus
        for family in families(
            case.model, gpu, case.engine, case.slo, case.longest_tokens, pipelines=pipelines
        )
    )


def _fitting(found: tuple[Family, ...]) -> tuple[Family, ...]:
    return tuple(family for family in found if family.candidates)


def decide(
    case: Case, fitting: tuple[Family, ...], progress: Progress
) -> tuple[Decision, list[Option]]:
    """Return the decision and every option whose capacity was computed.

    Where the trace shows prefix reuse, a first pass without it gives the replica count that the
    reuse is then computed for: more replicas share less.
    """
    decision, options = _decide(case, fitting, lambda _: 0.0, progress)
    if case.profile.total.reuse is None:
        return decision, options
    load = decision.load
    return _decide(case, fitting, lambda kv_tokens: case.cached(kv_tokens, load), progress)


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
            chosen = choose(tied, defaults) or best
            key = _key(chosen.priced.family, cached)
            decision, found = _judge_whole(case, chosen, demands[key], key[1])
            if not found:
                _check_practical(decision, chosen)
                return decision, options
            progress("a harder window was found, searching again")
        for key, demand in list(demands.items()):
            kept = demand.spans if turn else ()
            spans = sorted({*kept, *found} or set(demand.spans))
            demands[key] = with_spans(demand, case.slo, spans)
    return decision, options


def _check_practical(decision: Decision, chosen: Option) -> None:
    """Raise where the plan holds only because its replicas hardly work."""
    bound = min(
        float(throughput_bound(decision.cost, part.stretch, decision.configs)[0])
        for part in decision.judged
    )
    share = decision.factor / bound
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


def _plan(
    decision: Decision, options: list[Option], found: tuple[Family, ...], context: Context
) -> Plan:
    case, deployment = decision.case, decision.deployment
    at_load = estimate(
        decision.cost,
        decision.whole.stretch,
        decision.at(),
        (),
        mixes=case.mixes,
    )
    latency = latency_rows(decision, at_load.waits)
    binding = _binding_stretch(decision, latency)
    faster, slower = step_time_band(decision)
    chunk = chunk_analysis(decision, binding, _mean_prompt(decision, latency))
    flood = surge(decision)
    kv = concurrency(decision)
    spare = case.slo.spare_replicas
    replicas = Count(value=decision.replicas + spare, low=faster + spare, high=slower + spare)
    each = deployment.gpus
    gpu = case.gpu(deployment.gpu)
    parts = Parts(
        decision=decision,
        binding=binding,
        latency=latency,
        chunk=chunk,
        surge=flood,
        concurrency=kv,
    )
    return Plan(
        schema_version=SCHEMA_VERSION,
        name=context.name,
        gpu_name=gpu.name,
        model_name=case.model.id,
        deployment=deployment,
        launch=launch_argv(deployment, case.engine, case.model),
        replicas=replicas,
        gpus=Count(value=replicas.value * each, low=replicas.low * each, high=replicas.high * each),
        cost=_cost(decision, replicas.value * each),
        verified="closed_form",
        latency=latency,
        chunk=chunk,
        surge=flood,
        concurrency=kv,
        replica_terms=_terms(decision, binding, (faster, slower)),
        ingest=context.ingest,
        profile=case.profile,
        slo=context.slo,
        defaulted=case.slo.defaulted,
        alternatives=alternatives(decision, options),
        sensitivity=sensitivities(decision, (faster, slower)),
        findings=remarks(parts),
        search=_stages(found, options),
        evidence=evidence(decision),
        not_modelled=NOT_MODELLED,
        warnings=context.warnings,
        provenance=context.provenance,
    )


def _binding_stretch(decision: Decision, latency: tuple[LatencyRow, ...]) -> Judged:
    """Return the judged stretch in which the plan comes closest to failing."""
    shortfall = []
    for part in decision.judged:
        found = estimate(
            decision.cost, part.stretch, decision.at(), part.checks, mixes=decision.case.mixes
        )
        required = np.array([check.required for check in part.checks])
        missing = (1.0 - found.attainment[0]) / (1.0 - required + 1e-9)
        shortfall.append(float(missing.max(initial=0.0)))
    del latency
    return decision.judged[int(np.argmax(shortfall))]


def _mean_prompt(decision: Decision, latency: tuple[LatencyRow, ...]) -> float:
    """Return the mean prompt of the class that binds."""
    name = next((row.class_name for row in latency if row.binds), None)
    traffic = decision.demand.traffic
    mine = traffic.prompt_tokens
    if name is not None:
        mine = mine[traffic.class_id == traffic.class_names.index(name)]
    return float(mine.mean()) if len(mine) else 1.0


def _terms(decision: Decision, binding: Judged, band: tuple[int, int]) -> ReplicaTerms:
    """Return demand to replicas, term by term, in the rate of the binding stretch."""
    case, needs = decision.case, decision.case.needs
    span = binding.stretch.end_s - binding.stretch.start_s
    arrival = decision.demand.traffic.arrival_s
    end = (
        binding.stretch.end_s if binding.stretch.end_s < decision.demand.traffic.span_s else np.inf
    )
    first, last = np.searchsorted(arrival, [binding.stretch.start_s, end])
    rate = float(last - first) / span
    width = max(band[1] - decision.replicas, decision.replicas - band[0]) / decision.replicas
    return ReplicaTerms(
        peak_requests_per_s=rate / needs.sample_rate,
        growth=needs.growth,
        headroom=needs.headroom,
        capacity_requests_per_s=rate * decision.factor,
        exact=exact_replicas(needs, decision.factor),
        for_load=decision.replicas,
        spare=case.slo.spare_replicas,
        band_terms={"step_time": decision.cost.band, "replicas_from_step_time": width},
    )


def _cost(decision: Decision, gpus: int) -> Cost:
    case = decision.case
    price, source = case.price(case.gpu(decision.deployment.gpu))
    if price is None:
        return Cost(
            usd_per_gpu_hour=None,
            price_source=source,
            usd_per_hour=None,
            usd_per_month=None,
            usd_per_million_tokens_mean=None,
            usd_per_million_tokens_peak=None,
        )
    hour = usd_per_hour(gpus, price)
    mean, peak = _token_rates(decision)
    return Cost(
        usd_per_gpu_hour=price,
        price_source=source,
        usd_per_hour=hour,
        usd_per_month=usd_per_month(hour),
        usd_per_million_tokens_mean=usd_per_million_tokens(hour, mean),
        usd_per_million_tokens_peak=usd_per_million_tokens(hour, peak),
    )


def _token_rates(decision: Decision) -> tuple[float, float]:
    """Return input + output tokens/s of the fleet: mean, and in the busiest evaluation window."""
    traffic, needs = decision.demand.traffic, decision.case.needs
    tokens = np.concatenate([[0.0], np.cumsum(traffic.input_tokens + traffic.output_tokens)])
    mean = float(tokens[-1]) / traffic.span_s
    window = min(decision.case.slo.evaluation_window_s, traffic.span_s)
    edges = np.arange(0.0, traffic.span_s + 1e-9, window)
    places = np.searchsorted(traffic.arrival_s, [*edges, np.inf])
    sums = np.diff(tokens[places])[: max(1, int(traffic.span_s // window))]
    return mean * needs.fleet_factor, float(sums.max()) / window * needs.fleet_factor


def _stages(found: tuple[Family, ...], options: list[Option]) -> tuple[SearchStage, ...]:
    """Return how many candidates entered and left each stage."""
    fit = sum(len(family.candidates) for family in found)
    dropped = sum(family.dropped for family in found)
    holding = sum(option.replicas is not None for option in options)
    return (
        SearchStage(
            stage="enumerated",
            candidates=fit + dropped,
            dropped=dropped,
            reasons={"does_not_fit": dropped} if dropped else {},
        ),
        SearchStage(
            stage="fits_memory",
            candidates=fit,
            dropped=fit - len(options),
            reasons={"costs_more": fit - len(options)} if fit > len(options) else {},
        ),
        SearchStage(
            stage="meets_targets",
            candidates=len(options),
            dropped=len(options) - holding,
            reasons={"violates": len(options) - holding} if len(options) > holding else {},
        ),
    )


__all__ = ["Candidate", "Context", "InfeasibleError", "solve"]
