"""solve(): from the inputs to a Plan. Screens by equations, chooses, then explains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.errors import InfeasibleError
from planner.solve import pools
from planner.solve.alternatives import alternatives
from planner.solve.batch_map import batch_map
from planner.solve.candidates import Family, families
from planner.solve.capacity import Judged
from planner.solve.case import Case, Decision
from planner.solve.chunk import chunk_analysis
from planner.solve.concurrency import concurrency
from planner.solve.confirm import confirm
from planner.solve.decide import Progress, decide
from planner.solve.estimate import estimate
from planner.solve.evidence import evidence, not_modelled
from planner.solve.expected import latency_rows
from planner.solve.fleet import exact_replicas
from planner.solve.groups import search_groups, search_totals
from planner.solve.infeasible import TargetsError, nothing_fits, too_long
from planner.solve.load_test import load_test
from planner.solve.margin_words import with_margins
from planner.solve.moved import one_fewer, replayed_sensitivities
from planner.solve.nearest import keeps_no_limit, nearest_limits, nearest_sentence
from planner.solve.plan import (
    Count,
    IngestSummary,
    LatencyRow,
    Miss,
    Plan,
    Provenance,
    ReplicaTerms,
    Sensitivity,
)
from planner.solve.plan_search import Sharing
from planner.solve.priority import by_priority
from planner.solve.refuted import with_misses
from planner.solve.remarks import remarks
from planner.solve.remarks_engine import Parts
from planner.solve.replayed import CountBand, count_band, gpu_count, replayed_rows
from planner.solve.search import Option
from planner.solve.sensitivity import sensitivities, step_time_band
from planner.solve.slower import without_slower
from planner.solve.spending import cost_at_load, cost_of, turned_away
from planner.solve.surge import surge
from planner.solve.unfinished import unfinished
from planner.solve.variants import variants
from planner.solve.windows import window_label
from planner.spec.launch import launch_argv

SCHEMA_VERSION = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the plan repeats but the solver does not read."""

    name: str
    ingest: IngestSummary
    slo: Mapping[str, object]
    warnings: tuple[str, ...]
    provenance: Provenance


def solve(
    case: Case,
    context: Context,
    progress: Progress = lambda _: None,
    *,
    share_or_split: bool = False,
) -> Plan:
    """Return the recommendation.

    Parameters
    ----------
    case
        Model, engine, GPUs, targets and traffic.
    context
        What the plan carries along: how the trace was read, what was declared, provenance.
    progress
        Called with what is being done.
    share_or_split
        Solve pools of their own for classes where equations do not rule out that they are cheaper.

    Raises
    ------
    InfeasibleError
        The model fits on none of the GPUs, or no configuration meets the targets at any load.
    StoppedError
        Ctrl-C; says what was found so far.
    """
    so_far: list[Option] = []
    try:
        decision, options, found = chosen(case, progress, so_far.append)
        progress("explaining")
        choose = _pool_chooser(progress) if share_or_split else None
        sharing = pools.share_or_split(decision, found, choose)
        if sharing is not None:
            third = by_priority(decision, found, ask=share_or_split)
            sharing = replace(sharing, priority=third)
        return _plan(decision, options, found, context, sharing)
    except KeyboardInterrupt:
        raise unfinished(case, so_far) from None
    except TargetsError as error:
        raise _explained(case, error, progress) from None


def _explained(case: Case, error: TargetsError, progress: Progress) -> InfeasibleError:
    """Return the error with what would hold, by the rule that finds a plan."""
    found = _enumerate(case, pipelines=False)
    progress("looking for the nearest limits that hold")

    def screen(other: Case) -> Decision:
        return _decided(other, found, lambda _: None)[0]

    def confirmed(other: Case) -> Decision:
        return chosen(other)[0]

    if keeps_no_limit(case, screen):
        return too_long(case, _fitting(_enumerate(case, pipelines=True))) or error
    nearest = nearest_limits(case, screen, confirmed)
    if nearest is None:
        return error
    first_line = str(error).split("\n", maxsplit=1)[0]
    return InfeasibleError(first_line, nearest=nearest_sentence(case, nearest))


