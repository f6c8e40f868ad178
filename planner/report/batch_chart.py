"""The map of max_num_batched_tokens and max_num_seqs as a figure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from planner.report import format as fmt
from planner.solve.plan import BatchCell, Plan

LEFT, RIGHT, TOP = 84.0, 736.0, 84.0
ROW = 58.0
MOST_COLUMNS = 8  # wider than this, a cell no longer holds its figures
KINDS = (("ttft_s", "ttft"), ("tpot_s", "gap"), ("itl_s", "gap"), ("e2e_s", "e2e"))


def batch_map(plan: Plan) -> Mapping[str, Any] | None:
    """Draw every pair: its TTFT, its time between tokens, its replicas, and what it misses."""
    if plan.batch_map is None:
        return None
    cells = plan.batch_map.cells
    chosen = plan.deployment
    budgets = _around(sorted({c.max_num_batched_tokens for c in cells}), chosen)
    slots = sorted({c.max_num_seqs for c in cells}, reverse=True)
    width = (RIGHT - LEFT) / len(budgets)
    bottom = TOP + ROW * len(slots)
    drawn = [
        _cell(
            cell,
            LEFT + width * budgets.index(cell.max_num_batched_tokens),
            TOP + ROW * slots.index(cell.max_num_seqs),
            width,
        )
        for cell in cells
        if cell.max_num_batched_tokens in budgets
    ]
    mine = (chosen.max_num_batched_tokens, chosen.max_num_seqs)
    return {
        "height": bottom + 128.0,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": bottom,
        "columns": [(LEFT + width * (i + 0.5), fmt.count(b)) for i, b in enumerate(budgets)],
        "rows": [(TOP + ROW * (i + 0.5) + 4.0, fmt.count(s)) for i, s in enumerate(slots)],
        "cells": drawn,
        "row": ROW,
        "chosen": next((cell for cell in drawn if cell["pair"] == mine), None),
        "balance": _balance(plan.chunk.balance_flag_tokens, budgets, width),
        "plan": plan,
    }


def _around(budgets: Sequence[int], chosen: Any) -> list[int]:  # noqa: ANN401 - a Deployment
    """Return as many budgets as fit, those nearest to the chosen one."""
    mine = math.log2(chosen.max_num_batched_tokens)
    near = sorted(budgets, key=lambda b: abs(math.log2(b) - mine))
    return sorted(near[:MOST_COLUMNS])


def _cell(cell: BatchCell, x: float, y: float, width: float) -> Mapping[str, Any]:
    mark = {True: " ✓", False: " ✗", None: ""}[cell.replay_holds]
    count = "none" if cell.replicas is None else fmt.count(cell.replicas)
    return {
        "pair": (cell.max_num_batched_tokens, cell.max_num_seqs),
        "x": round(x, 2),
        "y": y,
        "middle": round(x + width / 2.0, 2),
        "width": round(width, 2),
        "kind": kind(cell),
        "lines": (_time(cell.ttft_s), _time(cell.gap_s), f"{count}{mark}"),
    }


def kind(cell: BatchCell) -> str:
    """Return what colours a cell: "holds", "unstable", or the metric that it misses."""
    if cell.holds if cell.replay_holds is None else cell.replay_holds:
        return "holds"
    if not cell.stable:
        return "unstable"
    return next((name for metric, name in KINDS if f" {metric} " in cell.limit), "e2e")


def _time(value: float) -> str:
    return fmt.seconds(value, 2) if math.isfinite(value) else "–"


def _balance(tokens: float, budgets: Sequence[int], width: float) -> float | None:
    """Return where C* lies between the columns, by logarithm; None outside them."""
    if not budgets[0] <= tokens <= budgets[-1] or len(budgets) < 2:
        return None
    after = max(1, bisect_left(budgets, tokens))
    low, high = budgets[after - 1], budgets[after]
    part = math.log(tokens / low) / math.log(high / low)
    return round(LEFT + width * (after - 0.5 + part), 2)
