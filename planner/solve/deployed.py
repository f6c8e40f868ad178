"""Whether a plan.json can be what it says: its deployment against catalogue, model and engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from planner.errors import InputError
from planner.perf.startable import faults
from planner.solve.plan import Plan
from planner.spec import catalog
from planner.text import counted

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """One value of a plan that cannot be: where it stands, what is wrong, what to do."""

    path: tuple[str | int, ...]
    message: str
    hint: str


def contradictions(plan: Plan) -> tuple[Contradiction, ...]:
    """Return what no `planner recommend` would have written, of a plan that obeys its schema.

    A part that the plan was made with and that lies outside the catalogue (a GPU or a model of the
    user's own) is taken as it is.
    """
    found: list[Contradiction] = [*_counts(plan)]
    deployment = plan.deployment

    def part(kind: str, field: str, name: str, read: Callable[[], Part]) -> Part | None:
        try:
            return read()
        except InputError as error:
            if f"{kind}/{name}" not in plan.provenance.catalogue_sha256:
                first = error.problems[0]
                at = ("deployment", field)
                found.append(Contradiction(path=at, message=first.message, hint=first.hint))
            return None

    gpu = part("gpus", "gpu", deployment.gpu, lambda: catalog.gpu(deployment.gpu))
    named = f"{deployment.engine}-{deployment.engine_version}"
    field = "engine_version" if _is_engine(deployment.engine) else "engine"
    engine = part(
        "engines",
        field,
        named,
        lambda: catalog.engine(deployment.engine, deployment.engine_version),
    )
    declared = str(plan.slo.get("model", deployment.model))
    model = part("models", "model", deployment.model, lambda: catalog.model(declared))
    if model is not None and model.id != deployment.model:
        hint = f"name {model.id}, or make the plan again"
        message = f"the plan was made for slo.model, {declared}, not for {deployment.model}"
        found.append(Contradiction(path=("deployment", "model"), message=message, hint=hint))
    elif model is not None and gpu is not None and engine is not None:
        for fault in faults(model, gpu, engine, deployment):
            at = ("deployment", fault.field)
            found.append(Contradiction(path=at, message=fault.message, hint=fault.hint))
    return tuple(found)


def _is_engine(name: str) -> bool:
    try:
        catalog.engine(name)
    except InputError:
        return False
    return True


def _counts(plan: Plan) -> Iterator[Contradiction]:
    """Yield counts that do not belong together."""
    replicas, each = plan.replicas.value, plan.deployment.gpus
    if plan.gpus.value != replicas * each:
        yield Contradiction(
            path=("gpus", "value"),
            message=f"{plan.gpus.value} GPUs are not {replicas} replicas of {each}",
            hint=f"{replicas * each} are",
        )
    terms = plan.replica_terms
    if terms.spare >= replicas:
        yield Contradiction(
            path=("replica_terms", "spare"),
            message=f"{terms.spare} of {replicas} replicas are spares: none is left",
            hint="name fewer",
        )
    elif terms.for_load + terms.spare != replicas:
        yield Contradiction(
            path=("replica_terms", "for_load"),
            message=f"{terms.for_load} for the load and {counted(terms.spare, 'spare')} are not "
            f"{counted(replicas, 'replica')}",
            hint=f"{replicas - terms.spare} for the load are",
        )
