"""A replica schedule as text."""

from __future__ import annotations

from planner.report import format as fmt
from planner.report.markdown import one_line
from planner.solve.schedule_types import Mode, Schedule, stretches
from planner.text import counted

NAMES = {
    "static": "static, sized for the peak",
    "scheduled": "by the timetable",
    "reactive": "by an autoscaler",
}
MOST_LINES = 40


def text(found: Schedule) -> str:
    """Return the comparison, the autoscaler's settings and the timetable."""
    lines = [headline(found), _fleet(found), ""]
    lines.append(f"{'':<30}{'replicas':>10}{'replica-hours':>15}{'a week':>11}{'saves':>8}")
    lines += [_mode(mode, found.modes[0]) for mode in found.modes]
    lines += ["", *_thresholds(found), "", "Timetable (spares come on top):"]
    shown = stretches(found)
    lines += [f"  {count:>4}  from {label}" for label, count in shown[:MOST_LINES]]
    if len(shown) > MOST_LINES:
        lines.append(f"  … and {len(shown) - MOST_LINES} more changes; --json has them all")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def headline(found: Schedule) -> str:
    """Return which way is cheapest, and by how much."""
    static, *others = found.modes
    best = min(others, key=lambda mode: mode.replica_hours)
    share = 1.0 - best.replica_hours / static.replica_hours
    name = one_line(found.plan_name)
    if share < 0.01:
        return f"{name}: the load is too even for a schedule to save anything."
    return f"{name}: running {NAMES[best.name]} saves {fmt.percent(share, 2)} of the replica-hours."


def _fleet(found: Schedule) -> str:
    spares = f", {found.spares} spare beside them" if found.spares else ""
    return (
        f"{found.gpus_per_replica} × {found.gpu} a replica{spares}; a replica takes"
        f" {fmt.seconds(found.boot_s)} to start; every target of every window holds in each way"
        f" ({counted(found.replays, 'replay')} of {fmt.duration(found.span_s)})"
    )


def _mode(mode: Mode, static: Mode) -> str:
    share = 1.0 - mode.replica_hours / static.replica_hours
    return (
        f"{NAMES[mode.name]:<30}{fmt.number_range(mode.least, mode.most):>10}"
        f"{fmt.count(mode.replica_hours):>15}{fmt.usd(mode.usd_per_week):>11}"
        f"{fmt.percent(share, 2):>8}"
    )


def _thresholds(found: Schedule) -> list[str]:
    kept = found.thresholds
    if kept is None:
        return [
            (
                "No autoscaler that was tried keeps the targets with this start-up time: bursts are"
                " over before a replica is ready."
            )
        ]
    return [
        "Autoscaler, means of a minute and a replica:",
        (
            f"  keep vllm:num_requests_running at {fmt.significant(kept.running)}, between"
            f" {fmt.number_range(kept.min_replicas, kept.max_replicas)} replicas; scale down after"
            f" {fmt.seconds(kept.stabilization_s)}"
        ),
        (
            f"  alert above vllm:num_requests_waiting {fmt.significant(kept.waiting)} and"
            f" vllm:kv_cache_usage_perc {fmt.significant(kept.kv_use, 2)}: more than ever lasted a"
            " minute while all targets held"
        ),
    ]
