"""What report.md's templates see besides the plan: lookups into it, nothing computed anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from planner.profile.types import ClassProfile
from planner.report import format as fmt
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
from planner.solve.plan import BatchCell, ChunkAnalysis, ChunkPoint, LatencyRow, Plan, Sensitivity
from planner.solve.refuted import high_refuted, low_refuted
from planner.solve.replica_window import share_of_replica

# How slo.yaml spells what the solver holds flat.
SPELLING = {
    "engine": "engine.name",
    "engine_version": "engine.version",
    "current_gpus": "current.gpus",
    "current_replicas": "current.replicas",
}
EQUATION_TOLERANCE = 0.01  # an equation is printed only where it gives the plan's value


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
        "origin": _origin(plan),
        "declared": _declared(plan),
    }


def beyond(plan: Plan) -> list[LatencyRow]:
    """Return the targets that hold, but not with their whole band."""
    return [row for row in plan.latency if row.holds and row.high_s > row.limit_s]


def beyond_by(plan: Plan, doubt: str) -> list[LatencyRow]:
    """Return the targets that hold, but not under one doubt."""
    return [
        row for row in beyond(plan) if row.high_by_doubt_s.get(doubt, row.worst_s) > row.limit_s
    ]


def band_gpus(plan: Plan) -> list[tuple[str, int, int]]:
    """Return (doubt, least, most GPUs of the fleet) of the doubts that move the count."""
    terms, each = plan.replica_terms, plan.deployment.gpus
    return [
        (name, (low + terms.spare) * each, (high + terms.spare) * each)
        for name, (low, high) in sorted(terms.band_counts.items())
        if low != high
    ]


def margins(plan: Plan) -> list[BatchCell]:
    """Return the settings that the search held against each other by replay, if several."""
    cells = () if plan.batch_map is None else plan.batch_map.cells
    known = [c for c in cells if c.replay_margin is not None or c.replay_missed is not None]
    return known if len(known) > 1 else []


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


def class_prompt(plan: Plan) -> float:
    """Return the mean input of the class that T is of, over the whole trace."""
    binding = next((row.class_name for row in plan.latency if row.binds), None)
    found = next((each for each in plan.profile.classes if each.name == binding), None)
    return (found or plan.profile.total).input_tokens.mean


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


def slo_rows(plan: Plan) -> Iterator[tuple[str, object, bool]]:
    """Yield (dotted path, value, whether it is a default) of everything slo.yaml may say."""
    used = in_effect(plan)
    for path, value in _leaves(plan.slo, ""):
        written = SPELLING.get(path, path)
        default = _is_default(written, plan)
        if value is not None or default:
            yield written, used.get(written) if value in (None, (), [], {}) else value, default


def in_effect(plan: Plan) -> dict[str, object]:
    """Return what stands in for a key of slo.yaml that names nothing."""
    d, searched = plan.deployment, "searched"
    return {
        "engine.version": d.engine_version,
        "gpus": "those of --gpu",
        "gpu_memory_utilization": d.gpu_memory_utilization,
        "max_num_batched_tokens": searched,
        "max_num_seqs": searched,
        "tensor_parallel_sizes": searched,
        "pipeline_parallel_sizes": "searched where nothing holds without",
        "weight_dtypes": f"{d.weight_dtype}, as published",
        "kv_cache_dtypes": f"{d.kv_cache_dtype}, the engine's default",
        "prices_usd_per_hour": "the catalogue's",
    }


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield every leaf of a nested mapping; entries of a list of mappings go by their name."""
    if isinstance(value, Mapping) and set(value) == {"metric", "percentile", "limit_s"}:
        yield f"{path}.{value['metric']}.{fmt.percentile(value['percentile'])}", value["limit_s"]
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        for item in value:
            named = dict(item) if isinstance(item, Mapping) else {"": item}
            name = named.pop("name", "")  # shown in the path instead
            yield from _leaves(named, f"{path}.{name}" if name else path)
    else:
        yield path, value


def _is_default(path: str, plan: Plan) -> bool:
    return any(path == left or path.startswith(f"{left}.") for left in plan.defaulted)


def _origin(plan: Plan) -> Callable[[str], str]:
    def origin(path: str) -> str:
        """Return where a value of slo.yaml comes from."""
        return "default" if _is_default(path, plan) else "slo.yaml"

    return origin


