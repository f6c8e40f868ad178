"""The plan on one screen: at most 24 lines of 100 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from planner.report import format as fmt
from planner.report.context import beyond, current_gpus, least, lowering, raising
from planner.report.markdown import one_line
from planner.report.operations import shell
from planner.report.words import (
    REASONS,
    VERDICTS_SHORT,
    assumption,
    without_only_class,
    word,
    worded,
)
from planner.solve.plan import Alternative, LatencyRow, Plan
from planner.text import counted

COLUMNS, LINES = 100, 24
INDENT = 14
MOST = 3  # flips that fit
MOST_LINES = 2  # of one label
_NUMBER_AND_UNIT = re.compile(r"(?<=\d) (?=[%×]|[mµ]?s\b|min\b|h\b|of \d|GPUs?\b|replicas?\b)")


def summary(plan: Plan, directory: Path | None = None) -> str:
    """Return the summary; `directory` is where the report was written, if it was."""
    head = textwrap.wrap(_trace(plan), COLUMNS)[:2]
    lines = list(head)
    for label, text in (
        ("Recommended", _recommended(plan)),
        ("", _cost(plan)),
        ("Nearest" if least(plan) else "Binds", _binds(plan)),
        ("Surge", _surge(plan)),
        ("Next best", _next_best(plan)),
        ("Would save", _savings(plan)),
        ("Would flip", _flips(plan)),
        ("Check", _warnings(plan.warnings)),
        ("Sure", _sure(plan)),
        ("report", "" if directory is None else (directory / "report.md").as_posix()),
    ):
        if text:
            lines += _labelled(label, text, MOST_LINES * (text.count("\n") + 1))
    room = LINES - len(lines)
    command = _labelled("Launch", shell(plan.launch, COLUMNS - INDENT - 2), room)
    after = len(head) + len(_labelled("", _recommended(plan))) + 1
    lines[after:after] = command
    return "\n".join(line[:COLUMNS].rstrip() for line in lines[:LINES]) + "\n"


def _labelled(label: str, text: str, most: int = MOST_LINES) -> list[str]:
    """Return `text` beside its label, cut with an ellipsis after `most` lines.

    Each paragraph is wrapped to MOST_LINES.
    """
    wrapped: list[str] = []
    parts = text.split("\n")
    for part in parts:
        lines = _wrap(one_line(part), COLUMNS - INDENT) or [""]
        rest = lines[MOST_LINES - 1 :]
        wrapped += [*lines[: MOST_LINES - 1], *([_cut(rest)] if rest else [])]
    if len(wrapped) > most:
        wrapped = [*wrapped[: most - 1], _cut(wrapped[most - 1 :])]
    return [f"{label if i == 0 else '':<{INDENT}}{line}" for i, line in enumerate(wrapped)]


def _cut(lines: list[str]) -> str:
    """Return the first of `lines`, cut between words and with an ellipsis if there are more."""
    if len(lines) == 1:
        return lines[0]
    return _wrap(lines[0], COLUMNS - INDENT - 2)[0].rstrip("\\ ") + " …"


def _wrap(text: str, width: int) -> list[str]:
    """Wrap text, a number and its unit on one line.

    >>> _wrap("it uses 34.9 % of it", 12)
    ['it uses', '34.9 % of it']
    """
    lines = textwrap.wrap(_NUMBER_AND_UNIT.sub("\N{NO-BREAK SPACE}", text), width)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _warnings(warnings: tuple[str, ...]) -> str:
    """Return as many warnings as two lines hold, whole, and how many more there are.

    >>> _warnings(("first", "second"))
    'first; second'
    """
    for shown in range(len(warnings), 0, -1):
        left = len(warnings) - shown
        more = f"; {counted(left, 'more in the report', 'more in the report')}" if left else ""
        text = "; ".join(warnings[:shown]) + more
        if shown == 1 or len(_wrap(one_line(text), COLUMNS - INDENT)) <= MOST_LINES:
            return text
    return ""


def _trace(plan: Plan) -> str:
    """Return what was read: files, requests, span, sample, classes, rejects."""
    files = plan.ingest.files
    rate = plan.slo.get("sample_rate", 1.0)
    rejected = plan.ingest.rows_read - plan.ingest.rows_used
    classes = len(plan.profile.classes)
    parts = [
        counted(plan.profile.requests, "request"),
        fmt.duration(plan.profile.span_s),
        f"{fmt.percent(rate)} sample" if isinstance(rate, float) and rate < 1 else "",
        counted(classes, "class", "classes"),
        f"{counted(rejected, 'row')} set aside{_reasons(plan)}" if rejected else "",
    ]
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    name = one_line(files[0]) if files else ""
    return f"{name}{more}  " + " · ".join(part for part in parts if part)


def _recommended(plan: Plan) -> str:
    """Return the fleet in one line."""
    d = plan.deployment
    high = "none holds" if plan.gpus.high is None else plan.gpus.high
    band = "" if plan.gpus.low == plan.gpus.high else f"  [{plan.gpus.low}–{high}]"
    shape = f"TP{d.tensor_parallel_size}"
    shape += f" PP{d.pipeline_parallel_size}" if d.pipeline_parallel_size > 1 else ""
    shape += f" DP{d.data_parallel_size}" if d.data_parallel_size > 1 else ""
    shape += " EP" if d.expert_parallel else ""
    current = current_gpus(plan)
    delta = 0 if current is None else plan.gpus.value - current
    today = f"  ({fmt.signed(delta)} against today)" if delta else "  (as many as today)"
    today = "" if current is None else today
    return (
        f"{plan.gpus.value} × {plan.gpu_name}  ({counted(plan.replicas.value, 'replica')}, "
        f"{shape}, {d.weight_dtype}){band}{today}"
    )


def _cost(plan: Plan) -> str:
    """Return the cost in one line, or that no price is known."""
    cost = plan.cost
    if cost.usd_per_hour is None:
        return "no price known: ranked by GPU count"
    text = f"{fmt.usd(cost.usd_per_hour)}/h · {fmt.usd(cost.usd_per_month)} a month"
    per_million = cost.usd_per_million_tokens_mean
    return text if per_million is None else f"{text} · {fmt.usd_fine(per_million)} per 1M tokens"


def _binds(plan: Plan) -> str:
    """Return the tightest target."""
    rows = [row for row in plan.latency if row.binds] or list(plan.latency[:1])
    missed = [row for row in plan.latency if not row.holds]
    text, fewer = _target(rows[0]), plan.replica_terms.one_fewer
    if fewer is not None and not least(plan):
        count = counted(plan.replica_terms.for_load - 1, "replica")
        value = fmt.beyond_limit(fewer.value_s, fewer.limit_s)
        text += f"; {value} with {count} for the load and its headroom"
    if least(plan):
        text += "; one replica is the least there can be"
    return f"{text}; {len(missed)} of {len(plan.latency)} targets missed" if missed else text


def _target(row: LatencyRow) -> str:
    name = f"{row.class_name} {fmt.metric(row.metric)} {fmt.percentile(row.percentile)}"
    name = without_only_class(name)
    values = f"{fmt.seconds(row.worst_s)} of {fmt.seconds(row.limit_s)}"
    return f"{name} {values} in the window {row.worst_window}"


def _surge(plan: Plan) -> str:
    """Return the surge against the chosen budget, where it decides or is close."""
    chosen = [
        row
        for row in plan.surge.budgets
        if row.max_num_batched_tokens == plan.deployment.max_num_batched_tokens
    ]
    if not chosen or (not plan.surge.decides and chosen[0].verdict == "holds"):
        return ""
    ten = fmt.percent(chosen[0].utilization_busiest_10min)
    minute = fmt.percent(chosen[0].utilization_busiest_minute)
    return (
        f"busiest ten minutes use {ten} of the sustained prompt tokens/s, busiest minute {minute}: "
        + word(VERDICTS_SHORT, chosen[0].verdict)
    )


def _next_best(plan: Plan) -> str:
    return "\n".join(_alternative(other) for other in plan.alternatives[:2])


def _alternative(other: Alternative) -> str:
    gpus = "no count holds" if other.gpus is None else counted(other.gpus, "GPU")
    return f"{worded(other.label)} ({gpus}): {word(REASONS, other.reason)}, {worded(other.detail)}"


def _savings(plan: Plan) -> str:
    """Return the settings beside the search on which fewer replicas hold, the best first."""
    rows = [row for row in plan.variants if row.outcome == "saves" and row.gpus is not None]
    rows.sort(key=lambda row: row.gpus or 0)
    return " · ".join(
        f"{row.dimension} {row.value} → {counted(row.gpus or 0, 'GPU')}" for row in rows[:MOST]
    )


def _flips(plan: Plan) -> str:
    flips = [*raising(plan)[: MOST - 1], *lowering(plan)[:1]]
    return " · ".join(
        f"{assumption(row.assumption)} {row.change} → "
        + ("no count" if row.gpus is None else counted(row.gpus, "GPU"))
        for row in flips
    )


def _sure(plan: Plan) -> str:
    totals = plan.search_totals
    text = (
        f"percentiles replayed on the trace: {totals.replays:,} replays for {totals.replayed:,} of"
        f" {totals.enumerated:,} configurations"
    )
    if plan.verified == "closed_form":
        text = "percentiles are closed-form estimates, not replayed"
    return text + _beyond(plan)


def _beyond(plan: Plan) -> str:
    """Return which targets' bands reach beyond their limits."""
    rows = beyond(plan)
    if not rows:
        return ""
    row, more = rows[0], f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    name = f"{row.class_name} {fmt.metric(row.metric)} {fmt.percentile(row.percentile)}"
    name = without_only_class(name)
    return f"; the error band of {name}{more} reaches beyond the limit"


def _reasons(plan: Plan) -> str:
    """Return why rows were set aside, the most frequent reason first."""
    rejected = sorted(plan.ingest.rejected, key=lambda row: -_number(row))
    reasons = [
        f"{_number(row):,} {one_line(str(row['reason'])).replace('_', ' ')}" for row in rejected
    ]
    return f" ({', '.join(reasons)})" if reasons else ""


def _number(row: Mapping[str, object]) -> int:
    value = row.get("count", 0)
    return value if isinstance(value, int) else 0
