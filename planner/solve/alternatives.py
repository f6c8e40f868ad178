"""The deployments a colleague would ask about, and the reason each lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from planner.perf.cost import usd_per_hour
from planner.solve.allowed import not_listed
from planner.solve.candidates import (
    BUDGETS,
    SEQUENCES,
    TENSOR_SIZES,
    Candidate,
    default_deployment,
    expert_parallelism,
    sized,
    with_utilization,
)
from planner.solve.capacity import capacity_factors
from planner.solve.case import Decision
from planner.solve.chunk import target_name
from planner.solve.estimate import Estimate, estimate, percentile_s
from planner.solve.fleet import for_load, replica_factor
from planner.solve.plan import Alternative
from planner.solve.search import Option, configs_of
from planner.solve.sensitivity import least_count
from planner.solve.steady import lanes
from planner.spec.deployment import Deployment
from planner.text import counted

SAME_COST = 1e-9


def alternatives(decision: Decision, options: Sequence[Option]) -> tuple[Alternative, ...]:
    """Return the plan's neighbours and the other GPUs, cheapest first.

    Parameters
    ----------
    decision
        The plan.
    options
        What the search computed, for the best settings of other GPUs and sizes.
    """
    rows: list[Alternative] = []
    seen = {decision.deployment}
    for label, deployment in _wanted(decision, options):
        if deployment not in seen:
            seen.add(deployment)
            rows.append(_judge(decision, label, deployment))
    order = {"engine defaults": 0}
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                order.get(row.label, 1),
                row.usd_per_hour if row.usd_per_hour is not None else np.inf,
                row.gpus if row.gpus is not None else np.inf,
                row.label,
            ),
        )
    )


def _wanted(decision: Decision, options: Sequence[Option]) -> Iterator[tuple[str, Deployment]]:
    """Yield (label, deployment) of what is compared."""
    case, chosen = decision.case, decision.deployment
    gpu = case.gpu(chosen.gpu)
    yield "engine defaults", default_deployment(case.model, gpu, case.engine, chosen)
    for word, budget in _neighbours(BUDGETS, chosen.max_num_batched_tokens):
        if budget >= chosen.max_num_seqs:
            yield f"{word} max_num_batched_tokens", replace(chosen, max_num_batched_tokens=budget)
    for word, seqs in _neighbours(SEQUENCES, chosen.max_num_seqs):
        if seqs <= chosen.max_num_batched_tokens:
            yield f"{word} max_num_seqs", replace(chosen, max_num_seqs=seqs)
    yield from _layouts(decision)
    yield from _dtypes(decision)
    for other in case.gpus:
        if other.id != gpu.id:
            yield from _other_gpu(decision, other.id, options)


def _neighbours(grid: Sequence[int], value: int) -> list[tuple[str, int]]:
    """Return the next larger and the next smaller value of a grid, where there are any.

    >>> _neighbours((1, 2, 4), 2)
    [('larger', 4), ('smaller', 1)]
    """
    above = [("larger", x) for x in grid if x > value][:1]
    return above + [("smaller", x) for x in grid if x < value][-1:]


def _layouts(decision: Decision) -> Iterator[tuple[str, Deployment]]:
    """Yield the next tensor-parallel sizes."""
    case, chosen = decision.case, decision.deployment
    gpu = case.gpu(chosen.gpu)
    for size in TENSOR_SIZES:
        if size in (chosen.tensor_parallel_size // 2, chosen.tensor_parallel_size * 2):
            divides = case.model.num_attention_heads % size == 0
            if size >= 1 and divides and size <= gpu.gpus_per_node:
                moved = replace(
                    chosen,
                    tensor_parallel_size=size,
                    max_model_len=case.model.max_model_len,
                    expert_parallel=chosen.expert_parallel and size > 1,
                )
                yield f"same settings, TP{size}", moved
    either = replace(case.slo, expert_parallel=None)
    for spread in expert_parallelism(case.model, case.engine, either, chosen):
        name = "whole experts on each GPU" if spread else "experts cut over the GPUs"
        yield name, replace(chosen, expert_parallel=spread)


def _dtypes(decision: Decision) -> Iterator[tuple[str, Deployment]]:
    """Yield fp8 weights where the engine can make them and the GPU multiplies them."""
    case, chosen = decision.case, decision.deployment
    gpu = case.gpu(chosen.gpu)
    if chosen.weight_dtype in ("bf16", "fp16") and "fp8" in gpu.peak_flops_per_s:
        yield "fp8 weights", replace(chosen, weight_dtype="fp8")


def _other_gpu(
    decision: Decision, gpu_id: str, options: Sequence[Option]
) -> Iterator[tuple[str, Deployment]]:
    """Yield the best known settings on another GPU, or the plan's own there.

    Tensor parallelism stays inside that GPU's node.
    """
    by_price = decision.case.by_price
    there = [o for o in options if o.candidate.deployment.gpu == gpu_id]
    if there:
        best = min(there, key=lambda o: (o.expense(by_price), -o.factor))
        yield f"on {gpu_id}", best.candidate.deployment
    else:
        chosen, node = decision.deployment, decision.case.gpu(gpu_id).gpus_per_node
        size = max(s for s in (1, *TENSOR_SIZES) if s <= min(chosen.tensor_parallel_size, node))
        yield f"on {gpu_id}", replace(chosen, gpu=gpu_id, tensor_parallel_size=size)


def _judge(decision: Decision, label: str, deployment: Deployment) -> Alternative:
    case = decision.case
    gpu = case.gpu(deployment.gpu)
    deployment = with_utilization(gpu, case.engine, case.slo, deployment)
    candidate = sized(case.model, gpu, case.engine, deployment)
    if not candidate.memory.fits or candidate.memory.kv_tokens < case.longest_tokens:
        return _unfit(label, candidate, case.longest_tokens)
    count = _replicas(decision, candidate)
    if count is None:
        detail = first_miss(decision, candidate, decision.replicas)
        return _alternative(label, candidate, None, None, "violates", detail)
    replicas = count + case.slo.spare_replicas
    price, _ = case.price(gpu)
    gpus = replicas * candidate.deployment.gpus
    usd = None if price is None else usd_per_hour(gpus, price)
    reason, detail = _why(decision, candidate, count, gpus, usd, deployment)
    return _alternative(label, candidate, replicas, usd, reason, detail)


def _replicas(decision: Decision, candidate: Candidate) -> int | None:
    """Return the replicas for load that the candidate needs."""
    case = decision.case
    cost = case.cost(candidate.deployment)
    share = decision.deployment.gpus / candidate.deployment.gpus
    around = max(1, round(decision.replicas * share))
    configs = configs_of([candidate])
    count = least_count(cost, decision.judged, configs, case.screen_needs, around, mixes=case.mixes)
    if count is not None:
        return count
    factor = capacity_factors(cost, decision.judged, configs, mixes=case.mixes)
    return for_load(case.screen_needs, float(factor[0]))


def _why(
    decision: Decision,
    candidate: Candidate,
    count: int,
    gpus: int,
    usd: float | None,
    deployment: Deployment,
) -> tuple[str, str]:
    """Return why the plan was preferred."""
    case = decision.case
    chosen_gpus = (decision.replicas + case.slo.spare_replicas) * decision.deployment.gpus
    price, _ = case.price(case.gpu(decision.deployment.gpu))
    ours, theirs = float(chosen_gpus), float(gpus)
    if price and usd is not None:  # a GPU declared to cost nothing is compared by the count
        ours, theirs = chosen_gpus * price, usd
    change = theirs / ours - 1.0
    barred = not_listed(decision, deployment)
    note = f"; slo.yaml does not list {', '.join(barred)}" if barred else ""
    if abs(change) <= SAME_COST:
        if barred:
            return "not_allowed", "same cost" + note
        return "smaller_margin", "same cost"
    detail = f"{100 * change:+.0f} %".replace("-", "−")
    confirmed = decision.confirmed
    if change < 0.0 and confirmed is not None and deployment in confirmed.asked:
        return "violates", f"{detail} by the equations; the replay misses a target there"
    if change < 0.0 and not barred:  # every listed setting was asked at the counts that cost less
        how = "by the equations alone" if confirmed is not None else "before rounding"
        return "violates", f"{detail} {how}; at counts that cost less a target is missed"
    detail += note
    if deployment.gpus == decision.deployment.gpus and count > decision.replicas:
        miss = first_miss(decision, candidate, decision.replicas)
        detail += f"; at {counted(decision.replicas, 'replica')} for the load {miss}"
    return ("costs_more" if change > 0.0 else "not_allowed"), detail


def first_miss(decision: Decision, candidate: Candidate, replicas: int) -> str:
    """Return the target that a candidate misses most at a replica count, with its figure."""
    case = decision.case
    cost = case.cost(candidate.deployment)
    load = replica_factor(case.screen_needs, replicas) / (1.0 - case.screen_needs.headroom)
    worst: tuple[float, str] | None = None
    for part in decision.judged:
        deployment = candidate.deployment
        at = lanes(
            np.float64(load),
            np.float64(deployment.max_num_batched_tokens),
            np.float64(deployment.max_num_seqs),
            np.float64(candidate.memory.kv_tokens),
        )
        found: Estimate = estimate(cost, part.stretch, at, part.checks, mixes=case.mixes)
        for index, check in enumerate(part.checks):
            short = check.required - float(found.attainment[0, index])
            if worst is not None and short <= worst[0]:
                continue
            window = part.stretch.windows[check.window]
            name = target_name(
                decision.demand.traffic.class_names[window.class_id], check.target
            ).split(" ≤")[0]
            value = percentile_s(
                cost,
                part.stretch,
                found.waits,
                check.target.metric,
                check.target.percentile,
                window=check.window,
                guess_s=check.target.limit_s,
                mixes=case.mixes,
            )
            worst = (short, f"{name} {_seconds(value)} > {check.target.limit_s:g} s")
    return worst[1] if worst else ""


def _seconds(value: float) -> str:
    """Write seconds with three digits, whole ones in full, no power of ten.

    >>> _seconds(0.0712), _seconds(19_132.4), _seconds(float("inf"))
    ('0.0712', '19,132', 'unbounded')
    """
    if not np.isfinite(value):
        return "unbounded"
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"


def _unfit(label: str, candidate: Candidate, longest: int) -> Alternative:
    """Return an alternative whose memory does not do."""
    memory = candidate.memory
    if memory.fits:
        detail = (
            f"KV cache of {memory.kv_tokens:,} tokens is below the longest request ({longest:,})"
        )
    else:
        short = -memory.kv_bytes / 2**30
        detail = f"weights {memory.weights_bytes / 2**30:.1f} GiB a GPU; {short:.1f} GiB short"
    return _alternative(label, candidate, None, None, "does_not_fit", detail)


def _alternative(
    label: str,
    candidate: Candidate,
    replicas: int | None,
    usd: float | None,
    reason: str,
    detail: str,
) -> Alternative:
    return Alternative(
        deployment=candidate.deployment,
        replicas=replicas,
        gpus=None if replicas is None else replicas * candidate.deployment.gpus,
        usd_per_hour=usd,
        reason=reason,
        detail=detail,
        label=label,
    )