def _declared(plan: Plan) -> Callable[[str], bool]:
    def declared(path: str) -> bool:
        """Whether slo.yaml names a value (an empty list names none)."""
        return bool(plan.slo.get(path)) and not _is_default(path, plan)

    return declared


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


def chunk_rows(plan: Plan) -> list[tuple[str, ChunkPoint]]:
    """Return the curve's points nearest to the chunks the report speaks of, each once."""
    chunk = plan.chunk
    reserve = chunk.chosen_flag_tokens - chunk.chosen_tokens
    wanted = (
        ("chosen", chunk.chosen_tokens),
        ("C*", chunk.balance_chunk_tokens),
        (f"smallest{', refuted' if low_refuted(chunk) else ' allowed'}", chunk.low_tokens),
        (f"largest{', refuted' if high_refuted(chunk) else ' allowed'}", chunk.high_tokens),
        ("engine default", chunk.default_flag_tokens - reserve),
    )
    rows: dict[int, tuple[str, ChunkPoint]] = {}
    for label, tokens in wanted:
        point = None if tokens is None else _nearest(plan, tokens)
        if point is not None and point.chunk_tokens not in rows:
            near = tokens is not None and abs(point.chunk_tokens - tokens) >= 1
            rows[point.chunk_tokens] = (f"near {label}" if near else label, point)
    return [rows[tokens] for tokens in sorted(rows)]


def balance_equation(plan: Plan) -> str:
    """Return C* with its numbers, in the first form that gives the plan's value.

    R·(1 + D·S·k/(2P)) − D holds for dense 16-bit weights, where weight bytes are 2P and the ratio
    of KV to weight bytes is the ratio of their reading times. Elsewhere (fp8, int4, mixture of
    experts) w and φ are different numbers: R·(w + D·S·k)/φ − D.
    """
    chunk = plan.chunk
    value = chunk.balance_chunk_tokens
    decode_tokens = chunk.balance_flag_tokens - value
    answer = f"= {fmt.count(value)}"
    textbook = (
        chunk.ridge_flops_per_byte * (1 + chunk.floor_kv_s / chunk.floor_weights_s) - decode_tokens
        if chunk.floor_weights_s > 0
        else math.nan
    )
    if _agrees(textbook, value):
        return (
            "C* = R·(1 + D·S·k/(2P)) − D\n"
            f"   = {fmt.significant(chunk.ridge_flops_per_byte, 4)}"
            f"·(1 + {_ms(chunk.floor_kv_s)}/{_ms(chunk.floor_weights_s)})"
            f" − {fmt.significant(decode_tokens)} {answer}"
        )
    general = _general_balance(chunk, decode_tokens)
    return f"{general} {answer}" if general else f"C* {answer}"


def _general_balance(chunk: ChunkAnalysis, decode_tokens: float) -> str:
    """Return R·(w + D·S·k)/φ − D with its numbers in B and FLOP, "" where they are not known."""
    weights, flops, each = chunk.weight_bytes, chunk.token_flops, chunk.kv_read_bytes_per_token
    if not (weights and flops and each):
        return ""
    seqs, context = chunk.decode_seqs, chunk.context_tokens
    found = chunk.ridge_flops_per_byte * (weights + seqs * context * each) / flops - decode_tokens
    if not _agrees(found, chunk.balance_chunk_tokens):
        return ""
    reserve = "D" if math.isclose(decode_tokens, seqs, rel_tol=1e-3) else "D·(γ + 1)"
    return (
        f"C* = R·(w + D·S·k)/φ − {reserve}\n"
        f"   = {fmt.significant(chunk.ridge_flops_per_byte, 4)}"
        f"·({fmt.count(weights)} B + {fmt.significant(seqs, 4)}·{fmt.significant(context, 4)}"
        f"·{fmt.count(each)} B)/{fmt.count(flops)} FLOP − {fmt.significant(decode_tokens, 4)}"
    )


def _nearest(plan: Plan, tokens: float) -> ChunkPoint | None:
    points = [point for point in plan.chunk.curve if point.compute_s > 0]
    return min(points, key=lambda point: abs(point.chunk_tokens - tokens), default=None)


def _agrees(candidate: float, value: float) -> bool:
    return abs(candidate - value) <= EQUATION_TOLERANCE * max(1.0, abs(value))


def _ms(value: float) -> str:
    return f"{fmt.significant(value * 1e3, 4)} ms"
