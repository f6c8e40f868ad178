"""The trace cut into what must be judged: hardest windows first, the whole of it at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.solve.capacity import Judged
from planner.solve.estimate import checks_of
from planner.solve.stretch import Stretch, stretch_of
from planner.solve.traffic import Traffic
from planner.solve.windows import Window
from planner.spec.slo import Slo

Floats = NDArray[np.float64]

SCREEN_SAMPLE = 500  # requests of a window that the search evaluates
FINAL_SAMPLE = 4000  # and the verdict on the chosen configuration
WHOLE_SAMPLE = 160_000  # requests of the whole trace, over all windows
SURGE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Traffic with its windows, the stretches that the search judges, and the whole trace."""

    traffic: Traffic
    windows: tuple[Window, ...]
    spans: tuple[tuple[float, float], ...]  # of the stretches in `judged`
    judged: tuple[Judged, ...]
    whole: Judged


def demand_of(traffic: Traffic, windows: Sequence[Window], slo: Slo) -> Demand:
    """Return the demand with its hardest stretches cut out for the search."""
    spans = tuple(hardest_spans(traffic, _with_targets(traffic, windows, slo)))
    judged = tuple(_judged(traffic, windows, slo, span, SCREEN_SAMPLE) for span in spans)
    each = max(1000, WHOLE_SAMPLE // max(1, len(windows)))
    return Demand(
        traffic=traffic,
        windows=tuple(windows),
        spans=spans,
        judged=judged,
        whole=_judged(traffic, windows, slo, (0.0, traffic.span_s), each),
    )


def with_spans(demand: Demand, slo: Slo, spans: Sequence[tuple[float, float]]) -> Demand:
    """Return the demand judged on other stretches; those it has already are kept as they are."""
    known = dict(zip(demand.spans, demand.judged, strict=True))
    judged = tuple(
        known.get(span) or _judged(demand.traffic, demand.windows, slo, span, SCREEN_SAMPLE)
        for span in spans
    )
    return replace(demand, spans=tuple(spans), judged=judged)


def in_detail(demand: Demand, slo: Slo) -> tuple[Judged, ...]:
    """Return the judged stretches with the larger sample."""
    return tuple(
        _judged(demand.traffic, demand.windows, slo, span, FINAL_SAMPLE) for span in demand.spans
    )


def _judged(
    traffic: Traffic, windows: Sequence[Window], slo: Slo, span: tuple[float, float], sample: int
) -> Judged:
    stretch = stretch_of(traffic, windows, start_s=span[0], end_s=span[1], per_window=sample)
    return Judged(stretch=stretch, checks=checks_of(stretch, slo.classes, traffic.class_names))


def _with_targets(traffic: Traffic, windows: Sequence[Window], slo: Slo) -> list[Window]:
    """Return windows of classes that have targets."""
    names = {declared.name for declared in slo.classes if declared.targets}
    return [window for window in windows if traffic.class_names[window.class_id] in names]


def hardest_spans(traffic: Traffic, windows: Sequence[Window]) -> list[tuple[float, float]]:
    """Return the one to three time spans with which the search starts, among the shortest windows.

    Most prompt tokens per second, most generated tokens per second, and the busiest ten minutes of
    prompt tokens. Windows that turn out harder are added when the whole trace is judged.
    """
    spans = sorted({(window.start_s, window.end_s) for window in windows})
    shortest = min(end - start for start, end in spans)
    spans = [span for span in spans if span[1] - span[0] <= 1.5 * shortest]
    prompts = _cumulative(traffic, traffic.prompt_tokens)
    outputs = _cumulative(traffic, traffic.output_tokens)
    scores = (
        [_rate(prompts, *span) for span in spans],
        [_rate(outputs, *span) for span in spans],
        [_busiest(prompts, SURGE_S, *span, traffic.span_s)[0] for span in spans],
    )
    return sorted({spans[int(np.argmax(score))] for score in scores})


Cumulative = tuple[Floats, Floats]


def _cumulative(traffic: Traffic, tokens: Floats) -> Cumulative:
    served = np.where(traffic.served, tokens, 0.0)
    return traffic.arrival_s, np.concatenate([[0.0], np.cumsum(served)])


def _rate(cumulative: Cumulative, start_s: float, end_s: float) -> float:
    """Return tokens per second that arrive between two times."""
    arrival, total = cumulative
    first, last = np.searchsorted(arrival, [start_s, end_s])
    return float(total[last] - total[first]) / (end_s - start_s)


def busiest(
    traffic: Traffic, tokens: Floats, length_s: float, start_s: float, end_s: float
) -> tuple[float, float]:
    """Return the most tokens/s over any `length_s` in a span, and when that starts.

    Sliding over arrivals: the fullest interval starts at one of them. A span shorter than the
    interval is averaged whole.
    """
    return _busiest(_cumulative(traffic, tokens), length_s, start_s, end_s, traffic.span_s)


def _busiest(
    cumulative: Cumulative, length_s: float, start_s: float, end_s: float, span_s: float
) -> tuple[float, float]:
    arrival, total = cumulative
    length = min(length_s, end_s - start_s)
    first, last = np.searchsorted(arrival, [start_s, end_s], side="left")
    last = len(arrival) if end_s >= span_s else int(last)
    starts = arrival[first:last]
    if not len(starts):
        return 0.0, start_s
    ends = np.searchsorted(arrival, np.minimum(starts + length, end_s + 1e-9))
    sums = total[ends] - total[int(first) : last]
    best = int(np.argmax(sums))
    return float(sums[best]) / length, float(starts[best])


def whole_classes(stretch: Stretch, sample: int) -> Stretch:
    """Return a stretch judged over its whole length: one window a class, thinned to `sample`."""
    classes = sorted({window.class_id for window in stretch.windows})
    number = {which: index for index, which in enumerate(classes)}
    of_window = np.array([number[window.class_id] for window in stretch.windows])
    rejected = np.zeros(len(classes), dtype=np.int64)
    np.add.at(rejected, of_window, stretch.rejected)
    requests = stretch.sample
    group = of_window[requests.group]
    keep = _every(group, len(classes), sample)
    share = np.bincount(group, requests.weight, len(classes)) / np.bincount(
        group[keep], requests.weight[keep], len(classes)
    )
    windows = tuple(
        Window(
            class_id=which,
            start_s=stretch.start_s,
            end_s=stretch.end_s,
            requests=sum(w.requests for w in stretch.windows if w.class_id == which),
            merged=sum(w.merged for w in stretch.windows if w.class_id == which),
        )
        for which in classes
    )
    picked = replace(
        requests,
        time_s=requests.time_s[keep],
        bin=requests.bin[keep],
        block=requests.block[keep],
        group=group[keep],
        weight=requests.weight[keep] * share[group[keep]],
        prompt_tokens=requests.prompt_tokens[keep],
        cached_tokens=requests.cached_tokens[keep],
        output_tokens=requests.output_tokens[keep],
    )
    return replace(stretch, windows=windows, rejected=rejected, sample=picked)


def _every(group: NDArray[np.int64], groups: int, sample: int) -> NDArray[np.int64]:
    """Return indices that keep at most `sample` of each group, evenly spaced."""
    kept = []
    for which in range(groups):
        mine = np.flatnonzero(group == which)
        step = max(1, -(-len(mine) // sample))
        kept.append(mine[step // 2 :: step])
    return np.sort(np.concatenate(kept))
