"""The findings of a plan: which of the theory's statements apply here, with their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.solve.case import Decision
from planner.solve.chunk import NEXT_TOKEN
from planner.solve.demand import busiest
from planner.solve.estimate import estimate
from planner.solve.findings import finding
from planner.solve.fleet import replica_factor
from planner.solve.moved import history_cached
from planner.solve.plan import Finding, LatencyRow
from planner.solve.remarks_engine import Parts, chunk_remarks, longest_gap_s, memory_remarks
from planner.solve.remarks_floor import floor_remarks
from planner.solve.replayed import after_loss
from planner.solve.surge import MINUTE_S, TEN_MINUTES_S
from planner.solve.traffic import QUANTUM_WORTH_SPREADING_S

PORTRAIT_LONG, PORTRAIT_SHORT = 10.0, 1.0  # input:output ratios of the theory's portraits
PORTRAIT_FEW_DECODES, PORTRAIT_MANY_DECODES = 16.0, 32.0
BURSTY_PEAK = 1.5  # busiest minute over mean
SHORT_TRACE_S = 86_400.0
LONG_OVER_SHORT = 3.0  # a class whose prompts are this much longer interferes with another


def remarks(parts: Parts) -> tuple[Finding, ...]:
    """Return every finding that applies, in the order a report tells them."""
    return (
        *_binding(parts),
        *_surge(parts),
        *chunk_remarks(parts),
        *memory_remarks(parts),
        *_fleet(parts),
        *_traffic(parts),
        *_basis(parts),
    )


def _finite_margin(row: LatencyRow) -> float:
    return row.margin if math.isfinite(row.margin) else -math.inf


def _binding(parts: Parts) -> Iterator[Finding]:
    nearest = min(parts.latency, key=_finite_margin, default=None)
    if nearest is not None:
        yield finding(
            "target_nearest",
            class_name=nearest.class_name,
            metric=nearest.metric,
            percentile=nearest.percentile,
            worst_s=nearest.worst_s,
            limit_s=nearest.limit_s,
            window=nearest.worst_window,
        )
    for row in parts.latency:
        if row.binds:
            yield from floor_remarks(parts, row)


def _surge(parts: Parts) -> Iterator[Finding]:
    surge = parts.surge
    rates = {
        "mean_prompt_tokens_per_s": surge.mean_prompt_tokens_per_s,
        "busiest_10min_prompt_tokens_per_s": surge.busiest_10min_prompt_tokens_per_s,
        "busiest_minute_prompt_tokens_per_s": surge.busiest_minute_prompt_tokens_per_s,
    }
    if surge.decides:
        yield finding(
            "surge_decides",
            **rates,
            mean_requests_per_s=surge.mean_requests_per_s,
            even_capacity_requests_per_s=surge.even_capacity_requests_per_s,
            headroom_share=parts.decision.case.slo.headroom,
            replicas_for_mean=surge.replicas_for_mean,
            replicas=surge.replicas,
        )
    else:
        yield finding("surge_does_not_decide", **rates)
    demand = surge.busiest_10min_prompt_tokens_per_s / surge.replicas
    for row in surge.budgets:
        if row.verdict == "knife_edge":
            yield finding(
                "knife_edge",
                max_num_batched_tokens=row.max_num_batched_tokens,
                step_s=row.step_s,
                supply_tokens_per_s=row.prompt_tokens_per_s,
                low_supply_tokens_per_s=row.low_prompt_tokens_per_s,
                high_supply_tokens_per_s=row.high_prompt_tokens_per_s,
                demand_tokens_per_s=demand,
                fast_end=row.fast_end,
                launch_s=surge.launch_s,
            )
        elif row.verdict == "overloads":
            yield finding(
                "budget_overloads",
                max_num_batched_tokens=row.max_num_batched_tokens,
                supply_tokens_per_s=row.prompt_tokens_per_s,
                demand_tokens_per_s=demand,
            )


def _fleet(parts: Parts) -> Iterator[Finding]:
    decision = parts.decision
    if decision.replicas + decision.case.slo.spare_replicas == 1:
        yield finding("single_replica", replicas=1)
        return
    row = next((row for row in parts.latency if row.binds), None)
    if row is None:
        return
    yield finding(
        "one_replica_lost",
        class_name=row.class_name,
        metric=row.metric,
        percentile=row.percentile,
        limit_s=row.limit_s,
        attainment_share=_attained_after_loss(decision, row),
        replicas=decision.replicas + decision.case.slo.spare_replicas,
    )
    yield from _node(decision)


def _node(decision: Decision) -> Iterator[Finding]:
    """Yield how many replicas a node can take with it, where that is more than the spares."""
    spare = decision.case.slo.spare_replicas
    replicas, each = decision.replicas + spare, decision.deployment.gpus
    node = decision.case.gpu(decision.deployment.gpu).gpus_per_node
    there = min(replicas, node // each)
    if there > spare > 0:
        yield finding(
            "node_holds_replicas",
            gpus_per_node=node,
            replicas_per_node=there,
            replicas=replicas,
            spare=spare,
        )


def _traffic(parts: Parts) -> Iterator[Finding]:
    """Yield which of the theory's portraits the traffic resembles."""
    profile = parts.decision.case.profile
    for each in profile.classes:
        mean_in, mean_out = each.input_tokens.mean, max(each.output_tokens.mean, 1e-9)
        name = portrait(mean_in / mean_out, parts.chunk.decode_seqs)
        if name:
            yield finding(
                name, class_name=each.name, mean_input_tokens=mean_in, mean_output_tokens=mean_out
            )
    arrivals = profile.total.arrivals
    if arrivals.peak_to_mean_60s >= BURSTY_PEAK:
        yield finding(
            "mixed_burst", peak_to_mean_1min=arrivals.peak_to_mean_60s, gap_cv=arrivals.gap_cv
        )
    yield from _interference(parts)


