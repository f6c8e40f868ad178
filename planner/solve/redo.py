"""A plan's deployment made ready again from plan.json, for other traffic or other targets."""

from __future__ import annotations

from planner.errors import InputError, Problem
from planner.ingest.requests import Requests
from planner.json_data import decode
from planner.perf.calibrations import calibration
from planner.perf.memory import memory_budget
from planner.profile.types import TraceProfile
from planner.solve.candidates import Candidate, Family
from planner.solve.case import Case
from planner.solve.demand import Demand
from planner.solve.plan import Plan
from planner.solve.search import Priced
from planner.solve.verify import Trial, trial_of
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.slo import Slo


def declared_slo(plan: Plan) -> Slo:
    """Return what the plan was made for, rebuilt from plan.json.

    Raises
    ------
    InputError
        The plan carries no complete declaration.
    """
    told: dict[str, object] = {"file": "plan.json", "defaulted": plan.defaulted, "warnings": ()}
    classes = plan.slo.get("classes")
    if isinstance(classes, (list, tuple)):  # a plan leaves out the priority that all classes share
        told["classes"] = [{"priority": 0, **each} for each in classes]
    try:
        slo = decode(Slo, {**plan.slo, **told})
    except (KeyError, TypeError) as error:
        lacking = [key for key in ("model", "classes") if key not in plan.slo]
        what = f", {' and '.join(lacking)} missing" if lacking else ""
        raise InputError(
            Problem(
                message=f"plan.json does not hold the whole declaration it was made for{what}",
                path="slo",
                hint="make the plan again with planner recommend",
            )
        ) from error
    assert isinstance(slo, Slo)
    return slo


def case_of(deployment: Deployment, slo: Slo, requests: Requests, profile: TraceProfile) -> Case:
    """Return the case of one deployment, its parts taken from today's catalogue.

    Raises
    ------
    InputError
        The catalogue has no such GPU, model or engine version.
    """
    gpu = catalog.gpu(deployment.gpu)
    return Case(
        model=catalog.model(slo.model),
        engine=catalog.engine(deployment.engine, deployment.engine_version),
        gpus=(gpu,),
        calibrations={gpu.id: calibration(gpu)},
        slo=slo,
        requests=requests,
        profile=profile,
    )


def trial_at(case: Case, deployment: Deployment, load: float) -> tuple[Trial, Demand, Priced]:
    """Return a deployment's trial, what it is judged on, and itself as a family of one.

    Parameters
    ----------
    case
        Its only GPU is the deployment's.
    deployment
        What runs.
    load
        Load of one replica over the trace's, on which its prefix cache depends.

    Raises
    ------
    InputError
        Replay does not know the engine or the layout.
    """
    memory = memory_budget(case.model, case.gpus[0], case.engine, deployment)
    cached = case.cached(float(memory.kv_tokens), load)
    demand = case.demand(deployment.max_model_len, cached)
    candidate = Candidate(deployment=deployment, memory=memory)
    cost = case.cost(deployment)
    trial = trial_of(case, demand.traffic, demand.windows, candidate, cost, cached)
    if trial is None:
        message = f"replay does not know {deployment.engine} with this layout"
        raise InputError(Problem(message=message, path="deployment"))
    gpu = case.gpus[0]
    family = Family(gpu=gpu, candidates=(candidate,), dropped=0, tightest=None)
    price = case.price(gpu)[0]
    return (
        trial,
        demand,
        Priced(family=family, cost=cost, judged=demand.judged, usd_per_gpu_hour=price),
    )
