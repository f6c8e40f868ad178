"""What one replica of every service carries on every GPU type: the existing solver, once for each.

The solver chooses the settings that serve the service most cheaply on that GPU type and confirms
them by replay; what it finds is one configuration with its capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.errors import InfeasibleError
from planner.ingest.requests import Requests
from planner.perf.calibrations import calibration
from planner.profile.types import TraceProfile
from planner.solve.case import Case, Decision
from planner.solve.fleet import exact_replicas
from planner.solve.recommend import chosen
from planner.solve.verify import Span, Trial
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.slo import Slo

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One service on one GPU type. `capacity` is in shares of the service's demand today.

    It is what one replica carries within every target, headroom already taken off. `band` is the
    relative half-width that the physics' calibration leaves. `trial` and `spans` replay it; None
    where only the equations know the engine.
    """

    service: str
    deployment: Deployment
    capacity: float
    band: float
    replicas_today: int  # for load, without spares
    sample_rate: float
    headroom: float
    trial: Trial | None
    spans: tuple[Span, ...]

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.deployment.gpus


def size(
    service: str, slo: Slo, requests: Requests, profile: TraceProfile, gpu: str, progress: Progress
) -> Sized | str:
    """Return the service's configuration on one GPU type, or why there is none.

    Parameters
    ----------
    service
        Its name.
    slo
        What it promises; without growth.
    requests, profile
        What it is asked today.
    gpu
        The catalogue's id.
    progress
        Called with what is being done.
    """
    part = catalog.gpu(gpu)
    case = Case(
        model=catalog.model(slo.model),
        engine=catalog.engine(slo.engine, slo.engine_version),
        gpus=(part,),
        calibrations={part.id: calibration(part)},
        slo=slo,
        requests=requests,
        profile=profile,
    )
    try:
        decision, _, _ = chosen(case, progress)
    except InfeasibleError as error:
        return str(error).splitlines()[0]
    return _sized(service, decision)


def _sized(service: str, decision: Decision) -> Sized:
    confirmed, needs = decision.confirmed, decision.case.needs
    exact = exact_replicas(needs, decision.factor)
    return Sized(
        service=service,
        deployment=decision.deployment,
        # A count that rounding or luck raised beyond ⌈exact⌉ lowers the capacity with it.
        capacity=1.0 / max(exact, decision.replicas - 1 + 1e-9),
        band=decision.cost.band,
        replicas_today=decision.replicas,
        sample_rate=needs.sample_rate,
        headroom=needs.headroom,
        trial=None if confirmed is None else confirmed.trial,
        spans=() if confirmed is None else confirmed.spans,
    )
