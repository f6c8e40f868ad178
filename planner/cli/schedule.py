"""`planner schedule`: replicas hour by hour, against a static fleet and an autoscaler."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.options import format_options, plan_option, trace_option
from planner.cli.values import FiniteRange


@click.command(
    epilog="""\b
Example:
  planner schedule --plan reports/week42-h100/plan.json --trace traces/week42.parquet --boot-s 180
""",
)
@plan_option("plan.json whose deployment is run.")
@trace_option("Request log, a week of it if possible: a file, a directory or a glob.")
@click.option(
    "--boot-s",
    type=FiniteRange(0),
    default=300.0,
    help="Seconds from asking for a replica to its first request. [default: 300]",
)
@format_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    plan_file: Path,
    traces: tuple[str, ...],
    boot_s: float,
    fmt: str | None,
    time_unit: str | None,
    as_json: bool,
) -> None:
    """Compare a static fleet with a timetable and an autoscaler.

    Finds the fewest replicas of every hour, and the autoscaler's target that still keeps every
    promise although a replica takes time to start. Each way is replayed in full, with the plan's
    growth and headroom; a week of a large service takes minutes.
    """
    from planner.ingest.load import load_trace
    from planner.json_data import encode
    from planner.profile.profile import profile_requests
    from planner.report.codec import dumps, read_plan, rounded
    from planner.report.schedule import text
    from planner.solve.redo import declared_slo
    from planner.solve.schedule import schedule

    plan = read_plan(plan_file)
    slo = declared_slo(plan)
    click.echo("… reading the trace", err=True)
    requests = load_trace(list(traces), fmt=fmt, time_unit=time_unit, classes=slo.classes).requests
    found = schedule(
        plan,
        slo,
        requests,
        profile_requests(requests),
        boot_s=boot_s,
        progress=lambda stage: click.echo(f"… {stage}", err=True),
    )
    click.echo(dumps(encode(found, rounded)) if as_json else text(found), nl=False)
