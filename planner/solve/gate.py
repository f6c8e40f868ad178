"""Does a deployed plan still hold? Its deployment and replicas, replayed on another trace.

The traffic is taken as it is: growth and headroom of the plan were reserves for exactly this. What
is left of them is the load factor: the multiple of the new trace that the replicas still carry
within every target, each target alone and all together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.errors import InputError, Problem
from planner.ingest.requests import Requests
from planner.profile.types import ClassProfile, TraceProfile
from planner.solve.case import Case
from planner.solve.margins import GateTarget, Search, margins, to_the_digit
from planner.solve.plan import Plan
from planner.solve.redo import case_of, trial_at
from planner.spec import catalog
from planner.spec.fingerprint import catalogue_hashes
from planner.spec.slo import Slo
from planner.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficChange:
    """What came of one class's traffic since the plan: now over then, 1 is unchanged."""

    class_name: str
    requests_per_s: float  # mean of the whole service, now
    requests_ratio: float | None  # None: the plan's trace had no such class
    peak_hour_ratio: float | None
    input_tokens_ratio: float | None
    output_tokens_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The verdict. `needed` is the load factor that was asked for; 1 is the trace as it is."""

    plan_name: str
    replicas: int  # that were replayed
    spares: int  # that run beside them and were left out
    gpus: int
    gpu: str
    requests: int
    span_s: float
    sample_rate: float
    needed: float
    load_factor: float  # multiple of the trace that is carried, to the hundredth below
    load_factor_below: float | None  # one that is not, to the hundredth above; None: none was tried
    at_least: bool
    holds: bool
    planned_load_factor: float  # what growth and headroom of the plan set aside
    targets: tuple[GateTarget, ...]
    traffic: tuple[TrafficChange, ...]
    warnings: tuple[str, ...]


def gate(
    plan: Plan,
    slo: Slo,
    requests: Requests,
    profile: TraceProfile,
    *,
    replicas: int | None = None,
    needed: float = 1.0,
) -> Gate:
    """Return whether a plan's deployment holds on a trace, and how much more it would carry.

    Parameters
    ----------
    plan
        What is deployed.
    slo
        Targets, evaluation window, sample rate and seed.
    requests, profile
        The new trace.
    replicas
        Replicas that carry the load; by default the plan's less its spares.
    needed
        Multiple of the trace's traffic that must be carried.

    Raises
    ------
    InputError
        The targets are for another model, the replay does not know the deployment's engine or
        layout, the catalogue lost a part, or there are more replicas than requests.
    """
    _same_model(plan, slo)
    count = replicas or plan.replicas.value - plan.replica_terms.spare
    _enough_requests(count, len(requests) / slo.sample_rate, asked=replicas is not None)
    case = case_of(plan.deployment, slo, requests, profile)
    trial, _, _ = trial_at(case, plan.deployment, 1.0 / (slo.sample_rate * count))
    search = Search(trial=trial, count=count, sample_rate=slo.sample_rate, replayed={})
    targets = margins(search, case.requests.origin)
    factor = min(target.load_factor for target in targets)
    told = tuple(to_the_digit(target) for target in targets)
    binding = next(target for target in told if target.binds)
    return Gate(
        plan_name=plan.name,
        replicas=count,
        spares=plan.replica_terms.spare if replicas is None else 0,
        gpus=count * plan.deployment.gpus,
        gpu=plan.deployment.gpu,
        requests=len(requests),
        span_s=requests.span_s,
        sample_rate=slo.sample_rate,
        needed=needed,
        load_factor=binding.load_factor,
        load_factor_below=binding.load_factor_below,
        at_least=all(t.at_least for t in targets),
        holds=all(target.holds for target in targets) and factor >= needed * (1.0 - 1e-9),
        planned_load_factor=(1.0 + plan.replica_terms.growth) / (1.0 - plan.replica_terms.headroom),
        targets=told,
        traffic=_traffic(plan, slo, profile),
        warnings=_drift(plan, case),
    )


def _same_model(plan: Plan, slo: Slo) -> None:
    """Refuse targets for another model than the one that is deployed."""
    deployed, named = plan.deployment.model, catalog.model(slo.model).id
    if named != deployed:
        message = f"is for {named}, and the plan deploys {deployed}"
        hint = "name the deployed model there, or plan the other one with planner recommend"
        raise InputError(Problem(message=message, file=slo.file, path="model", hint=hint))


def _enough_requests(count: int, requests: float, *, asked: bool) -> None:
    """Refuse more replicas than requests: some would be sent none, and nothing is measured."""
    if count <= requests:
        return
    there = counted(round(requests), "request")
    message = f"{counted(count, 'replica')} for {there} of the whole service"
    hint = "replay a longer trace, or fewer replicas with --replicas"
    raise InputError(
        Problem(message=message, path="--replicas" if asked else "plan.json replicas", hint=hint)
    )


def _traffic(plan: Plan, slo: Slo, profile: TraceProfile) -> tuple[TrafficChange, ...]:
    """Return every class of the new trace against the plan's, both scaled to the whole service."""
    before = {each.name: each for each in plan.profile.classes}
    planned = plan.slo.get("sample_rate", 1.0)
    rescale = (float(planned) if isinstance(planned, (int, float)) else 1.0) / slo.sample_rate
    rows = []
    for now in profile.classes:
        then = before.get(now.name)
        rows.append(
            TrafficChange(
                class_name=now.name,
                requests_per_s=now.arrivals.mean_per_s / slo.sample_rate,
                requests_ratio=_ratio(now, then, lambda c: c.arrivals.mean_per_s, rescale),
                peak_hour_ratio=_ratio(now, then, lambda c: c.arrivals.peak_per_hour, rescale),
                input_tokens_ratio=_ratio(now, then, lambda c: c.input_tokens.mean, 1.0),
                output_tokens_ratio=_ratio(now, then, lambda c: c.output_tokens.mean, 1.0),
            )
        )
    return tuple(rows)


def _ratio(
    now: ClassProfile,
    then: ClassProfile | None,
    value: Callable[[ClassProfile], float],
    rescale: float,
) -> float | None:
    if then is None or not value(then):
        return None
    return value(now) / value(then) * rescale


def _drift(plan: Plan, case: Case) -> tuple[str, ...]:
    """Return which catalogue entries no longer are what the plan was made with."""
    now = catalogue_hashes(case.model, case.engine, case.gpus, case.calibrations)
    then = plan.provenance.catalogue_sha256
    return tuple(
        f"{name} has changed since the plan was made; this verdict uses today's"
        for name in sorted(now)
        if name in then and then[name] != now[name]
    )
