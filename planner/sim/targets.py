"""Which promises a replay is held to, how many violations each can afford, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim.kernel import world
from planner.sim.metrics import (
    TargetResult,
    WindowResult,
    judged,
    judged_gaps,
    needed,
)
from planner.spec.slo import Target, WorkloadClass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METRIC_CODES = {"itl_s": world.ITL, "ttft_s": world.TTFT, "tpot_s": world.TPOT, "e2e_s": world.E2E}
EVERYTHING: Floats = np.array([-np.inf, np.inf])  # edges of one window over the whole trace
UNLIMITED = np.iinfo(np.int64).max // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTarget:
    """One target with the class it belongs to."""

    class_id: int
    metric: int
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What a replay is held to."""

    edges: Sequence[Floats]  # evaluation windows, for each class
    window: Ints  # of each request, -1: outside
    targets: tuple[ClassTarget, ...]  # ITL first, as the kernel wants them
    # [targets, windows] violations that can still happen; ITL: 0, a counter, and behind all targets
    # a row for each ITL target with the gaps above it that it can afford
    allowed: Ints


def window_of(times_s: Floats, edges: Floats) -> Ints:
    """Return the evaluation window of each time, -1 outside; the last window is closed.

    >>> window_of(np.array([-1.0, 0.0, 9.9, 10.0, 20.0]), np.array([0.0, 10.0, 20.0])).tolist()
    [-1, 0, 0, 1, 1]
    """
    at = np.searchsorted(edges, times_s, side="right") - 1
    at[times_s == edges[-1]] = len(edges) - 2
    return np.where(at < len(edges) - 1, at, -1)


class Stretch(Protocol):
    """An evaluation window of one class, whoever defines it."""

    @property
    def class_id(self) -> int:
        """The class."""

    @property
    def start_s(self) -> float:
        """First moment that counts."""

    @property
    def end_s(self) -> float:
        """Where the next window starts."""


def edges_of(stretches: Sequence[Stretch], classes: int) -> list[Floats]:
    """Return window edges for each class; a class without windows counts as a whole."""
    found = []
    for class_id in range(classes):
        mine = [k for k in stretches if k.class_id == class_id]
        edges = np.unique([k.start_s for k in mine] + [k.end_s for k in mine])
        found.append(edges if len(edges) > 1 else EVERYTHING)
    return found


def class_targets(
    classes: Sequence[WorkloadClass], names: Sequence[str]
) -> tuple[ClassTarget, ...]:
    """Return all targets, ITL targets first; a class the trace does not know is an error."""
    unknown = [k.name for k in classes if k.name not in names]
    if unknown:
        raise ValueError(f"the trace has no class {', '.join(unknown)}; it has {', '.join(names)}")
    found = [
        ClassTarget(class_id=names.index(k.name), metric=METRIC_CODES[target.metric], target=target)
        for k in classes
        for target in k.targets
    ]
    return tuple(sorted(found, key=lambda each: each.metric != world.ITL))


def counted(requests: Requests, class_id: int, metric: int) -> NDArray[np.bool_]:
    """Mark the requests a target counts; TPOT needs a second output token."""
    least = 2 if metric == world.TPOT else 0
    marked: NDArray[np.bool_] = requests.class_id == class_id
    return marked & (requests.output_tokens >= least)


def judging(
    requests: Requests,
    rejected: NDArray[np.int8],
    classes: Sequence[WorkloadClass],
    edges: Sequence[Floats],
    *,
    follows_ends: bool = False,
) -> Judging:
    """Prepare targets and, per window, how many violations each can afford.

    Rejected requests are violations already.

    Parameters
    ----------
    requests, rejected
        The trace, and why each request is turned away (0: it is served).
    classes, edges
        The targets, and the evaluation windows of each class of the trace.
    follows_ends
        Whether arrivals wait for the ends of others, and may move.
    """
    window = _windows_of(requests, edges)
    targets = class_targets(classes, requests.class_names)
    widest = max(len(own) for own in edges) - 1
    itl = [each for each in targets if each.metric == world.ITL]
    allowed = np.full((len(targets) + len(itl), widest), UNLIMITED, np.int64)
    for k, each in enumerate(itl):
        own = edges[each.class_id]
        allowed[len(targets) + k, : len(own) - 1] = gaps_allowed(
            requests, rejected, each, own, follows_ends=follows_ends
        )
    count = _Counts(requests, window, widest)
    turned_away = np.flatnonzero(rejected)
    for k, each in enumerate(targets):
        if each.metric == world.ITL:
            allowed[k] = 0
            continue
        total = count.of(each)
        failed = count.of(each, turned_away)
        for i in np.flatnonzero(total):
            within = needed(each.target.percentile, int(total[i]))
            allowed[k, i] = total[i] - within - failed[i]
    return Judging(edges=edges, window=window, targets=targets, allowed=allowed)


