"""`planner gate`: whether a deployed plan still holds for new traffic."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.options import format_options, plan_option, trace_option
from planner.cli.values import FiniteRange


@click.command(
    epilog="""\b
Example:
  planner gate --plan reports/week42-h100/plan.json --trace traces/week43.parquet
  planner gate --plan plan.json --trace logs/ --load-factor 1.1 --json
""",
)
@plan_option("plan.json of what is deployed.")
@trace_option(
    "Request log to hold it against: a file, a directory or a glob. Repeat it for several."
)
@click.option(
    "--slo",
    "slo_file",
    type=click.Path(path_type=Path),
    help="Targets and sample rate, instead of those that the plan was made for.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="Replicas that carry the load; by default the plan's without its spares.",
)
@click.option(
    "--load-factor",
    type=FiniteRange(0, min_open=True),
    default=1.0,
    help="Multiple of the trace's traffic that must be carried. [default: 1]",
)
@format_options
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(
    plan_file: Path,
    traces: tuple[str, ...],
    slo_file: Path | None,
    replicas: int | None,
    load_factor: float,
    fmt: str | None,
    time_unit: str | None,
    as_json: bool,
) -> None:
    """Say whether a deployed plan still holds for new traffic; exit 4 if not.

    Replays the trace, as it is, on the plan's deployment at the plan's replicas without spares.
    Prints for every class and target the margin and the multiple of this traffic it still carries.
    For a scheduled job or a check of a pull request: 0 holds, 4 does not.
    """
    from planner.errors import GateError
    from planner.ingest.load import load_trace
    from planner.json_data import encode
    from planner.profile.profile import profile_requests
    from planner.report.codec import dumps, read_plan, rounded
    from planner.report.gate import headline, text
    from planner.solve.gate import gate
    from planner.solve.redo import declared_slo
    from planner.spec.slo_file import load_slo
    from planner.text import counted

    plan = read_plan(plan_file)
    slo = declared_slo(plan) if slo_file is None else load_slo(slo_file)
    click.echo("… reading the trace", err=True)
    requests = load_trace(list(traces), fmt=fmt, time_unit=time_unit, classes=slo.classes).requests
    click.echo(f"… replaying {counted(len(requests), 'request')}", err=True)
    verdict = gate(
        plan, slo, requests, profile_requests(requests), replicas=replicas, needed=load_factor
    )
    for warning in verdict.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(dumps(encode(verdict, rounded)) if as_json else text(verdict), nl=False)
    if not verdict.holds:
        raise GateError(headline(verdict))