def chosen(
    case: Case,
    progress: Progress = lambda _: None,
    note: Callable[[Option], None] = lambda _: None,
) -> tuple[Decision, list[Option], tuple[Family, ...]]:
    """Return the decision, the options it was chosen from, and everything enumerated.

    Parameters
    ----------
    case
        Model, engine, GPUs, targets and traffic.
    progress
        Called with what is being done.
    note
        Called with the best option by replay as often as it changes.

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
    decision, options, found = _decided(case, found, progress)
    decision, replayed = confirm(decision, _fitting(found), progress, note)
    return decision, [*options, *replayed], found


def _decided(
    case: Case, found: tuple[Family, ...], progress: Progress
) -> tuple[Decision, list[Option], tuple[Family, ...]]:
    """Return the equations' choice, and pipeline stages enumerated where only they hold."""
    try:
        return *decide(case, _fitting(found), progress), found
    except InfeasibleError as error:
        wider = _enumerate(case, pipelines=True)
        if len(wider) == len(found):
            raise
        progress("nothing holds, trying pipeline stages")
        try:
            return *decide(case, _fitting(wider), progress), wider
        except InfeasibleError:
            raise error from None


def _pool_chooser(progress: Progress) -> pools.Choose:
    """Return what solves the case of one pool; None where nothing holds."""

    def choose(case: Case) -> Decision | None:
        names = ", ".join(each.name for each in case.slo.classes)
        progress(f"solving a pool for {names}")
        try:
            return chosen(case)[0]
        except InfeasibleError:
            return None

    return choose


def _enumerate(case: Case, *, pipelines: bool) -> tuple[Family, ...]:
    found = tuple(
        family
        for gpu in case.gpus
        for family in families(
            case.model, gpu, case.engine, case.slo, case.longest_tokens, pipelines=pipelines
        )
    )
    return without_slower(case, found)


def _fitting(found: tuple[Family, ...]) -> tuple[Family, ...]:
    return tuple(f for f in found if f.candidates and not f.slower_everywhere)


def _plan(
    decision: Decision,
    options: list[Option],
    found: tuple[Family, ...],
    context: Context,
    sharing: Sharing | None,
) -> Plan:
    case, deployment = decision.case, decision.deployment
    fewer = one_fewer(decision)
    latency, band = _latency(decision, fewer), _band(decision)
    binding = _binding_stretch(decision, latency, fewer)
    pairs = batch_map(decision, binding, found)
    cells = () if pairs is None else pairs.cells
    others = with_margins(alternatives(decision, options), deployment, cells)
    chunk = with_misses(
        chunk_analysis(decision, binding, _mean_prompt(decision, latency)),
        deployment,
        (decision.replicas + case.slo.spare_replicas) * deployment.gpus,
        cells,
        others,
    )
    flood = surge(decision)
    kv = concurrency(decision)
    spare = case.slo.spare_replicas
    replicas = Count(
        value=decision.replicas + spare,
        low=band.low + spare,
        high=None if band.high is None else band.high + spare,
    )
    gpus = gpu_count(decision, replicas)
    gpu = case.gpu(deployment.gpu)
    parts = Parts(
        decision=decision,
        binding=binding,
        latency=latency,
        chunk=chunk,
        surge=flood,
        concurrency=kv,
    )
    moved, groups = _sensitivity(decision), search_groups(decision, found)
    beside = variants(decision)
    terms, findings = _terms(decision, binding, band, fewer), remarks(parts)
    return Plan(
        schema_version=SCHEMA_VERSION,
        name=context.name,
        gpu_name=gpu.name,
        model_name=case.model.id,
        deployment=deployment,
        launch=launch_argv(deployment, case.engine, case.model),
        replicas=replicas,
        gpus=gpus,
        cost=cost_of(decision, gpus.value),
        cost_at_load=cost_at_load(decision, chunk, gpus.value),
        verified="closed_form" if decision.confirmed is None else "replay",
        latency=latency,
        chunk=chunk,
        batch_map=pairs,
        surge=flood,
        concurrency=kv,
        replica_terms=terms,
        load_test=load_test(decision, terms, latency, findings),
        ingest=context.ingest,
        profile=case.profile,
        slo=context.slo,
        defaulted=case.slo.defaulted,
        alternatives=others,
        sensitivity=moved,
        findings=findings,
        search=groups,
        search_totals=search_totals(decision, groups, beside),
        sharing=sharing,
        variants=beside,
        evidence=evidence(decision),
        not_modelled=not_modelled(decision),
        warnings=(*turned_away(decision), *context.warnings),
        provenance=context.provenance,
    )


