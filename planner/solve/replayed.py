"""What a plan reports of its replay: latency against target, the band, the loss of a replica."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.sim.metrics import TargetResult, WindowResult
from planner.solve.case import Decision
from planner.solve.confirm import Confirmed
from planner.solve.expected import with_binding
from planner.solve.fleet import replica_factor
from planner.solve.plan import Count, LatencyRow, Miss
from planner.solve.steps import stretched
from planner.solve.verify import Span, Trial, Verdict
from planner.solve.windows import window_label

DOUBTS = ("", "step_time", "bursts_of_the_sample")  # faster steps, slower steps, burstier copies
SUSPECTS = 2  # windows of the whole trace's replay that are asked again, beside the deciding ones


def replayed_rows(
    decision: Decision, confirmed: Confirmed, fewer: Miss | None
) -> tuple[LatencyRow, ...]:
    """Return every target with what the replay gives in its worst window.

    The whole trace is replayed on few replicas, whose luck can make another window look worst. So
    the windows with the largest percentiles there and those that decide the count are replayed
    again on as many replicas as a probe allows, and the worst of these is the row's. Its band comes
    from the same replay with every step slower or faster by the calibration's band and, where the
    load is above the trace's own, with burstier copies. The target that one replica fewer would
    miss most (`fewer`) binds.
    """
    trial, *doubts = _readings(decision, confirmed.trial)
    expected: dict[Span, Verdict] = {}
    doubted: dict[Span, tuple[Verdict, ...]] = {}

    def again(reading: Trial, span: Span) -> Verdict:
        return reading.probed(decision.load, decision.replicas, span, to_the_end=True)

    rows = []
    for result in confirmed.whole.targets:
        found: list[tuple[WindowResult, Span]] = []
        for span in _candidates(result, confirmed.spans):
            if span not in expected:
                expected[span] = again(trial, span)
            window = _same(expected[span], result)
            if window is not None:
                found.append((window, span))
        if not found:
            continue
        worst, span = max(found, key=lambda pair: pair[0].value_s)
        if span not in doubted:
            doubted[span] = tuple(again(reading, span) for reading in doubts)
        others = [_same(each, result) for each in doubted[span]]
        rows.append(_row(decision, result, worst, others))
    return with_binding(rows, fewer)


def _candidates(result: TargetResult, spans: tuple[Span, ...]) -> list[Span]:
    """Return the spans in which a target's worst window is sought, each once."""
    worst = sorted(result.windows, key=lambda window: -window.value_s)[:SUSPECTS]
    return list(dict.fromkeys([*((w.start_s, w.end_s) for w in worst), *spans]))


def _readings(decision: Decision, trial: Trial) -> list[Trial]:
    """Return the trial as expected, then under each doubt: the same requests in each."""
    band = decision.cost.band
    doubts = [
        replace(trial, cost=stretched(trial.cost, 1.0 - band)),
        replace(trial, cost=stretched(trial.cost, 1.0 + band)),
    ]
    if decision.load > 1.0:
        doubts.append(trial.burstier)
    return [trial, *doubts]


def _same(replayed: Verdict, result: TargetResult) -> WindowResult | None:
    """Return another replay's worst window of the same target, None where it has none."""
    for other in replayed.targets:
        if (other.class_name, other.target) == (result.class_name, result.target):
            return max(other.windows, key=lambda window: window.value_s, default=None)
    return None


def _row(
    decision: Decision,
    result: TargetResult,
    worst: WindowResult,
    doubts: Sequence[WindowResult | None],
) -> LatencyRow:
    """Return the row of one target from its worst window, as expected and under each doubt."""
    case, target = decision.case, result.target
    under = [worst.value_s, *(each.value_s for each in doubts if each is not None)]
    named = zip(DOUBTS, doubts, strict=False)
    window = next(
        w
        for w in decision.demand.windows
        if (w.start_s, w.end_s) == (worst.start_s, worst.end_s)
        and case.requests.class_names[w.class_id] == result.class_name
    )
    return LatencyRow(
        class_name=result.class_name,
        metric=target.metric,
        percentile=target.percentile,
        limit_s=target.limit_s,
        worst_s=worst.value_s,
        low_s=min(under),
        high_s=max(under),
        high_by_doubt_s={name: each.value_s for name, each in named if name and each is not None},
        whole_s=result.whole_s,
        attainment=worst.attainment,
        margin=(target.limit_s - worst.value_s) / target.limit_s,
        worst_window=window_label(worst.start_s, worst.end_s, case.requests.origin),
        requests_in_window=window.requests,
        merged_windows=window.merged,
        holds=worst.holds,
        binds=False,
    )


def after_loss(decision: Decision, confirmed: Confirmed) -> Mapping[tuple[str, str, float], float]:
    """Return the least attainment in the deciding windows with one replica of the fleet lost.

    Spares count: a fleet with one spare is left with the replicas for the load. Keyed by class,
    metric and percentile.
    """
    fewer = decision.replicas + decision.case.slo.spare_replicas - 1
    load = replica_factor(decision.case.needs, fewer)
    found: dict[tuple[str, str, float], float] = {}
    for span in confirmed.spans:
        for result in confirmed.trial.replayed(load, fewer, span=span).targets:
            key = (result.class_name, result.target.metric, result.target.percentile)
            for window in result.windows:
                found[key] = min(found.get(key, 1.0), window.attainment)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CountBand:
    """Replicas for load, least and most, and what each doubt alone gives.

    `terms` are relative half-widths, `counts` the least and the most.
    """

    low: int
    high: int | None  # None: under some doubt no count tried holds
    terms: Mapping[str, float]
    counts: Mapping[str, tuple[int | None, ...]]


def count_band(decision: Decision, confirmed: Confirmed) -> CountBand:
    """Return the band of the replica count: the extremes over doubts taken one at a time."""
    count, counts = decision.replicas, confirmed.counts
    highs = [high for _, high in counts.values()]
    return CountBand(
        low=min(low for low, _ in counts.values()),
        high=None if None in highs else max(high for high in highs if high is not None),
        terms={
            name: max((math.inf if high is None else high) - count, count - low) / count
            for name, (low, high) in counts.items()
        },
        counts=dict(counts),
    )


def gpu_count(decision: Decision, replicas: Count) -> Count:
    """Return the fleet's GPUs with their band, other configurations under a doubt included.

    Where no count of the plan's configuration holds under a doubt, the cheapest that would hold
    then makes the band's end; None where none does.
    """
    each, spare = decision.deployment.gpus, decision.case.slo.spare_replicas
    high = None if replicas.high is None else replicas.high * each
    if decision.confirmed is not None:
        counts = decision.confirmed.counts.values()
        highs = [(most + spare) * each for _, most in counts if most is not None]
        others = [found.gpus for found in decision.confirmed.unheld]
        known = [gpus for gpus in others if gpus is not None]
        high = None if None in others else max(replicas.value * each, *highs, *known)
    return Count(value=replicas.value * each, low=replicas.low * each, high=high)