def portrait(input_per_output: float, decode_seqs: float) -> str | None:
    """Return the portrait of the theory that a class resembles, if any.

    >>> portrait(40.0, 8.0), portrait(0.25, 64.0), portrait(5.0, 32.0)
    ('long_prompt_low_concurrency', 'short_prompt_high_concurrency', None)
    """
    if input_per_output >= PORTRAIT_LONG and decode_seqs < PORTRAIT_FEW_DECODES:
        return "long_prompt_low_concurrency"
    if input_per_output <= PORTRAIT_SHORT and decode_seqs >= PORTRAIT_MANY_DECODES:
        return "short_prompt_high_concurrency"
    return None


def _interference(parts: Parts) -> Iterator[Finding]:
    """Yield the long class whose chunks stretch the tokens of a short one that is promised them."""
    by_prompt = sorted(parts.decision.case.profile.classes, key=lambda c: c.input_tokens.p99)
    watched = {row.class_name for row in parts.latency if row.metric in NEXT_TOKEN}
    short = next((c for c in by_prompt if c.name in watched), by_prompt[0])
    long = by_prompt[-1]
    if long.input_tokens.p99 < LONG_OVER_SHORT * short.input_tokens.p99:
        return
    yield finding(
        "mixed_class_interference",
        long_class=long.name,
        short_class=short.name,
        long_prompt_tokens=long.input_tokens.p99,
        gap_s=longest_gap_s(
            parts.decision.cost,
            parts.chunk,
            long.input_tokens.p99,
            float(parts.chunk.chosen_tokens),
            mixes=parts.decision.case.mixes,
        ),
    )


def _attained_after_loss(decision: Decision, row: LatencyRow) -> float:
    """Return what is left of a target's attainment with one replica fewer."""
    if decision.confirmed is not None:
        lost = after_loss(decision, decision.confirmed)
        return lost.get((row.class_name, row.metric, row.percentile), 1.0)
    found = estimate(
        decision.cost,
        decision.whole.stretch,
        decision.at(
            replica_factor(
                decision.case.needs, decision.replicas + decision.case.slo.spare_replicas - 1
            )
        ),
        decision.whole.checks,
        mixes=decision.case.mixes,
    )
    names = decision.demand.traffic.class_names
    attained = [
        float(found.attainment[0, index])
        for index, check in enumerate(decision.whole.checks)
        if (check.target.metric, check.target.percentile) == (row.metric, row.percentile)
        and names[decision.whole.stretch.windows[check.window].class_id] == row.class_name
    ]
    return min(attained, default=1.0)


