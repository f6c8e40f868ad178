"""`planner profile`: say what the traffic in a trace is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from planner.cli.options import format_options

if TYPE_CHECKING:
    from planner.ingest.report import IngestReport
    from planner.profile.types import ClassProfile, LengthStats, TraceProfile, Window
    from planner.spec.slo import Slo

MOST_COLUMNS = 7  # classes that fit on a screen; the JSON has all
SCREEN_COLUMNS = 132
INDENT = " " * 19
SHORTEST_SHOWN_S = 60.0  # busiest seconds are in the JSON: no fleet is sized for one


@click.command(
    epilog="""\b
Examples:
  planner profile traces/week42.parquet --slo slo.yaml
  planner profile logs/*.jsonl.gz --output profile.json
""",
)
@click.argument("traces", nargs=-1, metavar="TRACE...")
@click.option("--trace", "more", multiple=True, metavar="TRACE", help="The same as TRACE.")
@click.option(
    "--slo",
    "slo_file",
    type=click.Path(path_type=Path, readable=False),
    help="Profile the workload classes that this slo.yaml declares.",
)
@format_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, readable=False),
    help="Write the profile to this file as JSON (schemas/profile.schema.json).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the profile as JSON.")
def command(
    traces: tuple[str, ...],
    more: tuple[str, ...],
    slo_file: Path | None,
    fmt: str | None,
    time_unit: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Say what the traffic in TRACE is, class by class.

    TRACE is a file, a directory or a glob; several are read as one trace. Prints rates, bursts,
    lengths, sessions, prefix reuse and the hardest windows, and which rows were set aside and why.
    """
    paths = [*traces, *more]
    if not paths:
        raise click.UsageError("name at least one trace, for example traces/week42.parquet")

    from planner.ingest.load import load_trace
    from planner.profile.cautions import MIN_REQUESTS, cautions
    from planner.profile.profile import profile_requests
    from planner.profile.store import dumps, write_profile

    slo = _slo(slo_file)
    loaded = load_trace(paths, fmt=fmt, time_unit=time_unit, classes=slo.classes if slo else ())
    profile = profile_requests(loaded.requests)
    if output is not None:
        write_profile(profile, output, inputs=(*loaded.report.files, slo_file or ""))
    if as_json:
        click.echo(dumps(profile), nl=False)
    else:
        click.echo("\n".join(_screen(profile, loaded.report)))
    if slo and slo.sample_rate != 1.0:
        text = f"sample_rate is {slo.sample_rate:g}: rates and counts here are the log's"
        click.echo(f"note: {text}, before it is applied", err=True)
    needed = slo.min_requests_per_window if slo else MIN_REQUESTS
    for caution in cautions(profile, min_requests=needed):
        click.echo(f"warning: {caution}", err=True)


def _slo(path: Path | None) -> Slo | None:
    from planner.spec.slo_file import load_slo

    return None if path is None else load_slo(path)


def _screen(profile: TraceProfile, report: IngestReport) -> list[str]:
    return [
        *_head(profile, report),
        *_set_aside("set aside", report.rejected),
        *_set_aside("kept, but", report.flagged),
        "",
        *_classes(profile),
        *_reuse(profile),
        "",
        *(
            _window(profile.origin, window)
            for window in profile.hardest_windows
            if window.duration_s >= SHORTEST_SHOWN_S
        ),
    ]


def _head(profile: TraceProfile, report: IngestReport) -> list[str]:
    from planner.profile.windows import moment
    from planner.report.format import count, duration
    from planner.text import counted, visible

    files = visible(", ".join(report.files))
    begins = f" · from {moment(profile.origin, 0.0)}" if profile.origin else ""
    return [
        f"{files}  {counted(profile.requests, 'request')} · {duration(profile.span_s)}{begins}",
        f"format     {report.format} ({report.format_reason}) · time in {report.time_unit}",
        *(f"assumed    {text}" for text in report.assumptions),
        f"rows       {count(report.rows_read)} read, {count(report.rows_used)} used",
    ]


def _set_aside(title: str, entries: Sequence[Mapping[str, object]]) -> list[str]:
    lines = []
    for entry in entries:
        what = f"{title:<10} {entry['count']:>7,} {entry['reason']}: {entry['effect']}"
        lines += wrap(what, SCREEN_COLUMNS, subsequent_indent=INDENT)
        if entry.get("example"):
            lines += wrap(
                f"e.g. {entry['example']}",
                SCREEN_COLUMNS,
                initial_indent=INDENT,
                subsequent_indent=INDENT,
            )
    return lines


def _classes(profile: TraceProfile) -> list[str]:
    """Lay the classes out as columns, the whole trace first."""
    largest = sorted(profile.classes, key=lambda item: -item.requests)[:MOST_COLUMNS]
    shown = [profile.total, *(item for item in profile.classes if item in largest)]
    if len(profile.classes) == 1:
        shown = shown[1:]
    lines = [f"{'':<26}" + "".join(f"{item.name[:12]:>13}" for item in shown)]
    for label, cell in _rows():
        cells = [cell(item) for item in shown]
        if any(cells):
            lines.append(f"{label:<26}" + "".join(f"{text or '–':>13}" for text in cells))
    hidden = len(profile.classes) - len(largest)
    return [*lines, f"… and {hidden} smaller classes: see --json"] if hidden else lines


def _rows() -> list[tuple[str, Callable[[ClassProfile], str]]]:
    """Return label and cell of every line of the class table; an empty cell means unknown."""
    from planner.report.format import count, percent, seconds, significant

    def lengths(
        label: str, of: Callable[[ClassProfile], LengthStats]
    ) -> list[tuple[str, Callable[[ClassProfile], str]]]:
        return [
            (f"{label} mean", lambda c: count(of(c).mean)),
            ("  P50", lambda c: count(of(c).p50)),
            ("  P95", lambda c: count(of(c).p95)),
            ("  P99", lambda c: count(of(c).p99)),
            ("  longest", lambda c: count(of(c).max)),
        ]

    return [
        ("requests", lambda c: count(c.requests)),
        ("share", lambda c: percent(c.share)),
        ("requests/s mean", lambda c: significant(c.arrivals.mean_per_s)),
        ("busiest second/mean", lambda c: significant(c.arrivals.peak_to_mean_1s)),
        ("busiest minute/mean", lambda c: significant(c.arrivals.peak_to_mean_60s)),
        ("busiest hour/mean", lambda c: significant(c.arrivals.peak_to_mean_3600s)),
        ("gap CV (Poisson 1)", lambda c: significant(c.arrivals.gap_cv)),
        ("Gamma shape, KS", lambda c: _fit(c.arrivals.gamma_shape, c.arrivals.ks_gamma)),
        ("Weibull shape, KS", lambda c: _fit(c.arrivals.weibull_shape, c.arrivals.ks_weibull)),
        ("Fano of minutes", lambda c: significant(c.arrivals.fano_60s)),
        *lengths("input tokens", lambda c: c.input_tokens),
        *lengths("output tokens", lambda c: c.output_tokens),
        ("in/out rank correlation", lambda c: significant(c.spearman, 2)),
        (
            "turns per session",
            lambda c: significant(c.sessions.turns_per_session_mean) if c.sessions else "",
        ),
        (
            "time to next turn P50",
            lambda c: seconds(c.sessions.think_time_p50_s) if c.sessions else "",
        ),
        (
            "prefix reuse, ideal cache",
            lambda c: percent(c.reuse.hit_share_by_cache_blocks["inf"]) if c.reuse else "",
        ),
    ]


def _reuse(profile: TraceProfile) -> list[str]:
    from planner.report.format import count, percent

    reuse = profile.total.reuse
    if reuse is None or reuse.block_tokens == 0:
        return []
    shares = ", ".join(
        f"{percent(share)} with {'no limit' if size == 'inf' else count(float(size))}"
        for size, share in reuse.hit_share_by_cache_blocks.items()
    )
    return [f"input tokens found by an LRU cache, in blocks of {reuse.block_tokens}: {shares}"]


def _fit(shape: float, distance: float) -> str:
    from planner.report.format import significant

    return f"{significant(shape)}, {significant(distance, 2)}"


def _window(origin: str, window: Window) -> str:
    from planner.profile.windows import moment
    from planner.report.codec import rounded
    from planner.report.format import count, significant
    from planner.report.format import moment as as_reported

    # A report shows the start that plan.json keeps: the same second must stand here.
    start_s = rounded(window.start_s)
    begins = as_reported(start_s, origin) if origin else moment("", start_s)
    return (
        f"{window.label:<35} {begins:<23}"
        f" {count(window.requests):>8} requests"
        f" {significant(window.input_tokens_per_s):>9} prompt tokens/s"
        f" {significant(window.output_tokens_per_s):>8} output tokens/s"
    )