def _latency(decision: Decision, fewer: Miss | None) -> tuple[LatencyRow, ...]:
    """Return every target with what is expected of it, replayed where replay has spoken."""
    if decision.confirmed is not None:
        return replayed_rows(decision, decision.confirmed, fewer)
    found = estimate(
        decision.cost, decision.whole.stretch, decision.at(), (), mixes=decision.case.mixes
    )
    return latency_rows(decision, found.waits)


def _band(decision: Decision) -> CountBand:
    """Return the band of the replica count."""
    if decision.confirmed is not None:
        return count_band(decision, decision.confirmed)
    low, high = step_time_band(decision)
    width = max(high - decision.replicas, decision.replicas - low) / decision.replicas
    return CountBand(
        low=low, high=high, terms={"step_time": width}, counts={"step_time": (low, high)}
    )


def _sensitivity(decision: Decision) -> tuple[Sensitivity, ...]:
    """Return what would change the count, asked by replay where replay has spoken."""
    if decision.confirmed is not None:
        return replayed_sensitivities(decision, decision.confirmed)
    return sensitivities(decision, step_time_band(decision))


def _binding_stretch(
    decision: Decision, latency: tuple[LatencyRow, ...], fewer: Miss | None
) -> Judged:
    """Return the judged stretch in which one replica fewer fails, else the binding row's.

    Where neither was judged, the one that comes closest to failing by the equations.
    """
    window = next((row.worst_window for row in latency if row.binds), "")
    if fewer is not None:
        window = fewer.window
    shortfall = []
    for part in decision.judged:
        if _label(decision, part) == window:
            return part
        found = estimate(
            decision.cost, part.stretch, decision.at(), part.checks, mixes=decision.case.mixes
        )
        required = np.array([check.required for check in part.checks])
        missing = (1.0 - found.attainment[0]) / (1.0 - required + 1e-9)
        shortfall.append(float(missing.max(initial=0.0)))
    return decision.judged[int(np.argmax(shortfall))]


def _label(decision: Decision, part: Judged) -> str:
    origin = decision.case.requests.origin
    return window_label(part.stretch.start_s, part.stretch.end_s, origin)


def _mean_prompt(decision: Decision, latency: tuple[LatencyRow, ...]) -> float:
    """Return the mean prompt of the class that binds."""
    name = next((row.class_name for row in latency if row.binds), None)
    traffic = decision.demand.traffic
    mine = traffic.prompt_tokens
    if name is not None:
        mine = mine[traffic.class_id == traffic.class_names.index(name)]
    return float(mine.mean()) if len(mine) else 1.0


def _terms(
    decision: Decision, binding: Judged, band: CountBand, fewer: Miss | None
) -> ReplicaTerms:
    """Return demand to replicas, term by term, in the rate of the binding stretch."""
    case, needs = decision.case, decision.case.needs
    span = binding.stretch.end_s - binding.stretch.start_s
    traffic = decision.demand.traffic
    end = binding.stretch.end_s if binding.stretch.end_s < traffic.span_s else np.inf
    first, last = np.searchsorted(traffic.arrival_s, [binding.stretch.start_s, end])
    rate = float(last - first) / span
    return ReplicaTerms(
        window=_label(decision, binding),
        peak_requests_per_s=rate / needs.sample_rate,
        growth=needs.growth,
        headroom=needs.headroom,
        capacity_requests_per_s=rate * decision.factor,
        exact=exact_replicas(needs, decision.factor),
        for_load=decision.replicas,
        spare=case.slo.spare_replicas,
        band_terms=band.terms,
        band_counts=band.counts,
        unheld=() if decision.confirmed is None else decision.confirmed.unheld,
        mean_input_tokens=float(traffic.input_tokens[first:last].mean()) if last > first else 0.0,
        mean_output_tokens=float(traffic.output_tokens[first:last].mean()) if last > first else 0.0,
        one_fewer=fewer,
    )