class _Counts:
    """How many requests of each class arrive in each window, counted in one pass for all targets.

    A class has a row of windows, and one more for the requests outside of them.
    """

    def __init__(self, requests: Requests, window: Ints, windows: int) -> None:
        self.place = requests.class_id * (windows + 1) + window + 1
        self.shape = len(requests.class_names), windows + 1
        self.several = requests.output_tokens > 1
        self.all: dict[bool, Ints] = {}

    def of(self, each: ClassTarget, some: Ints | None = None) -> Ints:
        """Return the requests of a target's class in each window: all, or those of some."""
        tpot = each.metric == world.TPOT
        if some is not None:
            return self._counted(self.place[some], self.several[some], tpot)[each.class_id, 1:]
        if tpot not in self.all:
            self.all[tpot] = self._counted(self.place, self.several, tpot)
        return self.all[tpot][each.class_id, 1:]

    def _counted(self, place: Ints, several: NDArray[np.bool_], tpot: bool) -> Ints:
        mine = place[several] if tpot else place
        rows, columns = self.shape
        return np.bincount(mine, minlength=rows * columns).reshape(self.shape)


def gaps_allowed(
    requests: Requests,
    rejected: NDArray[np.int8],
    each: ClassTarget,
    edges: Floats,
    *,
    follows_ends: bool,
) -> Ints:
    """Return how many gaps above an ITL target each window can afford at most.

    How many gaps a window will hold is known only when it is over. Requests that arrive before its
    end bound them: output − 1 gaps each. Of fewer gaps fewer may be above the target.
    """
    mine = (requests.class_id == each.class_id) & (rejected == 0)
    gaps = np.concatenate(([0], np.cumsum(np.maximum(requests.output_tokens[mine] - 1, 0))))
    before = np.searchsorted(requests.arrival_s[mine], edges[1:], side="right")
    if follows_ends:
        before[:] = len(gaps) - 1
    most = [int(n) for n in gaps[before]]
    return np.array([n - needed(each.target.percentile, n) if n else 0 for n in most], np.int64)


def _windows_of(requests: Requests, edges: Sequence[Floats]) -> Ints:
    """Return the evaluation window of each request, by the edges of its class."""
    groups: dict[bytes, list[int]] = {}  # most classes share their windows
    for class_id, own in enumerate(edges):
        groups.setdefault(own.tobytes(), []).append(class_id)
    window = np.full(len(requests), -1, np.int64)
    for classes in groups.values():
        found = _window_in_order(requests.arrival_s, edges[classes[0]])
        if len(groups) == 1:
            return found
        member = np.isin(np.arange(len(edges)), classes)
        window = np.where(member[requests.class_id], found, window)
    return window


def _window_in_order(times_s: Floats, edges: Floats) -> Ints:
    """Return `window_of` for times in order: each window is one stretch of them."""
    cuts = np.searchsorted(times_s, edges, side="left")
    cuts[-1] = np.searchsorted(times_s, edges[-1], side="right")
    window = np.full(len(times_s), -1, np.int64)
    window[cuts[0] : cuts[-1]] = np.repeat(np.arange(len(edges) - 1), np.diff(cuts))
    return window


def results(
    requests: Requests, rules: Judging, times: dict[int, Floats], gaps: Ints, within: Ints
) -> tuple[TargetResult, ...]:
    """Hold the finished replay against every target.

    Parameters
    ----------
    requests
        The trace.
    rules
        Targets and windows.
    times
        Per-request latencies by metric code.
    gaps
        Pooled gaps [windows, classes, bins].
    within
        Gaps within the limit, [targets, windows]; only ITL rows are read.
    """
    return tuple(
        _itl_result(requests, rules, k, gaps, within)
        if each.metric == world.ITL
        else _request_result(requests, rules, each, times[each.metric])
        for k, each in enumerate(rules.targets)
    )


def _request_result(
    requests: Requests, rules: Judging, each: ClassTarget, took_s: Floats
) -> TargetResult:
    mine = np.flatnonzero(counted(requests, each.class_id, each.metric) & (rules.window >= 0))
    edges = rules.edges[each.class_id]
    # Requests lie in order of arrival, so a window is a stretch of them.
    cuts = np.searchsorted(rules.window[mine], np.arange(len(edges)))
    windows = tuple(
        judged(took_s[mine[low:high]], each.target, float(edges[i]), float(edges[i + 1]))
        for i, (low, high) in enumerate(pairwise(cuts))
        if high > low
    )
    return _combined(requests, each, windows, took_s[mine])


def _combined(
    requests: Requests, each: ClassTarget, windows: tuple[WindowResult, ...], took_s: Floats
) -> TargetResult:
    name = requests.class_names[each.class_id]
    if not len(took_s):
        nan = float("nan")
        return TargetResult(
            class_name=name, target=each.target, whole_s=nan, attainment=nan, windows=()
        )
    whole = judged(took_s, each.target, windows[0].start_s, windows[-1].end_s)
    return TargetResult(
        class_name=name,
        target=each.target,
        whole_s=whole.value_s,
        attainment=whole.attainment,
        windows=windows,
    )


def _itl_result(
    requests: Requests, rules: Judging, k: int, gaps: Ints, within: Ints
) -> TargetResult:
    each = rules.targets[k]
    edges = rules.edges[each.class_id]
    mine = gaps[:, each.class_id]
    windows = tuple(
        judged_gaps(mine[i], int(within[k, i]), each.target, float(edges[i]), float(edges[i + 1]))
        for i in range(len(edges) - 1)
        if mine[i].any()
    )
    if not windows:
        return _combined(requests, each, (), np.zeros(0))
    whole = judged_gaps(
        mine.sum(axis=0), int(within[k].sum()), each.target, float(edges[0]), float(edges[-1])
    )
    return TargetResult(
        class_name=requests.class_names[each.class_id],
        target=each.target,
        whole_s=whole.value_s,
        attainment=whole.attainment,
        windows=windows,
    )
