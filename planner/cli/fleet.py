"""`planner fleet`: several services on shared GPUs, quarter by quarter."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    epilog="""\b
Example:
  planner fleet --config fleet.yaml --output reports/fleet-example
""",
)
@click.option(
    "--config",
    "config",
    required=True,
    type=click.Path(path_type=Path),
    help="Services, inventory, prices, growth and launches: a fleet.yaml.",
)
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="Directory of the report.",
)
@click.option("--json", "as_json", is_flag=True, help="Print fleet.json instead of the summary.")
def command(config: Path, output: Path, as_json: bool) -> None:
    """Buy, keep, release: GPUs for several services, quarter by quarter.

    Forecasts each service's demand with a band, sizes it on every GPU type as `planner recommend`
    does, finds the cheapest fleet within inventory, budget and redundancy for all quarters at once,
    and replays it. Writes fleet.json and a report. Exit 3 says which constraint to relax.
    """
    from planner.pipeline import plan_fleet
    from planner.report.codec import dumps
    from planner.report.fleet import fleet_to_dict, summary

    plan = plan_fleet(
        config, output=output, progress=lambda stage: click.echo(f"… {stage}", err=True)
    )
    for warning in plan.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(dumps(fleet_to_dict(plan)) if as_json else summary(plan, output), nl=False)
