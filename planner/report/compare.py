"""Two plans side by side: one sentence first, then why, then everything that differs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.report import format as fmt
from planner.report.markdown import code, escape, one_line
from planner.report.words import worded
from planner.solve.compare import Comparison, Side, Step
from planner.solve.differences import Difference

CAUSES = {
    "traffic": "traffic",
    "lengths": "lengths and mix of requests",
    "targets": "targets",
    "reserves": "growth, headroom and spares",
    "model": "model",
    "gpu": "GPU type",
    "settings": "engine settings",
    "engine": "engine version",
    "calibration": "calibration",
    "planner": "planner version",
    "prices": "prices",
    "search": "another way through the search",
    "decides": "what decides",
}
METHODS = {
    "terms": "Shares come from the two plans' own terms, exchanged in the order of the table; what "
    "several causes did to one replica's capacity stays together. With both traces at hand, "
    "`--replay` tells them apart.",
    "counterfactual": "Shares come from replaying the old deployment under each change in the "
    "order of the table, the new plan's own choice of GPU and settings last. Another order would "
    "share out differently what two changes do together.",
}
COLUMNS = 100
CAUSE_COLUMNS = 56
NOTES = {
    "no_count_holds": "no number of the old replicas holds before the next change",
    "classes_differ": "the new requests do not fit the old classes, so these are told together",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One step as text."""

    causes: str
    exact: str
    replicas: str
    gpus: str
    money: str
    note: str


def headline(found: Comparison) -> str:
    """Return the whole difference in one sentence."""
    old, new = found.old, found.new
    name = one_line(new.name)
    if (old.gpus.value, old.gpu) == (new.gpus.value, new.gpu):
        fleet = f"{name} needs {_gpus(new)} as {one_line(old.name)} does"
    else:
        before = f"{old.gpus.value}" if old.gpu == new.gpu else _gpus(old)
        fleet = f"{name} needs {_gpus(new)} instead of {before}"
    same = (old.gpus.value, old.usd_per_month) == (new.gpus.value, new.usd_per_month)
    money = "" if same else _money(old.usd_per_month, new.usd_per_month)
    cause = _main_cause(found)
    return f"{fleet}{f' ({money})' if money else ''}{f', {cause}' if cause else ''}."


def _gpus(side: Side) -> str:
    return f"{fmt.count(side.gpus.value)} × {side.gpu}"


