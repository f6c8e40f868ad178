"""A constant load on one replica, and what it must show if the plan is right: it can refute it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.sim.metrics import gap_percentile, percentile_of
from planner.sim.replay import Replay, replay
from planner.sim.settings import SchedulerSettings
from planner.solve.case import Decision
from planner.solve.plan import Finding, LatencyRow, LoadTest, LoadTestRow, ReplicaTerms
from planner.solve.steps import stretched

TEST_S = 600.0  # long enough for p99 at a few requests a second
FEWEST, MOST = 100, 7_500  # prompts: beyond, a shorter test has enough for p99
REPLAYED_REQUESTS = 45_000  # of all runs together: below a tenth of a second
MOST_RUNS = 8  # of each step time

Reading = tuple[str, float | None]  # metric and percentile; None: the mean

MEANS: tuple[Reading, ...] = (("ttft_s", None), ("tpot_s", None))  # luck moves these least


def load_test(
    decision: Decision,
    terms: ReplicaTerms,
    latency: Sequence[LatencyRow],
    findings: Iterable[Finding],
) -> LoadTest:
    """Return the load test of one replica, with what each percentile is expected to be.

    The run itself is replayed: so many prompts of equal length through the plan's scheduler and
    step costs, at Poisson arrivals as the generator draws them, from an idle replica to the last
    token. Several draws at the expected step time and at both ends of its band: `expected_s` is
    the mean of the draws, `low_s` the least with fast steps, `high_s` the most with slow ones, so
    that the luck of one run lies inside.

    Parameters
    ----------
    decision
        The plan.
    terms
        Rate and mean lengths of the window that decides.
    latency
        The plan's targets: of each percentile the least limit is kept.
    findings
        Say what the plan takes from the prefix cache, which random prompts do not share.
    """
    rate, prompts = _stated(terms.capacity_requests_per_s), FEWEST
    if math.isfinite(rate):
        prompts = min(MOST, max(FEWEST, math.ceil(rate * TEST_S / 100) * 100))
    limits: dict[Reading, LatencyRow] = {
        (row.metric, row.percentile): row for row in tightest(latency)
    }
    asked: tuple[Reading, ...] = (*MEANS, *limits)
    lengths = (
        max(1, round(terms.mean_input_tokens * (1.0 - reused_share(findings)))),
        max(1, round(terms.mean_output_tokens)),
    )
    runs, found = 0, dict.fromkeys(asked, (math.nan, math.nan, math.nan))
    if decision.confirmed is not None and 0.0 < rate < math.inf:
        runs = max(1, min(MOST_RUNS, REPLAYED_REQUESTS // (3 * prompts)))
        found = expected(decision, rate, lengths, prompts, runs, asked)
    rows = (_row(each, found[each], limits.get(each)) for each in asked)
    return LoadTest(
        requests_per_s=rate,
        input_tokens=lengths[0],
        output_tokens=lengths[1],
        prompts=prompts,
        runs=runs,
        band_share=decision.cost.band,
        rows=tuple(row for row in rows if runs or row.limit_s is not None),
    )


def _stated(rate: float) -> float:
    """Return the rate as the command states it."""
    return float(f"{rate:.3g}")


def reused_share(findings: Iterable[Finding]) -> float:
    """Return the share of input tokens that the plan takes from the prefix cache."""
    for finding in findings:
        value = finding.values.get("used_share")
        if finding.id == "prefix_cache_assumption" and isinstance(value, (int, float)):
            return float(value)
    return 0.0


def tightest(latency: Iterable[LatencyRow]) -> list[LatencyRow]:
    """Return, of each metric's percentile, the target with the least limit."""
    found: dict[tuple[str, float], LatencyRow] = {}
    for row in latency:
        key = (row.metric, row.percentile)
        if key not in found or row.limit_s < found[key].limit_s:
            found[key] = row
    return list(found.values())


