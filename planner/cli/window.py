"""`planner window`: the load test of a plan's hardest window, as lines that generators replay."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.options import format_options, plan_option, trace_option
from planner.errors import InputError, Problem


@click.command(
    epilog="""\b
Example:
  planner window --plan reports/week42-h100/plan.json --trace traces/week42.parquet
  planner window --plan plan.json --trace logs/ --output window.jsonl --classes classes.txt
""",
)
@plan_option("plan.json that the load test should refute.")
@trace_option("The plan's request log: a file, a directory or a glob. Repeat it for several.")
@click.option(
    "--output",
    default=Path("window.jsonl"),
    type=click.Path(path_type=Path),
    help="File to write. [default: window.jsonl]",
)
@click.option(
    "--classes",
    "classes_file",
    type=click.Path(path_type=Path),
    help="Also write the class of every line, a name a line.",
)
@format_options
def command(
    plan_file: Path,
    traces: tuple[str, ...],
    output: Path,
    classes_file: Path | None,
    fmt: str | None,
    time_unit: str | None,
) -> None:
    """Write the requests of one replica in a plan's hardest window, to replay on it.

    They are those of the plan's own replay: the window that decides and the quarter of an hour
    before it, at one replica's share of the load. One JSON object a line in Mooncake's format,
    which AIPerf replays with --custom-dataset-type mooncake_trace --fixed-schedule.
    """
    from planner.ingest.load import load_trace
    from planner.output import check_file, write_whole
    from planner.profile.profile import profile_requests
    from planner.report.codec import read_plan
    from planner.report.trace_lines import class_lines, trace_lines
    from planner.report.window import told
    from planner.solve.redo import declared_slo
    from planner.solve.replica_window import replica_window

    inputs: tuple[str | Path, ...] = (plan_file, *traces)
    if classes_file is not None and classes_file.resolve() == output.resolve():
        message, hint = "is the file of --output too", "name another for the classes"
        raise InputError(Problem(message=message, path="--classes", hint=hint))
    plan = read_plan(plan_file)
    slo = declared_slo(plan)
    for path in (output, classes_file):
        if path is not None:
            check_file(path, inputs=inputs)
    click.echo("… reading the trace", err=True)
    requests = load_trace(list(traces), fmt=fmt, time_unit=time_unit, classes=slo.classes).requests
    found = replica_window(plan, slo, requests, profile_requests(requests))
    lines = "".join(trace_lines(found.requests, found.start_s)).encode()
    write_whole(output, lambda stream: stream.write(lines), inputs=inputs)
    if classes_file is not None:
        names = "".join(class_lines(found.requests)).encode()
        write_whole(classes_file, lambda stream: stream.write(names), inputs=inputs)
    click.echo(told(found, str(output)))
