"""Compare the memory account with engines' start-up logs: KV tokens, weights, start or refuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.calibrate.kv_facts import KvCase, Unknown, case
from planner.calibrate.measured import Row, number, text
from planner.perf.memory import memory_budget
from planner.perf.memory_types import MemoryBudget
from planner.units import GIB

STARTED, REFUSED = "started", ("refused", "oom", "crash", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class KvResult:
    """One row: predicted and logged figures (None where unknown), outcome or why unscored."""

    id: str
    grade: str
    v1: bool
    budget: MemoryBudget | None
    predicted_kv_tokens: float | None
    kv_tokens: float | None
    predicted_kv_gib: float | None
    kv_gib: float | None
    predicted_weights_gib: float | None
    weights_gib: float | None
    predicted_start: bool | None
    started: bool | None
    needed_gib: float | None
    longest_tokens: int | None
    unscored: str


def outcome(row: Row) -> bool | None:
    """Return whether the engine started, None where the row says something else."""
    said = text(row, "outcome").lower()
    if said.startswith(STARTED):
        return True
    return False if said.startswith(REFUSED) else None


def judge(row: Row) -> KvResult:
    """Return prediction and log of one row side by side."""
    try:
        known = case(row)
    except Unknown as missing:
        return _result(row, None, None, str(missing))
    budget = memory_budget(known.model, known.gpu, known.engine, known.deployment)
    return _result(row, known, budget, _unscored(row, known))


def _result(row: Row, known: KvCase | None, budget: MemoryBudget | None, unscored: str) -> KvResult:
    started = outcome(row)
    fits = longest = needed = None
    if known and budget:
        longest = budget.kv_tokens
        needed = budget.kv_bytes_per_token * known.deployment.max_model_len / GIB
        fits = budget.fits and longest >= known.deployment.max_model_len
    return KvResult(
        id=text(row, "case_id"),
        grade=text(row, "grade"),
        v1=known is not None and known.version >= (0, 8),
        budget=budget,
        predicted_kv_tokens=float(budget.kv_tokens) if budget else None,
        kv_tokens=number(row, "kv_tokens"),
        predicted_kv_gib=budget.kv_bytes / GIB if budget else None,
        kv_gib=number(row, "kv_gib_per_gpu"),
        predicted_weights_gib=budget.weights_bytes / GIB if budget else None,
        weights_gib=number(row, "weights_gib_per_gpu"),
        predicted_start=fits,
        started=started,
        needed_gib=needed,
        longest_tokens=longest,
        unscored=unscored or ("" if started is not None else "outcome not stated"),
    )


def _unscored(row: Row, known: KvCase) -> str:
    """Return which fact keeps the outcome from being predicted."""
    if known.engine.id != "vllm":
        return "SGLang's pool depends on settings the row does not state"
    if known.version and known.version < (0, 8):
        return "vLLM V0: another profile run and block manager"
    if not number(row, "max_model_len"):
        return "max_model_len not stated"
    if not number(row, "util_or_memfrac") and known.version < (0, 99):
        return "gpu_memory_utilization not stated"
    if not text(row, "tp"):
        return "number of GPUs not stated"
    return ""


def judged(rows: Iterable[Row]) -> list[KvResult]:
    """Return every row's result."""
    return [judge(row) for row in rows]


def summary(results: Sequence[KvResult]) -> dict[str, Any]:
    """Return errors of KV tokens and weights, and counts of right and wrong outcomes.

    KV tokens: vLLM V1 starts of grade A. Weights: every grade A or B row of a known model, none
    of the derived ones.
    """
    plain = [r for r in results if r.grade == "A" and r.v1]
    tokens = [
        abs(r.predicted_kv_tokens / r.kv_tokens - 1.0)
        for r in plain
        if r.kv_tokens and r.predicted_kv_tokens and not r.unscored and r.started
    ]
    space = [
        abs(r.predicted_kv_gib / r.kv_gib - 1.0)
        for r in plain
        if r.kv_gib and r.predicted_kv_gib and not r.unscored and r.started
    ]
    weights = [
        abs(r.predicted_weights_gib / r.weights_gib - 1.0)
        for r in results
        if r.weights_gib and r.predicted_weights_gib and r.grade in ("A", "B")
    ]
    scored = [r for r in results if not r.unscored and r.predicted_start is not None]
    right = sum(r.predicted_start == r.started for r in scored)
    return {
        "kv_tokens": _errors(tokens),
        "kv_gib": _errors(space),
        "weights_gib": _errors(weights),
        "outcome": {
            "n": len(scored),
            "right": right,
            "wrong": len(scored) - right,
            "unscored": len(results) - len(scored),
        },
    }


def _errors(values: Sequence[float]) -> dict[str, float | int | None]:
    if not values:
        return {"n": 0, "median_ape_pct": None, "p90_ape_pct": None}
    return {
        "n": len(values),
        "median_ape_pct": round(100 * float(np.median(values)), 3),
        "p90_ape_pct": round(100 * float(np.quantile(values, 0.9)), 3),
    }


def lines(results: Sequence[KvResult]) -> list[str]:
    """Return one line a row: logged and predicted figures, and what an engine would say."""
    head = f"{'case':<7} {'grade':<12} {'KV GiB':>8} {'pred':>8} {'KV tokens':>11} {'pred':>11} "
    found = [head + f"{'weights':>8} {'pred':>8}  outcome"]
    for r in results:
        verdict = r.unscored
        if not r.unscored and r.predicted_start is not None:
            said = "started" if r.started else "refused"
            verdict = f"{said}, {'right' if r.predicted_start == r.started else 'WRONG'}"
            if not r.predicted_start and r.longest_tokens is not None:
                available = max(r.predicted_kv_gib or 0.0, 0.0)
                verdict += (
                    f": {r.needed_gib:.2f} GiB KV needed, {available:.2f} GiB available, "
                    f"estimated maximum model length {r.longest_tokens:,}"
                )
        found.append(
            f"{r.id:<7} {r.grade:<12} {_cell(r.kv_gib)} {_cell(r.predicted_kv_gib)} "
            f"{_cell(r.kv_tokens, 11, 0)} {_cell(r.predicted_kv_tokens, 11, 0)} "
            f"{_cell(r.weights_gib)} {_cell(r.predicted_weights_gib)}  {verdict}"
        )
    return found


def _cell(value: float | None, width: int = 8, digits: int = 2) -> str:
    return f"{'—':>{width}}" if value is None else f"{value:>{width},.{digits}f}"


def report(results: Sequence[KvResult]) -> str:
    """Return every row and the summary as text."""
    found = summary(results)
    tail = [""]
    for name in ("kv_tokens", "kv_gib", "weights_gib"):
        entry = found[name]
        tail.append(
            f"{name:<12} n {entry['n']:>3}  median {entry['median_ape_pct']} %"
            f"  p90 {entry['p90_ape_pct']} %"
        )
    counts = found["outcome"]
    tail.append(
        f"{'outcome':<12} n {counts['n']:>3}  right {counts['right']}, wrong {counts['wrong']}, "
        f"unscored {counts['unscored']}"
    )
    return "\n".join([*lines(results), *tail]) + "\n"
