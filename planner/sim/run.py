"""Join arrays, settings and physics for the kernel, and run replicas one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.sim.blocks import NO_PREFIXES, Prefixes
from planner.sim.kernel import (
    cache_router,
    fleet,
    loop_router,
    sglang,
    stepped,
    stepped_fleet,
    vllm_v1,
    world,
)
from planner.sim.kernel.debug import FAULTS
from planner.sim.kernel.fleet import Fleet
from planner.sim.kernel.meter import GAP_BINS
from planner.sim.kernel.pipeline import Pipe
from planner.sim.kernel.world import records
from planner.sim.loop import OPEN, Loop
from planner.sim.routing import CacheAware
from planner.sim.settings import SchedulerSettings
from planner.sim.tables import group_table, idle_states, step_table

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# What each replica has for itself in a Fleet, and changes.
OWN = (
    "states",
    "slots",
    "groups",
    "residue",
    "shed",
    "classes",
    "heap",
    "cross_heap",
    "nodes",
    "first_node",
    "held",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """What all replicas measure together."""

    bins: Any  # world.BIN records
    bin_window: Ints  # [bins, classes]
    gaps: Ints  # [windows, classes, GAP_BINS]
    targets: Any  # world.TARGET records, ITL targets first
    tally: Ints  # [targets + ITL targets, windows], see planner.sim.targets.Judging.allowed
    rank: Ints  # [classes] order of priorities, the most urgent is 0


def gauge(
    bin_end_s: Floats,
    bin_window: Ints,
    *,
    windows: int,
    targets: Sequence[tuple[int, int, float]],
    rank: Ints,
) -> Gauge:
    """Return a gauge at zero; each target is (class, metric, limit), ITL targets first."""
    bins = records(len(bin_end_s), world.BIN)
    bins.end_s = bin_end_s
    rows = records(len(targets), world.TARGET)
    for k, (class_id, metric, limit_s) in enumerate(targets):
        rows[k].class_id, rows[k].metric, rows[k].limit_s = class_id, metric, limit_s
    return Gauge(
        bins=bins,
        bin_window=bin_window,
        gaps=np.zeros((windows, bin_window.shape[1], GAP_BINS), np.int64),
        targets=rows,
        tally=np.zeros(
            (len(targets) + np.count_nonzero(rows.metric == world.ITL), windows), np.int64
        ),
        rank=rank,
    )


def new_fleet(
    requests: Any,  # noqa: ANN401 - records
    settings: SchedulerSettings,
    cost: StepCost,
    measures: Gauge,
    *,
    replicas: int,
    debug: bool,
    shared: Prefixes = NO_PREFIXES,
    loop: Loop = OPEN,
) -> Fleet:
    """Return idle replicas over `requests`."""
    n = settings.max_num_seqs
    slots = records((replicas, n), world.SLOT)
    slots.vacant[:] = np.arange(n - 1, -1, -1)
    groups = group_table(cost, settings, replicas)
    states = idle_states(settings, cost, replicas)
    states.debug = debug
    states.caching = caching = len(shared.rows) > 0
    states.trace_block, states.unit_blocks = shared.trace_block, shared.unit_blocks
    states.itl_targets = np.count_nonzero(measures.targets.metric == world.ITL)
    queued = len(requests) if settings.scheduling_policy == "priority" else 0
    # Preempted requests leave stale entries in a heap; a full one is compacted.
    room = 4 * n + 64
    resume = records(len(requests) if settings.policy == "sglang" else queued, world.RESUME)
    resume.run = -1
    return Fleet(
        states=states,
        slots=slots,
        requests=requests,
        table=step_table(cost),
        groups=groups,
        residue=np.zeros((replicas, settings.block_size), np.int64),
        shed=_shed(settings, replicas, groups.shape[1]),
        classes=np.zeros((replicas, measures.gaps.shape[1]), np.int64),
        heap=np.zeros((replicas, room), np.int64),
        cross_heap=np.zeros((replicas, 2 * room * max(groups.shape[1], 1)), np.int64),
        resume=resume,
        waiting=np.zeros((replicas, queued), np.int64),
        rank=measures.rank,
        turns=loop.turns,
        releases=np.zeros(len(loop.turns), np.int64),
        prefix=shared.rows,
        ids=shared.ids,
        nodes=records((replicas, settings.num_blocks + 1 if caching else 0), world.NODE),
        first_node=np.full((replicas, shared.keys), -1, np.int32),
        held=np.zeros((replicas, n, shared.longest), np.int32),
        bins=measures.bins,
        bin_window=measures.bin_window,
        gaps=measures.gaps,
        targets=measures.targets,
        tally=measures.tally,
    )


def _shed(settings: SchedulerSettings, replicas: int, groups: int) -> NDArray[Any]:
    """Return counts of decodes that give blocks back, of a type that tells whether any do.

    Kernels leave out what is done for windows where it is not that of a count.
    """
    if settings.kv_layout is None:
        return np.zeros((replicas, 0, 0), np.int8)
    return np.zeros((replicas, groups, settings.block_size), np.int64)


def chain(
    requests: Any,  # noqa: ANN401 - records
    replica_of: NDArray[np.int32],
    replicas: int,
    waits: NDArray[np.bool_] = OPEN.waits,
) -> Ints:
    """Link each replica's requests in their order; return each replica's first (-1: none).

    Those that wait for the end of another are left out.
    """
    order = np.argsort(replica_of, kind="stable")
    if len(waits):
        order = order[~waits[order]]
    owner = replica_of[order]
    requests.following = -1
    same = owner[1:] == owner[:-1]
    requests.following[order[:-1][same]] = order[1:][same]
    heads = np.full(replicas, -1, np.int64)
    starts = np.flatnonzero(np.concatenate(([True], ~same)))[: len(order)]
    heads[owner[starts]] = order[starts]
    return heads


def _checked(states: Any) -> Any:  # noqa: ANN401 - records
    """Raise if a conservation law broke: a defect of the simulator, never of its input."""
    if states.fault.any():
        raise AssertionError(f"replay broke a conservation law: {FAULTS[states.fault.max()]}")
    return states


def run_independent(
    requests: Any,  # noqa: ANN401 - records
    replica_of: NDArray[np.int32],
    settings: SchedulerSettings,
    cost: StepCost,
    measures: Gauge,
    *,
    replicas: int,
    debug: bool = False,
    shared: Prefixes = NO_PREFIXES,
    pipes: Pipe | None = None,
    loop: Loop = OPEN,
) -> Any:  # noqa: ANN401 - records
    """Run replicas that know nothing of each other; stop at the first that loses a target.

    With `pipes` every request is visited in every step. What waits for what (`loop`) stays inside a
    replica. Return the final state of each replica that ran.
    """
    advance = sglang.run if settings.policy == "sglang" else vllm_v1.run
    alone = new_fleet(
        requests, settings, cost, measures, replicas=1, debug=debug, shared=shared, loop=loop
    )
    own = [getattr(alone, name) for name in OWN]
    idle = [array.copy() for array in own]
    replica = fleet.member(alone, 0)
    done = []
    for r, head in enumerate(chain(requests, replica_of, replicas, loop.waits)):
        for array, before in zip(own, idle, strict=True):
            array[...] = before
        alone.states.head = head
        if loop.clients:
            alone.states.clients, alone.states.line = loop.clients, loop.line[r]
        if pipes is None:
            advance(replica, np.inf)
        else:
            stepped.run(replica, stepped_fleet.pipe_member(pipes, r), np.inf)
        done.append(_checked(alone.states).copy())
        if alone.states[0].lost:
            break
    return np.concatenate(done).view(np.recarray)


def run_routed(
    requests: Any,  # noqa: ANN401 - records
    replica_of: NDArray[np.int32],
    settings: SchedulerSettings,
    cost: StepCost,
    measures: Gauge,
    *,
    replicas: int,
    debug: bool = False,
    shared: Prefixes = NO_PREFIXES,
    pipes: Pipe | None = None,
    router: CacheAware | None = None,
    loop: Loop = OPEN,
) -> Any:  # noqa: ANN401 - records
    """Run replicas behind a least-loaded or cache-aware router, which fills `replica_of`.

    The router takes requests by arrival. Where some arrive when others end (`loop`), the line of a
    closed loop is one for all replicas.
    """
    requests.following = -1
    together = new_fleet(
        requests,
        settings,
        cost,
        measures,
        replicas=replicas,
        debug=debug,
        shared=shared,
        loop=loop,
    )
    tails, assigned = np.full(replicas, -1, np.int64), np.zeros(replicas, np.int64)
    if len(loop.turns):
        together.states.routed, together.states.clients = 1, loop.clients
        loop_router.run_following(
            together,
            loop_router.Router(
                tails=tails,
                assigned=assigned,
                loads=np.zeros(replicas, np.int64),
                overlaps=np.zeros(replicas, np.int64),
                due_s=np.full(replicas, np.inf),
                known=np.flatnonzero(~loop.waits),
                coming=np.zeros(len(requests), np.int64),
                counts=np.array([loop.line[0] if loop.clients else -1, 0]),
                replica_of=replica_of,
                thresholds=np.array(router.thresholds if router else ()),
            ),
        )
    elif router is not None:
        together.states.observed = 1
        room = np.zeros((2, replicas), np.int64)
        cache_router.run_cache_aware(
            together, tails, assigned, room[0], room[1], replica_of, router.thresholds
        )
    elif pipes is None:
        fleet.run_least_loaded(together, tails, assigned, replica_of)
    else:
        stepped_fleet.run_least_loaded(together, pipes, tails, assigned, replica_of)
    return _checked(together.states)
