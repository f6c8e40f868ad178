"""The figures: each function turns part of a plan into coordinates for one chart template.

Nothing is estimated here; a figure shows what plan.json holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from planner.report import format as fmt
from planner.report.batch_chart import batch_map
from planner.report.scales import Axis, binary_ticks, linear_ticks, log_ticks, polyline
from planner.solve.plan import LatencyRow, Plan
from planner.solve.refuted import high_refuted, low_refuted

Figure = Mapping[str, Any]
WIDTH = 760
LEFT, RIGHT = 72.0, 736.0
LABELS = 232.0  # where the bars of a labelled row begin
ROW = 30.0
MOST_CLASSES = 6  # lines that can still be told apart by dash and colour


def shorten(text: str, most: int = 30) -> str:
    """Cut a name in its middle.

    >>> shorten("a-class-with-a-name-of-forty-characters!", 20)
    'a-class-w…haracters!'
    """
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return text[:head] + "…" + text[len(text) - (most - 1 - head) :]


def step_time(plan: Plan) -> Figure | None:
    """Draw step time against chunk: floor, compute, C*, allowed interval, chosen, default."""
    chunk = plan.chunk
    points = [p for p in chunk.curve if p.chunk_tokens > 0 and p.compute_s > 0 and p.floor_s > 0]
    if not points:
        return None
    reserve = chunk.chosen_flag_tokens - chunk.chosen_tokens  # decode tokens in the flag
    default = max(1, chunk.default_flag_tokens - reserve)
    marks = [
        ("balance", "C*", chunk.balance_chunk_tokens),
        ("chosen", "chosen", float(chunk.chosen_tokens)),
        ("default", "engine default", float(default)),
    ]
    shown = [float(point.chunk_tokens) for point in points]
    shown += [value for _, _, value in marks if value >= 1]
    x = Axis(low=min(shown) / 1.15, high=max(shown) * 1.15, start=LEFT, end=RIGHT, log=True)
    times = [t for p in points for t in (p.step_s, p.compute_s, p.floor_s) if 0 < t < math.inf]
    y = Axis(low=min(times) / 1.3, high=max(times) * 1.3, start=350.0, end=96.0, log=True)
    return {
        "height": 452,
        "left": LEFT,
        "right": RIGHT,
        "top": y.end,
        "bottom": y.start,
        "x_ticks": [(x(tick), fmt.count(tick)) for tick in binary_ticks(x.low, x.high)],
        "y_ticks": [(y(tick), fmt.seconds(tick)) for tick in log_ticks(y.low, y.high)],
        "interval": _interval(plan, x),
        "curves": [
            (name, polyline([(x(p.chunk_tokens), y(getattr(p, name))) for p in points]))
            for name in ("floor_s", "compute_s", "step_s")
        ],
        "marks": [
            (name, x(value), f"{label} {fmt.count(value)}", x(value) > (LEFT + RIGHT) / 2)
            for name, label, value in marks
            if value >= 1
        ],
        "chosen": _chosen_dot(plan, x, y),
        "plan": plan,
    }


def _interval(plan: Plan, x: Axis) -> Mapping[str, float] | None:
    """Return the allowed interval in pixels; an open end reaches the edge of the plot."""
    low, high = plan.chunk.low_tokens, plan.chunk.high_tokens
    if low is None or high is None or low > high:
        return None
    chosen = plan.chunk.chosen_tokens  # what the plan itself refutes is not allowed
    low = chosen if low_refuted(plan.chunk) else low
    high = chosen if high_refuted(plan.chunk) else high
    return {"x": x(low), "width": max(2.0, x(high) - x(low))}


def _chosen_dot(plan: Plan, x: Axis, y: Axis) -> tuple[float, float] | None:
    """Return where the chosen chunk lies on the calibrated curve, if the curve has that point."""
    for point in plan.chunk.curve:
        if point.chunk_tokens == plan.chunk.chosen_tokens:
            return x(point.chunk_tokens), y(point.step_s)
    return None


def memory(plan: Plan) -> Figure:
    """Draw one GPU's memory as a bar."""
    account = plan.concurrency.memory
    used = account.weights_bytes + account.activation_bytes + account.non_torch_bytes
    graphs = account.graphs_bytes if account.graphs_in_budget else 0.0
    outside = account.visible_bytes - used - graphs - account.kv_bytes
    parts = [
        ("weights", "weights", account.weights_bytes),
        ("activation", "peak activation", account.activation_bytes),
        ("non-torch", "outside the allocator", account.non_torch_bytes),
        ("graphs", "CUDA graphs", graphs),
        ("kv", f"KV cache, {fmt.tokens(account.kv_tokens)} a replica", account.kv_bytes),
        ("outside", "not given to the engine", outside),
    ]
    x = Axis(low=0.0, high=account.visible_bytes, start=24.0, end=RIGHT)
    bars, begin = [], 0.0
    for name, label, size in parts:
        if size > 0:
            width = x(begin + size) - x(begin)
            bars.append((name, x(begin), max(width, 0.5), f"{label}: {fmt.gib(size)}"))
            begin += size
    return {"bars": bars, "height": 118 + 24 * math.ceil(len(bars) / 2), "plan": plan}