def _money(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return ""
    share = f", {_signed_percent(after / before - 1)}" if before else ""
    return f"{signed_usd(after - before)} a month{share}"


def signed_usd(value: float) -> str:
    """Write a difference of dollars with its sign.

    >>> signed_usd(2153.5), signed_usd(-12.0), signed_usd(0.0)
    ('+$2,154', '−$12.00', '±$0')
    """
    if abs(value) < 0.005:
        return "±$0"
    return ("+" if value > 0 else "") + fmt.usd(value)


def _signed_percent(share: float) -> str:
    return f"{'+' if share > 0 else ''}{fmt.percent(share, 2)}"


def _main_cause(found: Comparison) -> str:
    """Return the step that moved the fleet most, or that nothing moved it."""
    moves = [(abs(after[1] - before[1]), step) for before, after, step in _moves(found)]
    largest = max(moves, key=lambda move: move[0], default=None)
    if largest is None or not largest[0]:
        return "nothing that changed moves the count" if found.differences else "nothing differs"
    return f"mainly because of {names(largest[1].causes)}"


def _moves(
    found: Comparison,
) -> Iterator[tuple[tuple[int, float], tuple[int, float], Step]]:
    """Yield (before, after, step); each side is GPUs and what is compared: dollars, else GPUs."""
    old = found.old
    states = [(old.gpus.value, _weight(old.usd_per_month, old.gpus.value))]
    states += [(step.gpus, _weight(step.usd_per_month, step.gpus)) for step in found.steps]
    for (before, after), step in zip(pairwise(states), found.steps, strict=True):
        yield before, after, step


def _weight(usd: float | None, gpus: int) -> float:
    return float(gpus) if usd is None else usd


def names(causes: Sequence[str]) -> str:
    """Return causes as people say them.

    >>> names(("traffic",)), names(("targets", "gpu", "engine"))
    ('traffic', 'targets, GPU type and engine version')
    """
    words = [CAUSES.get(cause, cause) for cause in causes]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def rows(found: Comparison) -> list[Row]:
    """Return every step with what it changed."""
    result = []
    replicas, money = found.old.replicas.value, found.old.usd_per_month
    for before, after, step in _moves(found):
        usd = None if money is None or step.usd_per_month is None else step.usd_per_month - money
        result.append(
            Row(
                causes=names(step.causes),
                exact="" if step.exact is None else fmt.significant(step.exact),
                replicas=f"{replicas} → {step.replicas}",
                gpus=fmt.signed(after[0] - before[0]),
                money="n/a" if usd is None else signed_usd(usd),
                note=NOTES.get(step.note, step.note),
            )
        )
        replicas, money = step.replicas, step.usd_per_month
    return result


def text(found: Comparison) -> str:
    """Return the comparison for a terminal."""
    lines = [*textwrap.wrap(headline(found), COLUMNS), ""]
    shown = rows(found)
    if shown:
        titles = f"{'replicas':>12}{'exact':>8}{'GPUs':>7}{'a month':>13}"
        lines.append(f"{'because of':<{CAUSE_COLUMNS}}{titles}")
        lines += [line for row in shown for line in _row_lines(row)]
        method = METHODS[found.method].replace("`", "")
        lines += ["", *textwrap.wrap(method, COLUMNS), ""]
    for each in found.differences:
        sides = f"{value(each, each.before)} → {value(each, each.after)}"
        lines.append(f"{CAUSES[each.cause]}: {worded(one_line(each.what))} {sides}")
    return "\n".join(lines).rstrip() + "\n"


def _row_lines(row: Row) -> list[str]:
    """Return one step as lines: its causes wrapped, the figures on the last of them."""
    *before, last = textwrap.wrap(row.causes, CAUSE_COLUMNS)
    figures = f"{row.replicas:>12}{row.exact:>8}{row.gpus:>7}{row.money:>13}"
    note = [f"  {row.note}"] if row.note else []
    return [*before, f"{last:<{CAUSE_COLUMNS}}{figures}", *note]


def markdown(found: Comparison, old_file: str, new_file: str) -> str:
    """Return a comment for a change request; the plans are linked by their files as typed."""
    old, new = found.old, found.new
    lines = [
        f"### GPU fleet: {_title(old, new)}",
        "",
        f"**{escape(headline(found))}**",
        "",
        "| | before | after | change |",
        "|---|---|---|---|",
        f"| plan | {_link(old, old_file)} | {_link(new, new_file)} | |",
        *(_cells(cells) for cells in _facts(old, new)),
        "",
    ]
    shown = rows(found)
    if shown:
        lines += ["| because of | replicas | exact | GPUs | a month |", "|---|---|---|---|---|"]
        for row in shown:
            note = f" ({row.note})" if row.note else ""
            lines.append(
                _cells((f"{row.causes}{note}", row.replicas, row.exact, row.gpus, row.money))
            )
        lines += ["", METHODS[found.method], ""]
    return "\n".join([*lines, *_everything(found)]).rstrip() + "\n"


def _title(old: Side, new: Side) -> str:
    if (old.gpus.value, old.gpu, old.usd_per_month) == (new.gpus.value, new.gpu, new.usd_per_month):
        return "unchanged"
    money = _money(old.usd_per_month, new.usd_per_month)
    change = new.gpus.value - old.gpus.value
    delta = f"{fmt.signed(change)} {'GPU' if abs(change) == 1 else 'GPUs'}"
    fleet = delta if old.gpu == new.gpu else f"{_gpus(old)} → {_gpus(new)}"
    return f"{fleet}{f', {money}' if money else ''}"


def _everything(found: Comparison) -> list[str]:
    """Return all differences, folded away."""
    if not found.differences:
        return []
    lines = ["<details><summary>Everything that differs</summary>", ""]
    lines += ["| cause | what | before | after |", "|---|---|---|---|"]
    for each in found.differences:
        sides = (value(each, each.before), value(each, each.after))
        lines.append(_cells((CAUSES[each.cause], escape(worded(each.what)), *map(escape, sides))))
    return [*lines, "", "</details>"]


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _link(side: Side, file: str) -> str:
    target = f"<{file}>" if any(c in file for c in " ()") else file
    return f"[{escape(side.name)}]({target})" if "<" not in side.name else str(code(file))


def _facts(old: Side, new: Side) -> Iterator[tuple[str, str, str, str]]:
    """Yield what is shown of both plans side by side."""

    def count(side: Side) -> str:
        return f"{_gpus(side)} [{fmt.number_range(side.gpus.low, side.gpus.high)}]"

    def tightest(side: Side) -> str:
        return f"{escape(worded(side.binds))}, margin {fmt.percent(side.margin, 2)}"

    yield "GPUs", count(old), count(new), fmt.signed(new.gpus.value - old.gpus.value)
    money = _money(old.usd_per_month, new.usd_per_month)
    yield "cost a month", fmt.usd(old.usd_per_month), fmt.usd(new.usd_per_month), money
    yield "tightest target", tightest(old), tightest(new), ""


def value(each: Difference, amount: float | int | str | None) -> str:
    """Write one side of a difference in its unit.

    >>> each = Difference(cause="targets", what="chat", unit="s", before=1.5, after=None)
    >>> value(each, each.before), value(each, each.after)
    ('1.5 s', 'none')
    """
    if amount is None:
        return "none"
    if isinstance(amount, (str, bool)):
        return fmt.plain(amount)
    writers: dict[str, Callable[[float], str]] = {
        "s": fmt.seconds,
        "tokens": fmt.tokens,
        "requests/s": fmt.requests_per_s,
        "1": fmt.percent,
        "USD/h": lambda usd: f"{fmt.usd(usd)}/h",
    }
    return writers[each.unit](amount) if each.unit in writers else fmt.plain(amount)
