"""The surge against what each budget sustains beside its decodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.candidates import BUDGETS, sized
from planner.solve.capacity import Configs, Judged, capacity_factors
from planner.solve.case import Decision
from planner.solve.demand import busiest, whole_classes
from planner.solve.estimate import checks_of
from planner.solve.fleet import for_load
from planner.solve.plan import BudgetRow, Surge
from planner.solve.search import configs_of
from planner.solve.steady import State, lanes, steady
from planner.solve.steps import stretched
from planner.solve.stretch import BLOCK_S, LEAD_S, Stretch, stretch_of

Floats = NDArray[np.float64]

MINUTE_S, TEN_MINUTES_S = 60.0, 600.0
SMALLEST_SURGE_BUDGET = 512
FLAT_SAMPLE = 1500


def surge(decision: Decision) -> Surge:
    """Return prompt demand at three time scales and every budget's supply against it.

    Demand is the whole fleet's after sample rate and growth. Supply is that of one replica running
    full steps beside the decodes it has in the busiest ten minutes.
    """
    case, traffic = decision.case, decision.demand.traffic
    fleet = case.needs.fleet_factor
    mean = float(traffic.prompt_tokens[traffic.served].sum()) / traffic.span_s
    ten, ten_start = _busiest(decision, TEN_MINUTES_S)
    minute, minute_start = _busiest(decision, MINUTE_S)
    rows = _budget_rows(decision, mean * fleet, ten * fleet, minute * fleet, ten_start)
    flat, even = evenly_spread(decision)
    worse = any(row.utilization_mean < 1.0 and row.verdict != "holds" for row in rows)
    return Surge(
        mean_prompt_tokens_per_s=mean * fleet,
        busiest_10min_prompt_tokens_per_s=ten * fleet,
        busiest_minute_prompt_tokens_per_s=minute * fleet,
        busiest_10min_start_s=ten_start,
        busiest_minute_start_s=minute_start,
        decides=flat < decision.replicas or worse,
        mean_requests_per_s=int(traffic.served.sum()) / traffic.span_s * fleet,
        even_capacity_requests_per_s=even,
        replicas_for_mean=flat,
        replicas=decision.replicas,
        band_share=decision.cost.band,
        launch_s=decision.cost.launch_s,
        budgets=rows,
    )


def _busiest(decision: Decision, length_s: float) -> tuple[float, float]:
    """Return the most prompt tokens/s over a time and when it starts.

    Counted from request to request; of a sampled trace, in the estimated rate of the service.
    """
    traffic, stretch = decision.demand.traffic, decision.whole.stretch
    if traffic.sample_rate >= 1.0:
        return busiest(traffic, traffic.prompt_tokens, length_s, 0.0, traffic.span_s)
    width = max(1, min(len(stretch.bin_tokens), round(length_s / stretch.bin_s)))
    total = np.concatenate([[0.0], np.cumsum(stretch.bin_tokens)])
    means = (total[width:] - total[:-width]) / width
    best = int(np.argmax(means))
    return float(means[best]), best * stretch.bin_s


def _budget_rows(
    decision: Decision, mean: float, ten: float, minute: float, start_s: float
) -> tuple[BudgetRow, ...]:
    traffic = decision.demand.traffic
    end = min(traffic.span_s, start_s + TEN_MINUTES_S)
    begin = max(0.0, min(start_s, end - TEN_MINUTES_S))
    stretch = stretch_of(traffic, (), start_s=begin, end_s=end)
    budgets = sorted(
        {b for b in BUDGETS if b >= SMALLEST_SURGE_BUDGET}
        | {decision.deployment.max_num_batched_tokens}
    )
    configs = _configs(decision, budgets)
    cost = decision.case.cost(decision.with_budget(max(budgets)))
    band = cost.band
    rows = []
    # The launch of a step that carries prefill is one fitted constant. An engine that captures such
    # steps in graphs hides it, so the fast reading is without it: small budgets are a knife's edge.
    hidden = replace(cost, launch_s=0.0)
    expected, slow, fast, bare = (
        _supplies(decision, each, stretch, configs)
        for each in (cost, stretched(cost, 1.0 + band), stretched(cost, 1.0 - band), hidden)
    )
    fleet = float(decision.replicas)
    for index, budget in enumerate(budgets):
        supply, step_s, seqs = (float(column[index]) for column in expected)
        launched, hidden_launch = float(fast[0][index]), float(bare[0][index])
        low, high = float(slow[0][index]), max(launched, hidden_launch)
        rows.append(
            BudgetRow(
                max_num_batched_tokens=budget,
                step_s=step_s,
                decode_seqs=seqs,
                prompt_tokens_per_s=supply,
                low_prompt_tokens_per_s=low,
                high_prompt_tokens_per_s=high,
                utilization_mean=mean / (fleet * supply),
                utilization_busiest_10min=ten / (fleet * supply),
                utilization_busiest_minute=minute / (fleet * supply),
                fast_end="launch_hidden" if hidden_launch > launched else "step_time",
                verdict=verdict(ten, fleet * low, fleet * high),
            )
        )
    return tuple(rows)


def verdict(demand: float, low_supply: float, high_supply: float) -> str:
    """Return what a surge does to a budget whose supply is known within a band.

    It holds with the whole band, overloads with the whole band, or is on a knife's edge.

    >>> verdict(10.0, 11.0, 13.0), verdict(10.0, 9.0, 12.0), verdict(10.0, 8.0, 9.0)
    ('holds', 'knife_edge', 'overloads')
    """
    if demand <= low_supply:
        return "holds"
    return "knife_edge" if demand <= high_supply else "overloads"


def _configs(decision: Decision, budgets: list[int]) -> Configs:
    """Return the chosen configuration with each budget; memory follows the budget."""
    case, gpu = decision.case, decision.case.gpu(decision.deployment.gpu)
    return configs_of(
        [sized(case.model, gpu, case.engine, decision.with_budget(b)) for b in budgets]
    )


def _supplies(
    decision: Decision, cost: StepCost, stretch: Stretch, configs: Configs
) -> tuple[Floats, Floats, Floats]:
    """Return prompt tokens/s, full step and decodes of each budget, mean over the ten minutes."""
    at = lanes(
        np.full(len(configs), decision.load),
        configs.max_num_batched_tokens,
        configs.max_num_seqs,
        np.maximum(configs.kv_tokens, 1.0),
    )
    state = steady(cost, stretch, at, mixes=decision.case.mixes)
    lead = int(min(stretch.start_s, LEAD_S) // BLOCK_S)
    return _mean(state, lead)


def _mean(state: State, lead: int) -> tuple[Floats, Floats, Floats]:
    return (
        state.budget_supply[:, lead:].mean(axis=1),
        state.full_gap_s[:, lead:].mean(axis=1),
        state.decodes[:, lead:].mean(axis=1),
    )


def evenly_spread(decision: Decision) -> tuple[int, float]:
    """Return what the same traffic would need if it came evenly over the trace.

    The replicas for load, and the requests/s one of them carries within every target: by the
    equations, scaled to what replay found of the plan.
    """
    case, traffic = decision.case, decision.demand.traffic
    even = flattened(whole_classes(decision.whole.stretch, FLAT_SAMPLE))
    checks = checks_of(even, case.slo.classes, traffic.class_names)
    factors = capacity_factors(
        decision.cost,
        [Judged(stretch=even, checks=checks)],
        decision.configs,
        mixes=case.mixes,
    )
    factor = float(factors[0]) * case.correction
    count = for_load(case.needs, factor)
    rate = int(traffic.served.sum()) / traffic.span_s
    return decision.replicas if count is None else min(count, decision.replicas), rate * factor


def flattened(stretch: Stretch) -> Stretch:
    """Return the stretch with its demand spread evenly: two blocks of the mean."""
    blocks, bins = 2, max(2, round(2 * stretch.block_s / stretch.bin_s))
    rate = float(stretch.bin_tokens.mean())
    sample = stretch.sample
    middle = np.zeros(len(sample.time_s), dtype=np.int64)
    return replace(
        stretch,
        start_s=0.0,
        bin_tokens=np.full(bins, rate),
        bin_block=np.minimum(np.arange(bins) * blocks // bins, blocks - 1),
        block_tokens=np.full(blocks, rate),
        residents=np.repeat(stretch.residents.mean(axis=1, keepdims=True), blocks, axis=1),
        held=np.repeat(stretch.held.mean(axis=1, keepdims=True), blocks, axis=1),
        sample=replace(
            sample,
            time_s=np.full(len(middle), stretch.block_s),
            bin=middle + bins // 2,
            block=middle + 1,
        ),
    )
