"""The verdict on a deployed plan as text."""

from __future__ import annotations

from planner.report import format as fmt
from planner.report.markdown import one_line
from planner.solve.gate import Gate, TrafficChange
from planner.solve.margins import GateTarget
from planner.text import counted

NOTABLE = 0.05  # a change of traffic below this is the luck of a week


def text(gate: Gate) -> str:
    """Return the verdict first, then every target with its margin, then what changed."""
    lines = [
        headline(gate),
        _fleet(gate),
        "",
        f"{'':<36}{'limit':>9}{'worst':>10}{'margin':>9}{'attained':>10}{'carries':>12}",
        *(line for target in gate.targets for line in _target(target)),
        "",
        *_traffic(gate),
    ]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def headline(gate: Gate) -> str:
    """Return one sentence: whether the plan holds, and what is left."""
    carries = f"{_between(gate.load_factor, gate.load_factor_below)} this traffic"
    name = one_line(gate.plan_name)
    broken = [target for target in gate.targets if not target.holds]
    if broken:
        names = ", ".join(_name(target) for target in broken)
        return f"{name} no longer holds: {names}; its replicas carry {carries}"
    binding = next(target for target in gate.targets if target.binds)
    limit = "" if gate.at_least else f", where {_name(binding)} breaks"
    if not gate.holds:
        asked = fmt.factor(gate.needed)
        return f"{name} holds, but is asked for {asked} and carries {carries}{limit}"
    return f"{name} holds and carries {carries}{limit}"


def _between(holds: float, fails: float | None) -> str:
    """Return what the search knows of the multiple that is carried.

    >>> _between(1.4, 1.43), _between(3.99, None), _between(0.0, 0.11)
    ('at least 1.40× and less than 1.43×', 'at least 3.99×', 'less than 0.11×')
    """
    least = f"at least {holds:.2f}×" if holds else ""
    below = "" if fails is None else f"less than {fails:.2f}×"
    return " and ".join(part for part in (least, below) if part)


def _name(target: GateTarget) -> str:
    return f"{target.class_name} {fmt.metric(target.metric)} {fmt.percentile(target.percentile)}"


def _fleet(gate: Gate) -> str:
    spares = f", {counted(gate.spares, 'spare')} left out" if gate.spares else ""
    sample = f", {fmt.percent(gate.sample_rate)} sample" if gate.sample_rate < 1 else ""
    return (
        f"{counted(gate.replicas, 'replica')} on {gate.gpus} × {gate.gpu}{spares};"
        f" {counted(gate.requests, 'request')} of {fmt.duration(gate.span_s)}{sample};"
        f" the plan had set aside {fmt.factor(gate.planned_load_factor)}"
    )


def _target(target: GateTarget) -> list[str]:
    promise = (
        f"{target.class_name}: {fmt.metric(target.metric)} {fmt.percentile(target.percentile)}"
    )
    verdict = promise if target.holds else f"{promise} VIOLATED"
    below = target.load_factor_below
    carries = f"≥ {target.load_factor:.2f}×"
    if below is not None:
        carries = (
            f"{target.load_factor:.2f}–{below:.2f}×" if target.load_factor else f"< {below:.2f}×"
        )
    cells = (
        f"{fmt.seconds(target.limit_s):>9}{fmt.seconds(target.worst_s):>10}"
        f"{fmt.percent(target.margin, 2):>9}{fmt.percent(target.attainment):>10}{carries:>12}"
    )
    mark = "  binds" if target.binds else ""
    return [f"{one_line(verdict):<36}{cells}{mark}", f"  in {target.worst_window}"]


def _traffic(gate: Gate) -> list[str]:
    """Return what changed since the plan's own trace, classes that did not change left out."""
    found = [(each.class_name, _changes(each)) for each in gate.traffic]
    lines = [f"{name}: {', '.join(changes)}" for name, changes in found if changes]
    if not lines:
        return ["Traffic is the plan's within 5 % in every class."]
    return ["Against the plan's traffic:", *(f"  {one_line(line)}" for line in lines)]


def _changes(each: TrafficChange) -> list[str]:
    if each.requests_ratio is None:
        return [f"new, {fmt.requests_per_s(each.requests_per_s)}"]
    named = (
        ("requests", each.requests_ratio),
        ("busiest hour", each.peak_hour_ratio),
        ("prompt tokens", each.input_tokens_ratio),
        ("output tokens", each.output_tokens_ratio),
    )
    return [
        f"{name} {fmt.signed(100 * (ratio - 1))} %"
        for name, ratio in named
        if ratio is not None and abs(ratio - 1) >= NOTABLE
    ]
