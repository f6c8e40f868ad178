"""`planner check`: say whether an slo.yaml is right, and what it declares."""

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
""",
)
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(file: Path, as_json: bool) -> None:
    """Check an slo.yaml and report every problem with its place.

    Prints the model, classes, targets and defaults of a valid file. Otherwise prints all problems,
    each as file:line:column, and exits with 2.
    """
    from planner.errors import InputError
    from planner.spec.slo_file import load_slo
    from planner.spec.slo_text import as_data, summary

    try:
        slo = load_slo(file)
    except InputError as error:
        if not as_json:
            raise
        problems = [asdict(problem) for problem in error.problems]
        _print({"ok": False, "problems": problems})
        sys.exit(error.exit_code)
    for warning in slo.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        _print(as_data(slo))
    else:
        click.echo(summary(slo))


def _print(data: dict[str, Any]) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True)
    # A file name need not be UTF-8; its odd bytes become JSON escapes.
    click.echo(text.encode(errors="backslashreplace").decode())