def expected(
    decision: Decision,
    rate: float,
    lengths: tuple[int, int],
    prompts: int,
    runs: int,
    asked: Sequence[Reading],
) -> dict[Reading, tuple[float, float, float]]:
    """Return each reading: the mean as expected, the least with fast and the most with slow steps.

    The same draws at each step time, so that only the steps differ.
    """
    assert decision.confirmed is not None
    trial, band = decision.confirmed.trial, decision.cost.band
    fills = decision.deployment.engine == "vllm"
    loads = [
        constant_load(rate, prompts, lengths, seed=trial.seed + run, fills_time=fills)
        for run in range(runs)
    ]

    def measured(factor: float) -> list[dict[Reading, float]]:
        cost = stretched(trial.cost, factor)
        return [readings(load, cost, trial.settings, asked) for load in loads]

    fast, usual, slow = (measured(factor) for factor in (1.0 - band, 1.0, 1.0 + band))
    return {
        each: (
            sum(run[each] for run in usual) / runs,
            min(run[each] for run in fast),
            max(run[each] for run in slow),
        )
        for each in asked
    }


def constant_load(
    rate: float, prompts: int, lengths: tuple[int, int], *, seed: int, fills_time: bool
) -> Requests:
    """Return `prompts` requests of equal lengths at Poisson arrivals.

    Parameters
    ----------
    rate
        Requests/s.
    prompts
        How many.
    lengths
        Input and output tokens of each.
    seed
        Which draw.
    fills_time
        Stretch the arrivals so that the last comes at prompts/rate exactly, as `vllm bench serve`
        does (`get_request`, vLLM 0.11 and later); `sglang.bench_serving` takes them as drawn.
    """
    gaps = np.random.default_rng(seed).exponential(1.0 / rate, prompts)
    arrival = np.cumsum(gaps)
    if fills_time:
        arrival *= prompts / rate / arrival[-1]
    zeros = np.zeros(prompts, np.int64)
    return Requests(
        arrival_s=arrival,
        input_tokens=zeros + lengths[0],
        output_tokens=zeros + lengths[1],
        class_id=zeros,
        class_names=("all",),
        cached_tokens=zeros,
        session_id=zeros - 1,
    )


def readings(
    load: Requests, cost: StepCost, settings: SchedulerSettings, asked: Sequence[Reading]
) -> dict[Reading, float]:
    """Return what a generator would print of a run: each metric's mean or percentile in s."""
    found = replay(load, cost, settings)
    return {each: _read(found, *each) for each in asked}


def _read(found: Replay, metric: str, percentile: float | None) -> float:
    if metric == "itl_s":
        assert percentile is not None
        return gap_percentile(found.gaps.sum(axis=(0, 1)), percentile)
    values = _known({"ttft_s": found.ttft_s, "tpot_s": found.tpot_s, "e2e_s": found.e2e_s}[metric])
    if percentile is None:
        return float(values.mean()) if len(values) else math.nan
    return percentile_of(values, percentile)


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]


def _row(
    reading: Reading, found: tuple[float, float, float], target: LatencyRow | None
) -> LoadTestRow:
    usual, low, high = found
    limit = None if target is None else target.limit_s
    return LoadTestRow(
        metric=reading[0],
        percentile=reading[1],
        expected_s=usual,
        low_s=low,
        high_s=high,
        limit_s=limit,
        limit_class="" if target is None else target.class_name,
        refuted_above_s=_refuted_above(usual, high, limit),
    )


def _refuted_above(usual: float, high: float, limit: float | None) -> float:
    """Return the largest value that still agrees with the plan.

    The slow end of the band, and no more than the target. A run that is expected beyond the target
    says nothing of it: requests of mean length are not those of the class that set it.

    >>> _refuted_above(0.03, 0.04, 0.05), _refuted_above(0.03, 0.06, 0.05)
    (0.04, 0.05)
    >>> _refuted_above(0.6, 0.7, 0.5), _refuted_above(math.nan, math.nan, 0.5)
    (0.7, 0.5)
    """
    if limit is None or usual > limit:
        return high
    return limit if math.isnan(high) else min(high, limit)
