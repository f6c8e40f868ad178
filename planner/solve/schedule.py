"""One fleet over a week, three ways: sized for the peak, by a timetable, by an autoscaler.

All three carry the plan's load (growth and headroom included) and are replayed hour by hour with
the number of replicas that each has at every moment; a replica that leaves finishes its work, one
that is started serves after its boot time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem
from planner.ingest.requests import Requests
from planner.profile.types import TraceProfile
from planner.solve.course import Course, ahead, asked_for, behind, constant
from planner.solve.fleet import fleet_load
from planner.solve.plan import Plan
from planner.solve.redo import case_of, trial_at
from planner.solve.schedule_fleet import Fleet, static_count, timetable
from planner.solve.schedule_types import Hour, Mode, Schedule, Thresholds
from planner.solve.windows import window_edges, window_label
from planner.spec.slo import Slo
from planner.units import HOUR_S, WEEK_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[str], None]

SHORTEST_S = 600.0  # of a trace: an autoscaler that stands still for half of it shows nothing
STABILIZATION_S = 300.0  # of a horizontal pod autoscaler that nobody configured
SHARES = (0.9, 0.75, 0.6, 0.45, 0.3)  # of the busiest replica's running requests, tried as targets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the engine's metrics show minute by minute, all replicas together."""

    ends_s: Floats
    running: Floats
    waiting: Floats
    kv_use: Floats  # of one replica


def schedule(
    plan: Plan,
    slo: Slo,
    requests: Requests,
    profile: TraceProfile,
    *,
    boot_s: float,
    progress: Progress = lambda _: None,
) -> Schedule:
    """Return the three ways to run a plan's deployment over a trace.

    Parameters
    ----------
    plan
        Its deployment, price and spares.
    slo
        Targets, windows, growth and headroom.
    requests, profile
        The trace, a week of it if possible.
    boot_s
        From asking for a replica to its first request.
    progress
        Called with what is being done.

    Raises
    ------
    InputError
        Replay does not know the deployment, or the trace is shorter than ten minutes.
    InfeasibleError
        Some hour holds with no number of replicas.
    """
    if requests.span_s < SHORTEST_S:
        message = f"the trace covers {requests.span_s:.0f} s: too little for a schedule"
        raise InputError(
            Problem(message=message, path="--trace", hint="name a day or a week of it")
        )
    case = case_of(plan.deployment, slo, requests, profile)
    load = fleet_load(case.needs)
    trial, demand, _ = trial_at(case, plan.deployment, load / plan.replica_terms.for_load)
    edges = window_edges(demand.traffic.span_s, slo.evaluation_window_s)
    hours = tuple((float(a), float(b)) for a, b in pairwise(edges))
    spans = tuple(sorted({*hours, *((w.start_s, w.end_s) for w in demand.windows)}))
    fleet = Fleet(trial=trial, load=load, hours=hours, spans=spans)
    progress("finding the replicas of every hour")
    static = static_count(fleet, plan.replica_terms.for_load)
    hourly = timetable(fleet, static)
    progress("trying autoscalers")
    seen = _seen(fleet, hourly)
    reactive, thresholds = _reactive(fleet, seen, hourly, static, boot_s)
    end, origin = demand.traffic.span_s, requests.origin
    modes = [
        _mode("static", constant(static), constant(static), plan, end),
        _mode("scheduled", hourly, ahead(hourly, boot_s), plan, end),
    ]
    if reactive is not None:
        modes.append(_mode("reactive", behind(reactive, boot_s), reactive, plan, end))
    return Schedule(
        plan_name=plan.name,
        gpu=plan.deployment.gpu,
        gpus_per_replica=plan.deployment.gpus,
        boot_s=boot_s,
        spares=slo.spare_replicas,
        span_s=end,
        modes=tuple(modes),
        timetable=tuple(
            Hour(label=window_label(*hour, origin), start_s=hour[0], replicas=int(count))
            for hour, count in zip(hours, hourly.counts, strict=True)
        ),
        thresholds=thresholds,
        replays=fleet.replays,
    )


def _seen(fleet: Fleet, course: Course) -> _Seen:
    """Return what a monitor would see of a course, one hour after the other."""
    parts = []
    for some in fleet.together:
        span = some[0][0], some[-1][1]
        done = fleet.replayed(course, span)
        bins = done.series
        inside = (bins.start_s >= span[0]) & (bins.end_s <= span[1] + 1e-9)
        there = max(1, done.replicas)
        ends = bins.end_s[inside]
        queued = np.nan_to_num(done.queue_s, nan=0.0)
        place = np.searchsorted(ends, done.arrival_s)
        waited = np.bincount(place, queued, len(ends) + 1)[: len(ends)]
        length = np.maximum(bins.end_s[inside] - bins.start_s[inside], 1e-9)
        parts.append((ends, bins.running[inside] * there, waited / length, bins.kv_use[inside]))
    ends, running, waiting, kv = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _Seen(ends_s=ends, running=running, waiting=waiting, kv_use=kv)


def _reactive(
    fleet: Fleet, seen: _Seen, hourly: Course, static: int, boot_s: float
) -> tuple[Course | None, Thresholds | None]:
    """Return the cheapest autoscaler that holds: the highest target first, then a higher floor.

    The load that it sees is the timetable's, then its own: what is returned holds on its own.
    """
    there = hourly.at(seen.ends_s - 1e-6)
    busiest = float(np.quantile(seen.running / there, 0.99))
    tried = [(share * busiest, 1) for share in SHARES]
    tried += [(SHARES[-1] * busiest, round(share * static)) for share in (0.25, 0.5, 0.75)]
    for target, least in tried:
        now = seen
        for _ in range(2):
            asked = asked_for(
                now.ends_s,
                now.running,
                target=target,
                least=least,
                stabilization_s=STABILIZATION_S,
            )
            serving = behind(asked, boot_s)
            if not fleet.holds(serving):
                break
            if now is not seen:
                return asked, _thresholds(now, serving, target, least)
            now = _seen(fleet, serving)
    return None, None


def _thresholds(seen: _Seen, serving: Course, target: float, least: int) -> Thresholds:
    there = serving.at(seen.ends_s - 1e-6)
    return Thresholds(
        running=target,
        waiting=float((seen.waiting / there).max(initial=0.0)),
        kv_use=float((seen.kv_use * int(there.max(initial=1)) / there).max(initial=0.0)),
        min_replicas=least,
        max_replicas=int(serving.counts.max()),
        stabilization_s=STABILIZATION_S,
    )


def _mode(name: str, serving: Course, paid: Course, plan: Plan, end_s: float) -> Mode:
    spares = plan.replica_terms.spare
    hours = paid.replica_hours(end_s) + spares * end_s / HOUR_S
    price = plan.cost.usd_per_gpu_hour
    week = None if price is None else hours * plan.deployment.gpus * price * WEEK_S / end_s
    return Mode(
        name=name,
        least=int(serving.counts.min()),
        most=int(serving.counts.max()),
        replica_hours=hours,
        usd_per_week=week,
        holds=True,
    )
