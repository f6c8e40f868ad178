"""`planner compare`: what changed between two plans, and why."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from planner.ingest.requests import Requests
    from planner.solve.counterfactual import Traces
    from planner.solve.plan import Plan
    from planner.spec.slo import WorkloadClass


@click.command(
    epilog="""\b
Example:
  planner compare main/plan.json plan.json
  planner compare last/plan.json plan.json --replay --format markdown > comment.md
""",
)
@click.argument("old", type=click.Path(path_type=Path, readable=False))
@click.argument("new", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    help="Text, a comment for a change request, or JSON. [default: text]",
)
@click.option(
    "--replay",
    is_flag=True,
    help="Replay the old deployment under each change; needs the traces where the plans name them.",
)
def command(old: Path, new: Path, style: str, replay: bool) -> None:
    """Say what changed between two plans, and why.

    OLD and NEW are plan.json files. The first sentence is the difference; then its share by cause:
    traffic, lengths, targets, reserves, engine version, calibration, settings, prices.
    """
    from planner.json_data import encode
    from planner.report import compare as words
    from planner.report.codec import dumps, read_plan, rounded
    from planner.solve.compare import compare
    from planner.solve.counterfactual import explained

    before, after = read_plan(old), read_plan(new)
    if replay:
        traces = _traces(before, after)
        found = explained(before, after, traces, lambda stage: click.echo(f"… {stage}", err=True))
    else:
        found = compare(before, after)
    if style == "json":
        click.echo(dumps(encode(found, rounded)), nl=False)
    elif style == "markdown":
        click.echo(words.markdown(found, old.as_posix(), new.as_posix()), nl=False)
    else:
        click.echo(words.text(found), nl=False)


def _traces(old: Plan, new: Plan) -> Traces:
    """Read both plans' traces; the same trace under the same classes is one object."""
    from planner.errors import InputError
    from planner.solve.counterfactual import Traces
    from planner.solve.redo import declared_slo

    before, after = declared_slo(old).classes, declared_slo(new).classes
    then = _load(old, before)
    same_trace = _identity(old) == _identity(new)
    if same_trace and before == after:
        return Traces(old=then, new=then, new_in_old=then)
    now = _load(new, after)
    if before == after:
        return Traces(old=then, new=now, new_in_old=now)
    try:
        sorted_as_before = then if same_trace else _load(new, before)
    except InputError:
        sorted_as_before = None
    return Traces(old=then, new=now, new_in_old=sorted_as_before)


def _identity(plan: Plan) -> tuple[object, ...]:
    hashes = plan.provenance.inputs_sha256
    return (*(hashes.get(file) for file in plan.ingest.files), *_reading(plan))


def _load(plan: Plan, classes: tuple[WorkloadClass, ...]) -> Requests:
    """Read the trace a plan was made from, if it is still the same."""
    from planner.errors import InputError, Problem
    from planner.ingest.load import load_trace
    from planner.spec.fingerprint import file_sha256

    problems = []
    for file in plan.ingest.files:
        message = ""
        if not Path(file).is_file():
            message = "no such file"
        elif file_sha256(Path(file)) != plan.provenance.inputs_sha256.get(file):
            message = f"is not the trace that {plan.name} was made from: its hash differs"
        if message:
            hint = "run in the folder that the plan was made in, or leave out --replay"
            problems.append(Problem(message=message, file=file, hint=hint))
    if problems:
        raise InputError(problems)
    fmt, unit = _reading(plan)
    return load_trace(list(plan.ingest.files), fmt=fmt, time_unit=unit, classes=classes).requests


def _reading(plan: Plan) -> tuple[str | None, str | None]:
    """Return the log format and time unit that the plan's command named."""
    words = shlex.split(plan.provenance.command)
    named = dict(pairwise(words))
    return named.get("--format"), named.get("--time-unit")
