"""Why two plans differ, by replay: the old deployment under each change in turn.

The order is fixed: today's physics, the mix and lengths of the new traffic at the old rate, its
rate, the new targets, the new reserves, the new engine version; what is left to the new plan is its
own choice of GPU and settings, and the price. A change under which no number of old replicas holds
is told together with the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.ingest.requests import Requests
from planner.perf.startable import faults
from planner.profile.profile import profile_requests
from planner.solve.compare import Comparison, Step, monthly, side
from planner.solve.confirm import ROUNDS, harder_spans
from planner.solve.differences import Difference, differences, sample_rate
from planner.solve.finalists import replayed_option
from planner.solve.fleet import exact_replicas, replica_factor
from planner.solve.plan import Plan
from planner.solve.redo import case_of, declared_slo, trial_at
from planner.spec.deployment import Deployment
from planner.spec.slo import Slo

Progress = Callable[[str], None]
NO_COUNT_HOLDS = "no_count_holds"
CLASSES_DIFFER = "classes_differ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The requests of both plans, sorted into classes.

    `new_in_old` are the new requests in the old plan's classes, None where those do not fit them.
    """

    old: Requests
    new: Requests
    new_in_old: Requests | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """Everything a count depends on, exchanged piece by piece."""

    deployment: Deployment
    slo: Slo
    requests: Requests

    def same(self, other: World) -> bool:
        """Return whether nothing was exchanged; traces are the same only as one object."""
        mine, theirs = (self.deployment, self.slo), (other.deployment, other.slo)
        return mine == theirs and self.requests is other.requests


def explained(
    old: Plan, new: Plan, traces: Traces, progress: Progress = lambda _: None
) -> Comparison:
    """Return what changed, each cause's share found by replay.

    Parameters
    ----------
    old, new
        The plans.
    traces
        The requests they were made from.
    progress
        Called with the cause that is being replayed.

    Raises
    ------
    InputError
        A part of the old plan is no longer in the catalogue, or replay does not know its engine.
    """
    found = differences(old, new)
    return Comparison(
        method="counterfactual",
        old=side(old),
        new=side(new),
        steps=_steps(old, new, traces, found, progress),
        differences=found,
    )


def needed(world: World, guess: int) -> tuple[float, int] | None:
    """Return replicas for load, before and after rounding, None where no number holds."""
    case = case_of(world.deployment, world.slo, world.requests, profile_requests(world.requests))
    if faults(case.model, case.gpus[0], case.engine, world.deployment):
        return None  # the new model or engine does not start with the old flags
    load = replica_factor(case.needs, max(1, guess))
    trial, demand, priced = trial_at(case, world.deployment, load)
    spans = tuple(demand.spans)
    best = replayed_option(case, priced, trial, load, spans)
    for _ in range(ROUNDS):
        if best.option.replicas is None:
            return None
        harder = harder_spans(case, best, spans)
        if not harder:
            break
        spans = (*spans, *harder)
        best = replayed_option(case, priced, trial, best.option.factor, spans)
    return exact_replicas(case.needs, best.option.factor), best.replicas_for_load


def _worlds(old: Plan, new: Plan, traces: Traces) -> Iterator[tuple[tuple[str, ...], World, str]]:
    """Yield (causes, world after them, note), each world one exchange further from the old."""
    before, after = declared_slo(old), declared_slo(new)
    world = World(deployment=old.deployment, slo=before, requests=traces.old)
    yield ("calibration", "planner"), world, ""
    pending: tuple[str, ...] = ()
    # The old rate of the whole service, laid out as the new trace is.
    share = _service_rate(old) / _service_rate(new)
    if traces.new_in_old is None or not math.isfinite(share):  # too short for a rate: NaN
        pending = ("lengths", "traffic")
    else:
        slo = replace(
            before,
            sample_rate=after.sample_rate,
            growth=before.growth if share == 1.0 else (1.0 + before.growth) * share - 1.0,
        )
        world = replace(world, slo=slo, requests=traces.new_in_old)
        yield ("lengths",), world, ""
        world = replace(world, slo=replace(slo, growth=before.growth))
        yield ("traffic",), world, ""
    after = replace(after, routing=before.routing)  # a setting: it comes with the deployment's
    kept = replace(
        after,
        growth=before.growth,
        headroom=before.headroom,
        spare_replicas=before.spare_replicas,
    )
    world = replace(world, slo=kept, requests=traces.new)
    yield (*pending, "targets"), world, "" if traces.new_in_old is not None else CLASSES_DIFFER
    world = replace(world, slo=after)
    yield ("reserves",), world, ""
    moved = replace(world.deployment, engine_version=new.deployment.engine_version)
    if _same_engine(old, new):
        yield ("engine",), replace(world, deployment=moved), ""