def _verdict(decision: Decision) -> Finding:
    """Say whether a replay stands behind the percentiles, and how far off the equations were."""
    confirmed = decision.confirmed
    if confirmed is None:
        return finding("replay_pending")
    return finding(
        "verified",
        requests=len(confirmed.whole),
        simulated_replicas=confirmed.whole.replicas,
        replicas=decision.replicas,
        preemptions=confirmed.whole.totals.preemptions,
        screen_ratio=confirmed.screen_ratio,
    )


def _unsmoothed(parts: Parts) -> dict[str, float]:
    """Return the surge of a sampled trace as it stands, and the share of the supply that it is."""
    decision, surge = parts.decision, parts.surge
    traffic, fleet = decision.demand.traffic, decision.case.needs.fleet_factor
    budget = decision.deployment.max_num_batched_tokens
    row = next(each for each in surge.budgets if each.max_num_batched_tokens == budget)
    found: dict[str, float] = {}
    for name, length_s in (("raw_10min", TEN_MINUTES_S), ("raw_minute", MINUTE_S)):
        rate, _ = busiest(traffic, traffic.prompt_tokens, length_s, 0.0, traffic.span_s)
        found[f"{name}_tokens_per_s"] = rate * fleet
        found[f"{name}_use_share"] = rate * fleet / (surge.replicas * row.prompt_tokens_per_s)
    return found


def _basis(parts: Parts) -> Iterator[Finding]:
    """Yield what the answer rests on."""
    decision = parts.decision
    case, profile = decision.case, decision.case.profile
    yield _verdict(decision)
    yield from _prefix(parts)
    if case.slo.sample_rate < 1.0:
        yield finding(
            "sampling_thins_bursts",
            sample_rate=case.slo.sample_rate,
            load_factor=decision.load,
            **_unsmoothed(parts),
        )
    yield from _merged(parts.latency)
    quantum = profile.total.arrivals.time_quantum_s
    if quantum >= QUANTUM_WORTH_SPREADING_S:
        yield finding("quantised_timestamps", quantum_s=quantum)
    if profile.span_s < SHORT_TRACE_S:
        yield finding("short_trace", span_s=profile.span_s)
    yield from _catalogue(parts)
    targeted = {declared.name for declared in case.slo.classes if declared.targets}
    for each in profile.classes:
        if each.name not in targeted:
            yield finding("class_without_target", class_name=each.name, requests=each.requests)
    yield finding("published_gains_are_evidence")


def _prefix(parts: Parts) -> Iterator[Finding]:
    decision = parts.decision
    reuse = decision.case.profile.total.reuse
    share = reuse.hit_share_by_cache_blocks.get("inf", 0.0) if reuse is not None else 0.0
    if share > 0.0:
        yield finding(
            "prefix_cache_assumption",
            reusable_share=share,
            used_share=_used_share(decision, share),
            replicas=decision.replicas,
        )
    elif decision.case.slo.prefix_caching:
        yield finding("prefix_reuse_unknown")
        requests = decision.case.requests
        if decision.confirmed is not None and history_cached(requests).cached_tokens.any():
            yield finding("sessions_may_reuse", sessions=int(requests.session_id.max()) + 1)


def _used_share(decision: Decision, reusable: float) -> float:
    """Return the share of input tokens taken from the cache: as replayed, else as estimated."""
    if decision.confirmed is not None and len(decision.case.requests.block_ids):
        return decision.confirmed.whole.hit_share
    return reusable * decision.cached


def _merged(latency: tuple[LatencyRow, ...]) -> Iterator[Finding]:
    """Yield each class whose windows were merged, once."""
    merged: dict[str, LatencyRow] = {}
    for row in latency:
        if row.merged_windows > 1:
            merged.setdefault(row.class_name, row)
    for name, row in merged.items():
        yield finding(
            "few_requests_windows_merged",
            class_name=name,
            requests=row.requests_in_window,
            windows=row.merged_windows,
        )


def _catalogue(parts: Parts) -> Iterator[Finding]:
    """Yield what is missing in the catalogues."""
    case, gpu_id = parts.decision.case, parts.decision.deployment.gpu
    if case.calibrations[gpu_id].evidence == "generic":
        yield finding("unvalidated_range", gpu=gpu_id, band_share=parts.decision.cost.band)
    for gpu in case.gpus:
        if case.price(gpu)[0] is None:
            yield finding("price_unknown", gpu=gpu.id)
