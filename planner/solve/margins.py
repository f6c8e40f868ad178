"""How much more a deployed fleet carries: each target's own margin, found by replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planner.errors import InputError, Problem
from planner.sim.metrics import TargetResult
from planner.solve.verify import Trial
from planner.solve.windows import window_label

STEP = 1.02  # load factors are found to two percent
MOST_STEPS = 70  # up to four times the traffic; beyond that nobody plans with the number
LEAST_STEPS = -116  # down to a tenth
FIRST_STRIDE = 4
WORST_WINDOWS = 2  # of each target, in which its margin is sought
ROUNDS = 3  # times the whole trace may reveal windows harder than those

Span = tuple[float, float]
Key = tuple[str, str, float]  # class, metric, percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTarget:
    """One target of one class on the new trace, in the window that is hardest for it."""

    class_name: str
    metric: str
    percentile: float
    limit_s: float
    worst_s: float
    attainment: float
    worst_window: str
    margin: float  # (limit − worst)/limit
    load_factor: float  # multiple of the trace under which this target holds; 0: none was found
    load_factor_below: float | None  # multiple under which it does not; None: none was tried
    at_least: bool  # no larger multiple was tried
    holds: bool
    binds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Replays of the deployed fleet at multiples of the trace; each is made once.

    Steps are powers of `STEP`, 0 is the trace as it is, so that all targets ask for the same loads.
    """

    trial: Trial
    count: int
    sample_rate: float
    replayed: dict[tuple[int, Span], Mapping[Key, TargetResult]]

    def load(self, step: int) -> float:
        """Return the load of one replica at a step of the grid, in multiples of the trace."""
        return float(STEP**step) / (self.sample_rate * self.count)

    def at(self, step: int, span: Span) -> Mapping[Key, TargetResult]:
        """Return every target in one span at one step."""
        if (step, span) not in self.replayed:
            found = self.trial.replayed(self.load(step), self.count, span=span).targets
            self.replayed[step, span] = {_key(result): result for result in found}
        return self.replayed[step, span]

    def whole(self, step: int) -> tuple[TargetResult, ...]:
        """Return every target over the whole trace at one step."""
        return self.trial.whole(self.load(step), self.count).targets

    def holds(self, key: Key, step: int, spans: tuple[Span, ...]) -> bool:
        """Return whether a target holds in all spans at one step."""
        return all(self.at(step, span)[key].holds for span in spans if key in self.at(step, span))

    def largest(self, key: Key, spans: tuple[Span, ...]) -> int:
        """Return the largest step at which a target holds, LEAST_STEPS where none does."""
        low, high = _bracket(lambda step: self.holds(key, step, spans))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.holds(key, middle, spans) else (low, middle)
        return low


def _bracket(holds: Callable[[int], bool]) -> tuple[int, int]:
    """Return neighbours on a widening ladder: the first holds, the second does not.

    The ends of the ladder are taken to hold at the bottom and to fail beyond the top.

    >>> _bracket(lambda step: step <= 7), _bracket(lambda step: step <= -7)
    ((4, 12), (-12, -4))
    >>> _bracket(lambda step: True)
    (70, 71)
    """
    stride, edge = FIRST_STRIDE, 0
    if holds(0):
        while edge < MOST_STEPS:
            following = min(edge + stride, MOST_STEPS)
            if not holds(following):
                return edge, following
            edge, stride = following, 2 * stride
        return MOST_STEPS, MOST_STEPS + 1
    while edge > LEAST_STEPS:
        following = max(edge - stride, LEAST_STEPS)
        if following == LEAST_STEPS or holds(following):
            return following, edge
        edge, stride = following, 2 * stride
    return LEAST_STEPS, LEAST_STEPS + 1


def _key(result: TargetResult) -> Key:
    return result.class_name, result.target.metric, result.target.percentile


def margins(search: Search, origin: str) -> tuple[GateTarget, ...]:
    """Return every target with its margin; windows that turn out harder join the search.

    Parameters
    ----------
    search
        The deployed fleet and its trace.
    origin
        ISO 8601 of the trace's first arrival, "" where it has none: windows are named by it.

    Raises
    ------
    InputError
        No request of the trace is counted by any target.
    """
    whole = [result for result in search.whole(0) if result.windows]
    if not whole:
        message = "the trace has no request that a target counts"
        raise InputError(Problem(message=message, hint="is the class column the plan's?"))
    spans = {_key(result): _worst(result, WORST_WINDOWS) for result in whole}
    steps = {key: search.largest(key, of) for key, of in spans.items()}
    for _ in range(ROUNDS):
        lowest = min(steps.values())
        harder = _harder(search, lowest, spans)
        if not harder or lowest <= LEAST_STEPS:
            break
        spans = {key: (*of, *harder.get(key, ())) for key, of in spans.items()}
        steps |= {key: search.largest(key, spans[key]) for key in harder}
    binding = min(steps, key=lambda key: steps[key])
    return tuple(
        _row(search, _key(result), spans[_key(result)], steps[_key(result)], origin, binding)
        for result in whole
    )


def _worst(result: TargetResult, most: int) -> tuple[Span, ...]:
    ranked = sorted(result.windows, key=lambda w: (w.holds, w.attainment, -w.value_s, w.start_s))
    return tuple((w.start_s, w.end_s) for w in ranked[:most])


def _harder(
    search: Search, step: int, spans: Mapping[Key, tuple[Span, ...]]
) -> dict[Key, tuple[Span, ...]]:
    """Return windows, not searched yet, in which a target fails at a load that seemed carried.

    The whole trace is replayed on few replicas; a window that fails there counts only if it fails
    again on as many as a probe allows.
    """
    found: dict[Key, tuple[Span, ...]] = {}
    for result in search.whole(step):
        key = _key(result)
        missed = tuple(
            span
            for span in _worst(result, WORST_WINDOWS)
            if span not in spans.get(key, ()) and not search.holds(key, step, (span,))
        )
        if missed:
            found[key] = missed
    return found


def to_the_digit(target: GateTarget) -> GateTarget:
    """Return the target with load factors as exact as the grid: outwards to a hundredth."""
    below = target.load_factor_below
    return replace(
        target,
        load_factor=down(target.load_factor),
        load_factor_below=None if below is None else -down(-below),
    )


def down(value: float) -> float:
    """Return the next hundredth at or below a value.

    >>> down(1.40024), down(1.02), -down(-1.42825)
    (1.4, 1.02, 1.43)
    """
    return math.floor(100.0 * value + 1e-9) / 100.0


def _row(
    search: Search, key: Key, spans: tuple[Span, ...], step: int, origin: str, binding: Key
) -> GateTarget:
    seen = [search.at(0, span)[key] for span in spans if key in search.at(0, span)]
    target = seen[0].target
    windows = [window for result in seen for window in result.windows]
    worst = min(windows, key=lambda w: (w.holds, -w.value_s, w.start_s))
    return GateTarget(
        class_name=key[0],
        metric=target.metric,
        percentile=target.percentile,
        limit_s=target.limit_s,
        worst_s=worst.value_s,
        attainment=worst.attainment,
        worst_window=window_label(worst.start_s, worst.end_s, origin),
        margin=(target.limit_s - worst.value_s) / target.limit_s,
        load_factor=float(STEP**step) if step > LEAST_STEPS else 0.0,
        load_factor_below=float(STEP ** (step + 1)) if step < MOST_STEPS else None,
        at_least=step >= MOST_STEPS,
        holds=worst.holds,
        binds=key == binding,
    )
