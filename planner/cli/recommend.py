"""`planner recommend`: size a fleet for a trace."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.options import format_options, trace_option
from planner.cli.values import NamedPath


@click.command(
    epilog="""\b
Example:
  planner recommend --trace traces/week42.parquet --gpu h100 --slo slo.yaml
  planner recommend --trace logs/ --gpu h100,l40s,mi300x --slo slo.yaml --output plan
""",
)
@trace_option()
@click.option(
    "--gpu",
    "gpus",
    required=True,
    metavar="GPU[,GPU]",
    help="GPU type; with several, the cheapest plan wins. any: those that slo.yaml names, or else"
    " all with a price.",
)
@click.option(
    "--slo",
    "slo_file",
    required=True,
    type=click.Path(path_type=Path),
    help="What the service must promise.",
)
@click.option(
    "--output",
    "-o",
    type=NamedPath(path_type=Path),
    help="Directory of the report; by default reports/<trace>-<gpu>.",
)
@format_options
@click.option("--model", metavar="MODEL", help="Model, instead of the one that slo.yaml names.")
@click.option(
    "--share-or-split",
    is_flag=True,
    help="Solve pools of their own for classes, and priority scheduling on one pool, where"
    " equations do not rule them out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print plan.json instead of the summary.")
def command(
    traces: tuple[str, ...],
    gpus: str,
    slo_file: Path,
    output: Path | None,
    fmt: str | None,
    time_unit: str | None,
    model: str | None,
    share_or_split: bool,
    as_json: bool,
) -> None:
    """Size a fleet for a trace: settings, GPU count and the reasons.

    Reads the trace, finds the cheapest deployment that keeps every target of slo.yaml in every
    evaluation window, and writes the report with plan.json, figures and the launch command.
    """
    from planner.pipeline import plan_name, recommend
    from planner.report.codec import dumps, plan_to_dict
    from planner.report.terminal import summary

    names = [name.strip() for name in gpus.split(",") if name.strip()]
    directory = output or Path("reports") / plan_name(traces, names)
    plan = recommend(
        traces,
        names,
        slo_file,
        output=directory,
        share_or_split=share_or_split,
        fmt=fmt,
        time_unit=time_unit,
        model=model,
        progress=lambda stage: click.echo(f"… {stage}", err=True),
    )
    for warning in plan.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(dumps(plan_to_dict(plan)) if as_json else summary(plan, directory), nl=False)
