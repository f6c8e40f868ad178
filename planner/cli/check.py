"""`planner check`: say whether an slo.yaml or a fleet.yaml is right, and what it declares."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click


@click.command(
    epilog="""\b
Example:
  planner check slo.yaml
  planner check fleet.yaml
""",
)
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(file: Path, as_json: bool) -> None:
    """Check an slo.yaml or a fleet.yaml and report every problem with its place.

    Prints the model, classes, targets and defaults of a valid slo.yaml, inventory and services of a
    valid fleet.yaml (with the slo.yaml of each). Otherwise prints all problems, each as
    file:line:column, and exits with 2.
    """
    from planner.errors import InputError

    try:
        data, text, warnings = _checked(file)
    except InputError as error:
        if not as_json:
            raise
        problems = [asdict(problem) for problem in error.problems]
        _print({"ok": False, "problems": problems})
        sys.exit(error.exit_code)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        _print(data)
    else:
        click.echo(text)


def _checked(file: Path) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """Return what a file declares as data and in words, and its warnings."""
    from planner.spec import fleet_text, slo_text
    from planner.spec.fleet_file import load_fleet
    from planner.spec.kinds import kind_of
    from planner.spec.load import scan_document
    from planner.spec.slo_file import load_slo

    if kind_of(scan_document(file).data) == "fleet":
        fleet, warnings = load_fleet(file)
        return fleet_text.as_data(fleet), fleet_text.summary(fleet), warnings
    slo = load_slo(file)
    return slo_text.as_data(slo), slo_text.summary(slo), tuple(map(str, slo.warnings))


def _print(data: dict[str, Any]) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True)
    # A file name need not be UTF-8; its odd bytes become JSON escapes.
    click.echo(text.encode(errors="backslashreplace").decode())