def surge(plan: Plan) -> Figure | None:
    """Draw demand over supply of each token budget at three time scales; None without one."""
    rows = plan.surge.budgets
    if not rows:
        return None
    worst = max(max(row.utilization_busiest_10min, row.utilization_busiest_minute) for row in rows)
    ticks = linear_ticks(min(max(1.2, worst * 1.1), 2.0))
    x = Axis(low=0.0, high=ticks[-1], start=LABELS, end=RIGHT - 160)
    top = 92.0
    drawn = []
    for index, row in enumerate(rows):
        use = row.utilization_busiest_10min
        per_s = row.prompt_tokens_per_s
        drawn.append(
            {
                "y": top + ROW * index + ROW / 2,
                "label": fmt.count(row.max_num_batched_tokens),
                "chosen": row.max_num_batched_tokens == plan.deployment.max_num_batched_tokens,
                "mean": x(row.utilization_mean),
                "ten": x(use),
                "minute": x(row.utilization_busiest_minute),
                "low": x(_scaled(use, per_s, row.high_prompt_tokens_per_s)),
                "high": x(_scaled(use, per_s, row.low_prompt_tokens_per_s)),
                "beyond": x.beyond(row.utilization_busiest_minute),
                "verdict": row.verdict,
                "value": fmt.percent(use),
            }
        )
    bottom = top + ROW * len(rows)
    return {
        "height": bottom + 66,
        "rows": drawn,
        "x_ticks": [(x(tick), fmt.percent(tick)) for tick in ticks],
        "full": x(1.0),
        "left": LABELS,
        "right": x.end,
        "top": top,
        "bottom": bottom,
        "plan": plan,
    }


def _scaled(use: float, supply: float, other_supply: float) -> float:
    """Return the use that `other_supply` would show for the same demand."""
    return use * supply / other_supply if other_supply > 0 else math.inf


def demand(plan: Plan) -> Figure | None:
    """Draw requests an hour over the week, a line a class; None when the trace has no dates."""
    classes = [c for c in plan.profile.classes if len(c.hour_of_week) == 168]
    classes = sorted(classes, key=lambda c: (-c.requests, c.name))
    if not classes:
        return None
    lines = classes[:MOST_CLASSES]
    ticks = linear_ticks(max(max(c.hour_of_week) for c in lines) or 1.0)
    x = Axis(low=0.0, high=168.0, start=LEFT, end=RIGHT)
    y = Axis(low=0.0, high=ticks[-1], start=300.0, end=76.0)
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    return {
        "left": LEFT,
        "right": RIGHT,
        "top": y.end,
        "bottom": y.start,
        "y_ticks": [(y(tick), fmt.count(tick)) for tick in ticks],
        "days": [(x(24 * day), x(24 * day + 12), name) for day, name in enumerate(days)],
        "lines": [
            (
                index,
                shorten(c.name, 24),
                polyline([(x(h + 0.5), y(v)) for h, v in enumerate(hours)]),
            )
            for index, (c, hours) in enumerate((c, c.hour_of_week) for c in lines)
        ],
        "left_out": len(classes) - len(lines),
        "height": 348 + 22 * math.ceil(len(lines) / 3),
        "plan": plan,
    }


def latency(plan: Plan) -> Figure:
    """Draw each target: the expected worst value as a share of its limit, with its band."""
    shares = [row.high_s / row.limit_s for row in plan.latency if math.isfinite(row.high_s)]
    ticks = linear_ticks(min(max(1.2, *shares, 0.0) if shares else 1.2, 2.0))
    x = Axis(low=0.0, high=ticks[-1], start=LABELS + 80, end=RIGHT - 120)
    top = 66.0
    bottom = top + ROW * len(plan.latency)
    return {
        "height": bottom + 60,
        "rows": [_latency_row(row, x, top + ROW * i) for i, row in enumerate(plan.latency)],
        "x_ticks": [(x(tick), fmt.percent(tick)) for tick in ticks],
        "full": x(1.0),
        "left": x.start,
        "right": x.end,
        "top": top,
        "bottom": bottom,
        "plan": plan,
    }


def _latency_row(row: LatencyRow, x: Axis, top: float) -> Mapping[str, Any]:
    """Return one bar; a value that cannot be given has no bar."""
    known = math.isfinite(row.worst_s)
    limit = fmt.seconds(row.limit_s)
    target = f"{fmt.metric(row.metric)} {fmt.percentile(row.percentile)} ≤ {limit}"
    return {
        "y": top + ROW / 2,
        "label": f"{shorten(row.class_name, 20)} {target}",
        "width": x(row.worst_s / row.limit_s) - x.start if known else 0.0,
        "low": x(row.low_s / row.limit_s) if math.isfinite(row.low_s) else None,
        "high": x(row.high_s / row.limit_s) if math.isfinite(row.high_s) else None,
        "beyond": known and x.beyond(row.worst_s / row.limit_s),
        "value": fmt.seconds(row.worst_s),
        "holds": row.holds,
        "binds": row.binds,
    }


# File name -> what draws it; a function that returns None leaves its figure out.
FIGURES: Mapping[str, Callable[[Plan], Figure | None]] = {
    "step_time.svg": step_time,
    "batch_map.svg": batch_map,
    "memory.svg": memory,
    "surge.svg": surge,
    "demand.svg": demand,
    "latency.svg": latency,
}
