"""What one replica sees in the window that decides: the traffic of the load test that refutes."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import InputError, Problem
from planner.ingest.requests import Requests
from planner.profile.types import TraceProfile
from planner.sim.load import scale
from planner.solve.plan import Plan
from planner.solve.redo import case_of, trial_at
from planner.solve.stretch import LEAD_S
from planner.solve.windows import Window, window_label
from planner.spec.slo import Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWindow:
    """Requests of one replica on the trace's clock; `share` over the trace's own."""

    requests: Requests
    label: str
    start_s: float  # of the lead-in
    lead_s: float  # not judged: it fills queue, batch and cache before the window begins
    share: float


def share_of_replica(plan: Plan) -> float:
    """Return what one replica for the load sees over what the trace holds: (1 + g)/(s·n)."""
    terms, rate = plan.replica_terms, plan.slo.get("sample_rate", 1.0)
    sample = float(rate) if isinstance(rate, (int, float)) and rate else 1.0
    return (1.0 + terms.growth) / (sample * max(1, terms.for_load))


def replica_window(
    plan: Plan, slo: Slo, requests: Requests, profile: TraceProfile
) -> ReplicaWindow:
    """Return the requests of the plan's deciding window that one of its replicas gets.

    Thinned by whole sessions below the trace's own traffic, displaced copies above: as the replay
    that chose the plan made them, on one replica.

    Parameters
    ----------
    plan
        Its `replica_terms` name the window and the replicas for the load.
    slo
        What the plan was made for: windows, sample rate, seed.
    requests, profile
        The plan's trace.

    Raises
    ------
    InputError
        The trace has no such window: it is not the plan's.
    """
    share = share_of_replica(plan)
    trial, _, _ = trial_at(case_of(plan.deployment, slo, requests, profile), plan.deployment, share)
    window = _named(plan.replica_terms.window, trial.windows, requests.origin)
    begin = max(0.0, window.start_s - LEAD_S)
    span = (begin, window.end_s)
    seen = scale(trial.requests, share, seed=slo.seed, copying=trial.copying, span=span)
    if not len(seen):
        message = f"no request of {plan.replica_terms.window} comes to one replica of the plan's"
        raise InputError(
            Problem(message=message, path="--trace", hint="there is nothing to replay")
        )
    return ReplicaWindow(
        requests=seen,
        label=plan.replica_terms.window,
        start_s=begin,
        lead_s=window.start_s - begin,
        share=share,
    )


def _named(label: str, windows: tuple[Window, ...], origin: str) -> Window:
    for window in windows:
        if window_label(window.start_s, window.end_s, origin) == label:
            return window
    raise InputError(
        Problem(
            message=f"the trace has no window {label}, which decided the plan",
            path="--trace",
            hint="name the trace that the plan was made from",
        )
    )
