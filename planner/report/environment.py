"""The template environments. Nothing reaches a page unescaped, and no number unformatted.

Markdown: every expression is escaped by `markdown.escape` unless a filter here returned Markup, and
a bare number is an error, so that units and rounding come from `report.format` alone.
SVG: XML autoescape, numbers become coordinates with one decimal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    StrictUndefined,
    Undefined,
)
from markupsafe import Markup

from planner.report import format as fmt
from planner.report import markdown, words
from planner.report.scales import pixel
from planner.resources import is_writable, resource_dir, user_cache_dir

FORMATTERS: tuple[Callable[..., str], ...] = (
    fmt.significant,
    fmt.count,
    fmt.whole,
    fmt.signed,
    fmt.seconds,
    fmt.beyond_limit,
    fmt.duration,
    fmt.moment,
    fmt.milliseconds,
    fmt.gib,
    fmt.gb,
    fmt.kib,
    fmt.tokens,
    fmt.tokens_per_s,
    fmt.requests_per_s,
    fmt.usd,
    fmt.usd_exact,
    fmt.usd_fine,
    fmt.percent,
    fmt.band,
    fmt.probability,
    fmt.factor,
    fmt.load_limit,
    fmt.margin_step,
    fmt.percentile,
    fmt.number_range,
    fmt.on_off,
)


def _finish_markdown(value: object) -> Markup:
    """Escape text; refuse numbers that no formatter has seen."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, (str, Undefined)):
        return markdown.escape(str(value))  # str of an undefined raises, naming it
    raise TypeError(f"{value!r} reaches the report without a unit: give it a filter")


def _finish_svg(value: object) -> str:
    """Write coordinates with one decimal; drop what XML does not allow in text."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, (int, float)):
        return pixel(float(value))
    return markdown.one_line(str(value))


@cache
def markdown_environment() -> Environment:
    """Return the environment of report.md and of the findings' sentences."""
    environment = _environment(_finish_markdown)
    for function in FORMATTERS:
        environment.filters[function.__name__] = _safe(function)
    environment.filters["code"] = markdown.code
    environment.filters["fenced"] = markdown.fenced
    return environment


@cache
def svg_environment() -> Environment:
    """Return the environment of templates/charts/*.svg.j2."""
    environment = _environment(_finish_svg)
    for function in FORMATTERS:
        environment.filters[function.__name__] = function
    return environment


def _environment(finish: Callable[[object], str]) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=finish,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=_compiled_templates(),
    )
    environment.filters["plural"] = _plural
    environment.filters["starts"] = _starts
    environment.filters["ends"] = _ends
    environment.filters["plain"] = fmt.plain
    environment.filters["metric"] = fmt.metric
    environment.filters["line"] = markdown.one_line
    environment.filters["worded"] = words.worded
    environment.filters["assumption"] = words.assumption
    for name, table in (
        ("verdict", words.VERDICTS),
        ("verdict_short", words.VERDICTS_SHORT),
        ("grade", words.GRADES),
        ("doubt", words.DOUBTS),
        ("lost", words.REASONS),
        ("outcome", words.OUTCOMES),
        ("split", words.SPLITS),
        ("variant", words.VARIANTS),
        ("priority", words.PRIORITIES),
    ):
        environment.filters[name] = _looked_up(table)
    return environment


def _compiled_templates() -> FileSystemBytecodeCache | None:
    """Return where compiled templates are kept; they are checked against their sources."""
    folder = user_cache_dir() / "templates"
    return FileSystemBytecodeCache(str(folder)) if is_writable(folder) else None


def _plural(number: float | None) -> Markup:
    """Return the "s" of a noun that `number` counts."""
    return Markup("s" if number is None or abs(number) != 1 else "")


def _ends(text: str | None, end: str) -> bool:
    """Whether a text ends so, for conditions."""
    return str(text).endswith(end)


def _starts(text: str | None, start: str) -> bool:
    """Whether a text begins so, for conditions."""
    return str(text).startswith(start)


def _safe(function: Callable[..., str]) -> Callable[..., Markup]:
    """Mark a formatter's output as needing no escaping: it holds digits, units and signs."""

    def formatted(*args: Any, **kwargs: Any) -> Markup:  # noqa: ANN401 - passed through
        return Markup(function(*args, **kwargs))

    return formatted


def _looked_up(table: Any) -> Callable[[str], str]:  # noqa: ANN401 - a mapping of words
    def look_up(key: str) -> str:
        return words.word(table, key)

    return look_up
