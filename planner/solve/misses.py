"""What a replay misses: the targets above their limits, with their worst windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.solve.plan import Miss
from planner.solve.verify import Verdict
from planner.solve.windows import window_label
from planner.spec.slo import Target

Limit = Callable[[str, Target], float]  # of a class's target, under an assumption


def as_declared(class_name: str, target: Target) -> float:  # noqa: ARG001 - a `Limit`
    """Return the limit that slo.yaml declares."""
    return target.limit_s


def missed(verdict: Verdict, limit: Limit, origin: str) -> Iterator[Miss]:
    """Yield every target whose worst window is above its limit.

    Parameters
    ----------
    verdict
        A replay that ran to its end.
    limit
        Of each class's target.
    origin
        ISO 8601 of the trace's first arrival, "" where it has none: windows are named by it.
    """
    for result in verdict.targets:
        if not result.windows:
            continue
        most = limit(result.class_name, result.target)
        window = max(result.windows, key=lambda each: each.value_s)
        worst = window.value_s
        if worst > most:
            yield Miss(
                class_name=result.class_name,
                metric=result.target.metric,
                percentile=result.target.percentile,
                value_s=worst,
                limit_s=most,
                window=window_label(window.start_s, window.end_s, origin),
            )