def _service_rate(plan: Plan) -> float:
    """Return the mean requests/s of the whole service."""
    return plan.profile.total.arrivals.mean_per_s / sample_rate(plan)


def _steps(
    old: Plan,
    new: Plan,
    traces: Traces,
    found: tuple[Difference, ...],
    progress: Progress,
) -> tuple[Step, ...]:
    price, each = old.cost.usd_per_gpu_hour, old.deployment.gpus
    steps: list[Step] = []
    pending: tuple[str, ...] = ()
    last: World | None = None
    count = old.replica_terms.for_load
    for causes, world, note in _worlds(old, new, traces):
        pending = (*pending, *causes)
        if last is not None and world.same(last):
            pending = pending[: -len(causes)]
            continue
        progress(f"replaying the old deployment: {', '.join(causes)}")
        last, result = world, needed(world, count)
        if result is None:
            continue
        count = result[1]
        replicas = count + world.slo.spare_replicas
        gpus = replicas * each
        steps.append(
            Step(
                causes=pending,
                exact=result[0],
                replicas=replicas,
                gpus=gpus,
                usd_per_month=monthly(gpus, price),
                note=note or (NO_COUNT_HOLDS if len(pending) > len(causes) else ""),
            )
        )
        pending = ()
    told = ("engine",) if _same_engine(old, new) else ()
    steps += _choice(new, price, found, pending, told)
    return _worth_telling(steps, old, {each.cause for each in found})


def _worth_telling(steps: list[Step], old: Plan, differ: set[str]) -> tuple[Step, ...]:
    """Return the steps whose cause differs, and those that moved the fleet all the same.

    A fleet that moves without a cause was found by another way through the search.
    """
    told: list[Step] = []
    gpus, usd = old.gpus.value, old.cost.usd_per_month
    for step in steps:
        causes = tuple(cause for cause in step.causes if cause in differ)
        if causes or (step.gpus, step.usd_per_month) != (gpus, usd):
            told.append(replace(step, causes=causes or ("search",)))
        gpus, usd = step.gpus, step.usd_per_month
    return tuple(told)


def _same_engine(old: Plan, new: Plan) -> bool:
    """Return whether only the engine's version can differ, so that it can be exchanged alone."""
    return old.deployment.engine == new.deployment.engine


def _choice(
    new: Plan,
    price: float | None,
    found: tuple[Difference, ...],
    pending: tuple[str, ...],
    told: tuple[str, ...],
) -> Iterator[Step]:
    """Yield the new plan's own choice of GPU and settings, and the price of the same GPU."""
    causes = {each.cause for each in found} - {*told}
    moved = tuple(cause for cause in ("model", "engine", "gpu", "settings") if cause in causes)
    same_gpu = "gpu" not in causes
    last = Step(
        causes=(*pending, *moved),
        exact=new.replica_terms.exact,
        replicas=new.replicas.value,
        gpus=new.gpus.value,
        usd_per_month=monthly(new.gpus.value, price if same_gpu else new.cost.usd_per_gpu_hour),
        note=NO_COUNT_HOLDS if pending else "",
    )
    yield last
    if same_gpu and price != new.cost.usd_per_gpu_hour:
        yield replace(last, causes=("prices",), usd_per_month=new.cost.usd_per_month, note="")
