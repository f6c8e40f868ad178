"""What report.md's templates see besides the plan: lookups into it, nothing computed anew."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from planner.profile.types import ClassProfile
from planner.report import format as fmt
from planner.report.assumptions import is_declared, origin_of, slo_rows
from planner.report.chunk_words import balance_equation, chunk_rows, class_prompt
from planner.report.operations import (
    load_test_argv,
    metric_names,
    of_load_test,
    shell,
    trace_replay_argv,
    window_argv,
)
from planner.report.sentences import by_section
from planner.report.words import assumption
from planner.solve.load_test import reused_share, tightest
from planner.solve.plan import BatchCell, LatencyRow, Plan, Sensitivity
from planner.solve.refuted import high_refuted, low_refuted
from planner.solve.replica_window import share_of_replica

# How slo.yaml spells what the solver holds flat.


def context(plan: Plan, figures: tuple[str, ...]) -> dict[str, Any]:
    """Return the variables of templates/report.md.j2."""
    current, test = current_gpus(plan), plan.load_test
    chosen = [
        row
        for row in plan.surge.budgets
        if row.max_num_batched_tokens == plan.deployment.max_num_batched_tokens
    ]
    return {
        "plan": plan,
        "figures": figures,
        "sentences": by_section(plan),
        "said": {finding.id for finding in plan.findings},
        "binding": next((row for row in plan.latency if row.binds), None),
        "beyond": beyond(plan),
        "beyond_by": partial(beyond_by, plan),
        "band_gpus": band_gpus(plan),
        "margins": margins(plan),
        "bursts_shown": all("bursts_of_the_sample" in row.high_by_doubt_s for row in plan.latency),
        "sizes": len({group.tensor_parallel_size for group in plan.search}),
        "trimmed": "max_model_len_trimmed" in {finding.id for finding in plan.findings},
        "unchanged": unchanged(plan),
        "kv_less_graphs": kv_less_graphs(plan),
        "defaults": not any(row.label == "engine defaults" for row in plan.alternatives),
        "one_class": len(plan.profile.classes) == 1,
        "least": least(plan),
        "targets_end": targets_end(plan),
        "prompt_limit": prompt_limit(plan),
        "low_refuted": low_refuted(plan.chunk),
        "high_refuted": high_refuted(plan.chunk),
        "class_prompt": class_prompt(plan),
        "acts_twice": acts_twice(plan),
        "missed": [row for row in plan.latency if not row.holds],
        "raising": raising(plan),
        "current_gpus": current,
        "gpu_delta": None if current is None else plan.gpus.value - current,
        "gpus_compared": len({plan.deployment.gpu, *(a.deployment.gpu for a in plan.alternatives)}),
        "chosen_budget": chosen[0] if chosen else None,
        "sample_rate": plan.slo.get("sample_rate", 1.0),
        "window_s": plan.slo.get("evaluation_window_s", 3600.0),
        "class_rows": class_rows(plan),
        "reuse_shares": reuse_shares(plan),
        "chunk_rows": chunk_rows(plan),
        "balance_equation": balance_equation(plan),
        "launch_text": shell(plan.launch),
        "load_test": "" if test is None else shell(load_test_argv(plan, test)),
        "trace_replay": shell(trace_replay_argv(plan)),
        "replica_share": share_of_replica(plan),
        "window_command": shell(window_argv(plan)),
        "reused_share": reused_share(plan.findings),
        "tightest": tightest(plan.latency),
        **of_load_test(plan),
        "metrics": metric_names(plan.deployment.engine),
        "slo_rows": list(slo_rows(plan)),
        "origin": origin_of(plan),
        "declared": is_declared(plan),
    }


def beyond(plan: Plan) -> list[LatencyRow]:
    """Return the targets that hold, but not with their whole band."""
    return [row for row in plan.latency if row.holds and row.high_s > row.limit_s]


def beyond_by(plan: Plan, doubt: str) -> list[LatencyRow]:
    """Return the targets that hold, but not under one doubt."""
    return [
        row for row in beyond(plan) if row.high_by_doubt_s.get(doubt, row.worst_s) > row.limit_s
    ]


def band_gpus(plan: Plan) -> list[tuple[str, int | None, int | None]]:
    """Return (doubt, least, most GPUs of the fleet) of the doubts that move the count.

    Where no count holds, the most is what another configuration would need then.
    """
    terms, each = plan.replica_terms, plan.deployment.gpus
    others = {unheld.doubt: unheld.gpus for unheld in terms.unheld}

    def fleet(count: int | None, doubt: str) -> int | None:
        return others.get(doubt) if count is None else (count + terms.spare) * each

    return [
        (name, fleet(low, name), fleet(high, name))
        for name, (low, high) in sorted(terms.band_counts.items())
        if low != high
    ]


def margins(plan: Plan) -> list[BatchCell]:
    """Return the settings that the search held against each other by replay, if several."""
    cells = () if plan.batch_map is None else plan.batch_map.cells
    known = [c for c in cells if c.replay_margin is not None or c.replay_missed is not None]
    return known if len(known) > 1 else []


def kv_less_graphs(plan: Plan) -> int:
    """Return the KV tokens if the engine took its CUDA graphs out of the budget; 0: it does."""
    memory = plan.concurrency.memory
    if memory.graphs_in_budget or not memory.kv_bytes > 0.0:
        return 0
    share = (memory.kv_bytes - memory.graphs_bytes) / memory.kv_bytes
    return int(memory.num_blocks * share) * memory.block_tokens


def least(plan: Plan) -> bool:
    """Whether one replica carries the load: no target could save another."""
    return plan.replica_terms.for_load == 1 and all(row.holds for row in plan.latency)


def targets_end(plan: Plan) -> float | None:
    """Return the multiple of the plan's load at which a target is lost, headroom used up: n·c/d.

    None where it cannot be said.
    """
    terms = plan.replica_terms
    demand = terms.peak_requests_per_s * (1.0 + terms.growth)
    if not (demand > 0.0 and math.isfinite(terms.capacity_requests_per_s)):
        return None
    return terms.for_load * terms.capacity_requests_per_s / demand


def prompt_limit(plan: Plan) -> float | None:
    """Return the prompt tokens/s, cached ones counted, at which a replica reaches its capacity."""
    terms = plan.replica_terms
    limit = terms.capacity_requests_per_s * terms.mean_input_tokens
    return limit if math.isfinite(limit) and limit > 0.0 else None


def acts_twice(plan: Plan) -> bool:
    """Whether prompts a fifth longer need more replicas than a fifth more load."""
    moved = {(row.assumption, row.change): row.replicas for row in plan.sensitivity}
    key = "+20 %"
    if ("load", key) not in moved or ("input_tokens", key) not in moved:
        return False
    load, prompts = moved["load", key], moved["input_tokens", key]
    return load is not None and (prompts is None or prompts > load)


def current_gpus(plan: Plan) -> int | None:
    """Return the GPUs that run today, where slo.yaml declares them."""
    current = plan.slo.get("current")
    nested = current.get("gpus") if isinstance(current, Mapping) else None
    value = plan.slo.get("current_gpus") if nested is None else nested
    return value if isinstance(value, int) else None


def raising(plan: Plan) -> list[Sensitivity]:
    """Return the flips that need more GPUs or leave no plan, each assumption at its worst."""
    worst: dict[str, Sensitivity] = {}
    for row in sorted(plan.sensitivity, key=_gpus, reverse=True):
        if row.flips and _gpus(row) > plan.gpus.value:
            worst.setdefault(row.assumption, row)
    return list(worst.values())


def lowering(plan: Plan) -> list[Sensitivity]:
    """Return the flips that need fewer GPUs, the largest saving first."""
    rows = [row for row in plan.sensitivity if row.flips and _gpus(row) < plan.gpus.value]
    return sorted(rows, key=_gpus)


def _gpus(row: Sensitivity) -> float:
    return math.inf if row.gpus is None else row.gpus


def unchanged(plan: Plan) -> list[str]:
    """Return the assumptions that moved the count neither way: "output length ±20 %".

    Targets that may all move are said in one.
    """
    kept: dict[str, list[str]] = {}
    for row in plan.sensitivity:
        if not row.flips:
            kept.setdefault(row.assumption, []).append(row.change)
    targets = {row.assumption for row in plan.sensitivity if " target of " in row.assumption}
    if targets and all(len(kept.get(name, ())) == 2 for name in targets):
        changes = kept[min(targets)]
        kept = {name: each for name, each in kept.items() if name not in targets}
        kept["every target"] = changes
    return [f"{assumption(name)} {_both_ways(changes)}" for name, changes in kept.items()]


def _both_ways(changes: list[str]) -> str:
    """Write "+20 %" and "−20 %" as one."""
    sizes = {change[1:] for change in changes}
    return f"±{sizes.pop()}" if len(changes) == 2 and len(sizes) == 1 else ", ".join(changes)


def class_rows(plan: Plan) -> list[tuple[str, ClassProfile]]:
    """Return the rows of the demand table; a total only where it differs from the one class."""
    rows = [(each.name, each) for each in plan.profile.classes]
    return rows if len(rows) == 1 else [*rows, ("all", plan.profile.total)]


def reuse_shares(plan: Plan) -> list[tuple[str, float]]:
    """Return (cache size, share of input tokens found), small caches first."""
    reuse = plan.profile.total.reuse
    if reuse is None:
        return []
    sizes = {
        math.inf if k == "inf" else float(k): v for k, v in reuse.hit_share_by_cache_blocks.items()
    }
    return [("unlimited" if math.isinf(k) else fmt.count(k), sizes[k]) for k in sorted(sizes)]
