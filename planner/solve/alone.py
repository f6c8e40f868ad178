"""What a target would be without any wait: every request with a replica to itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.sim.load import subset
from planner.sim.replay import replay
from planner.solve.candidates import sized, with_utilization
from planner.solve.case import Decision
from planner.solve.verify import Span, Trial, trial_of
from planner.spec.slo import WorkloadClass

APART_S = 20_000.0  # between arrivals: longer than any request takes by itself


def alone_s(trial: Trial, span: Span, declared: WorkloadClass) -> dict[tuple[str, float], float]:
    """Return each target of a class as if its requests in a window came one after the other's end.

    Queues and batches are gone, and one cache has seen every prefix: no number of replicas does
    better. Keyed by metric and percentile; a class without requests there has none.

    Parameters
    ----------
    trial
        The configuration with its trace.
    span
        The window.
    declared
        The class and its targets.
    """
    trace = trial.requests
    which = trace.class_names.index(declared.name)
    inside = (trace.arrival_s >= span[0]) & (trace.arrival_s <= span[1])
    mine = subset(trace, inside & (trace.class_id == which))
    if not len(mine):
        return {}
    apart = replace(mine, arrival_s=APART_S * np.arange(len(mine), dtype=np.float64))
    found = replay(
        apart,
        trial.cost,
        trial.settings,
        classes=[declared],
        bin_s=APART_S * len(mine),
        use_cached_tokens=not len(mine.block_ids) and bool(mine.cached_tokens.any()),
    )
    trial.tally.replays += 1
    trial.tally.requests += len(mine)
    return {
        (result.target.metric, result.target.percentile): result.whole_s
        for result in found.targets
        if result.windows
    }


def smaller_replica(decision: Decision) -> Trial | None:
    """Return the plan's settings on half as many GPUs; None where they do not fit or replay."""
    case, chosen = decision.case, decision.deployment
    if decision.confirmed is None or chosen.tensor_parallel_size == 1:
        return None
    half = replace(
        chosen,
        tensor_parallel_size=chosen.tensor_parallel_size // 2,
        max_model_len=case.model.max_model_len,
    )
    gpu = case.gpu(chosen.gpu)
    candidate = sized(
        case.model, gpu, case.engine, with_utilization(gpu, case.engine, case.slo, half)
    )
    if not candidate.memory.fits or candidate.deployment.max_model_len < case.longest_tokens:
        return None
    return trial_of(
        case,
        decision.demand.traffic,
        decision.demand.windows,
        candidate,
        case.cost(candidate.deployment),
        decision.cached,
        tally=decision.confirmed.trial.tally,
    )
