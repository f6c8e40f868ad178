"""Replay a trace through replicas of one deployment: every request's times, and the targets.

Every request of the trace is simulated until it finishes, so the load drains after the last
arrival. Requests count in the evaluation window they arrive in, gaps between tokens in the window
in which their step starts; what lies outside the windows (a lead-in, the drain) warms or empties
the replicas and is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.sim import loop, run
from planner.sim.blocks import NO_PREFIXES, has_ids, prefixes
from planner.sim.kernel import world
from planner.sim.measuring import Totals, gauge, last_s, totals
from planner.sim.metrics import (
    Distribution,
    TargetResult,
    distribution,
    gap_distribution,
)
from planner.sim.pipes import is_stepped, new_pipes
from planner.sim.refusals import REASONS, refuse, rejections
from planner.sim.routing import CACHE_AWARE, ROUTED, ROUTINGS, CacheAware, assign, in_order
from planner.sim.rows import latencies, request_records, spread, stated_hits
from planner.sim.series import Series, series
from planner.sim.settings import SchedulerSettings
from planner.sim.targets import (
    EVERYTHING,
    judging,
    results,
)
from planner.spec.slo import WorkloadClass

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResult:
    """One class over the whole trace. `itl_s` pools the gaps inside the evaluation windows."""

    name: str
    requests: int
    rejected: int
    preemptions: int
    queue_s: Distribution  # arrival to first scheduling
    ttft_s: Distribution
    tpot_s: Distribution
    itl_s: Distribution
    e2e_s: Distribution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """What a simulation returns. Arrays are per request, in the trace's order.

    ttft_s is arrival to first token, e2e_s arrival to last token, tpot_s is
    (e2e − ttft)/(output − 1), NaN for one output token. Rejected requests have infinite times.
    After an early stop (`lost`) unfinished requests have NaN.
    """

    class_names: tuple[str, ...]
    class_id: NDArray[np.int64]
    arrival_s: Floats
    input_tokens: NDArray[np.int64]
    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    queue_s: Floats
    preemptions: NDArray[np.int32]
    replica: NDArray[np.int32]  # -1: rejected
    rejected: NDArray[np.int8]  # index into REASONS, 0: served
    replicas: int
    routing: str
    seed: int
    lost: bool  # stopped early: a target cannot be met any more
    totals: Totals
    series: Series
    gaps: NDArray[np.int64]  # [windows, classes, bins]
    targets: tuple[TargetResult, ...]
    bubble_s: Floats  # what stages idled ahead of the request's batches; empty with one stage

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def holds(self) -> bool:
        """Whether every target holds in every evaluation window."""
        return not self.lost and all(target.holds for target in self.targets)

    @property
    def hit_share(self) -> float:
        """Share of the served requests' prompt tokens that the prefix cache held."""
        prompts = int(self.input_tokens[self.rejected == 0].sum())
        return self.totals.hit_tokens / prompts if prompts else 0.0

    def rejection_counts(self) -> dict[str, int]:
        """Count rejected requests by reason."""
        counts = np.bincount(self.rejected, minlength=len(REASONS))
        return {REASONS[i]: int(counts[i]) for i in range(1, len(REASONS)) if counts[i]}

    def classes(self) -> tuple[ClassResult, ...]:
        """Return every class's latencies over the whole trace."""
        return tuple(self._class(c) for c in range(len(self.class_names)))

    def _class(self, c: int) -> ClassResult:
        mine = self.class_id == c
        served = mine & (self.rejected == 0)
        return ClassResult(
            name=self.class_names[c],
            requests=int(np.count_nonzero(mine)),
            rejected=int(np.count_nonzero(mine & (self.rejected > 0))),
            preemptions=int(self.preemptions[mine].sum()),
            queue_s=distribution(_known(self.queue_s[served])),
            ttft_s=distribution(_known(self.ttft_s[mine])),
            tpot_s=distribution(_known(self.tpot_s[mine])),
            itl_s=gap_distribution(self.gaps[:, c].sum(axis=0)),
            e2e_s=distribution(_known(self.e2e_s[mine])),
        )


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def replay(
    requests: Requests,
    cost: StepCost,
    settings: SchedulerSettings,
    *,
    replicas: int = 1,
    routing: str = "random",
    owners: NDArray[np.int32] | None = None,
    cache_aware: CacheAware = CACHE_AWARE,
    seed: int = 42,
    classes: Sequence[WorkloadClass] = (),
    windows: Sequence[Floats] | None = None,
    stop_when_lost: bool = False,
    bin_s: float = 60.0,
    use_cached_tokens: bool = False,
    follow_sessions: bool = False,
    concurrency: int | None = None,
    first_elsewhere_s: Floats | None = None,
    debug: bool = False,
) -> Replay:
    """Replay every request of a trace through `replicas` equal replicas.

    Parameters
    ----------
    requests
        The trace, sorted by arrival.
    cost
        Step times of the deployment.
    settings
        Its scheduler's settings.
    replicas, routing, seed
        How many replicas, and what sends requests to them: "random", "round_robin",
        "least_loaded" (fewest unfinished requests) or "cache_aware".
    owners
        The replica of each request of the trace, instead of routing: for fleets whose size changes.
    cache_aware
        Thresholds of that routing.
    classes
        Targets, by the names of the trace's classes.
    windows
        Edges of the evaluation windows, one array for each class of the trace; by default one
        window over everything. A target must hold in each.
    stop_when_lost
        Stop as soon as a target can no longer be met.
    bin_s
        Resolution of `series`.
    use_cached_tokens
        Take each request's `cached_tokens` as found in the prefix cache (whole blocks; nothing is
        ever evicted, every request holds its own copy). Otherwise the trace's block ids go through
        each replica's prefix cache, if the settings enable it and the trace has ids.
    follow_sessions
        A session's next turn waits for the end of the last (see `planner.sim.loop`). Random and
        round-robin routing send it to the same replica.
    concurrency
        Clients of a closed loop, spread evenly over replicas that are not routed by load. The
        trace's arrivals are ignored: each client sends the next request of the trace when its last
        one has ended.
    first_elsewhere_s
        Of a decode pool: requests arrive with the KV of their prompts. When another pool gave out
        the first token, NaN where this one does, after it computed the prompt's last token again.
    debug
        Check the conservation laws after every event.

    Raises
    ------
    InputError
        The settings are not replayed behind this routing, or together with arrivals that follow
        ends.
    """
    if routing not in ROUTINGS:
        raise ValueError(f"routing {routing!r} is not one of {ROUTINGS}")
    remote = first_elsewhere_s is not None
    stepped = is_stepped(cost, settings) or remote
    follows_ends = follow_sessions or concurrency is not None
    if follow_sessions and (concurrency is not None or owners is not None):
        raise ValueError("sessions go with neither clients nor owners")
    refuse(requests, settings, routing, stepped=stepped, follows_ends=follows_ends)
    if concurrency is not None:  # all clients start together
        requests = replace(requests, arrival_s=np.zeros(len(requests)))
    exact = settings.enable_prefix_caching and has_ids(requests) and not use_cached_tokens
    settings = settings.counted_in(tables=not (stepped or exact))
    edges = windows if windows is not None else [EVERYTHING] * len(requests.class_names)
    rejected = rejections(requests, settings)
    rules = judging(requests, rejected, classes, edges, follows_ends=follows_ends)
    measures = gauge(requests, rules, classes, bin_s, stop_when_lost=stop_when_lost)
    served = np.flatnonzero(rejected == 0)
    owner = assign(len(served), replicas, routing, seed) if owners is None else owners[served]
    if follow_sessions:
        owner = loop.session_owner(requests, served, owner)
    served, owner = _by_replica(served, owner, replicas)
    rows = request_records(requests, served, rules.window)
    if use_cached_tokens:
        rows.cached_tokens = stated_hits(requests, settings)[served]
    if first_elsewhere_s is not None:
        rows.first_token_s = first_elsewhere_s[served]
    pipes = None
    if stepped:
        pipes = new_pipes(served, settings, cost, replicas=replicas, seed=seed, remote=remote)
    states = world.records(0, world.STATE)
    lost = bool((measures.tally < 0).any())  # rejected requests alone are too many
    if not lost:
        common: dict[str, Any] = {
            "replicas": replicas,
            "debug": debug,
            "shared": prefixes(requests, served, settings) if exact else NO_PREFIXES,
            "pipes": pipes,
        }
        common["loop"] = loop.follow(
            requests,
            served,
            owner,
            1 if routing in ROUTED else replicas,
            by_session=follow_sessions,
            concurrency=concurrency,
        )
        if routing in ROUTED:
            router = cache_aware if routing == "cache_aware" else None
            states = run.run_routed(rows, owner, settings, cost, measures, router=router, **common)
        else:
            states = run.run_independent(rows, owner, settings, cost, measures, **common)
        lost = bool(states.lost.any())
    times = latencies(requests, served, rows, cost)
    targets = () if lost else results(requests, rules, times, measures.gaps, measures.tally)
    return Replay(
        class_names=requests.class_names,
        class_id=requests.class_id,
        arrival_s=_arrivals(requests, served, rows),
        input_tokens=requests.input_tokens,
        ttft_s=times[world.TTFT],
        tpot_s=times[world.TPOT],
        e2e_s=times[world.E2E],
        queue_s=spread(rows.scheduled_s - rows.arrival_s, served, len(requests), np.nan),
        preemptions=spread(rows.preemptions, served, len(requests), 0),
        replica=spread(owner, served, len(requests), -1),
        rejected=rejected,
        replicas=replicas,
        routing=routing,
        seed=seed,
        lost=lost,
        totals=totals(rows, states, measures, settings, replicas),
        series=series(measures.bins, last_s(states), replicas, settings.num_blocks),
        gaps=measures.gaps,
        targets=targets,
        bubble_s=spread(pipes.bubble_s, served, len(requests), 0.0)
        if pipes is not None and cost.stages > 1
        else np.zeros(0),
    )


def _by_replica(
    served: NDArray[np.int64], owner: NDArray[np.int32], replicas: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return both replica by replica; what sorting takes is gone before the replay."""
    order = in_order(owner, replicas)
    return served[order], owner[order]


def _arrivals(requests: Requests, served: NDArray[np.int64], rows: Any) -> Floats:  # noqa: ANN401
    """Return when each request arrived: what waited for another may have come later."""
    if (rows.arrival_s == requests.arrival_s[served]).all():
        return requests.arrival_s
    arrival: Floats = requests.arrival_s.copy()
    arrival[served] = rows.arrival_s
    return arrival
