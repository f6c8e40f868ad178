"""Options that several commands share, so that they read and behave alike everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def plan_option(help_text: str) -> Decorator:
    """Return `--plan PATH`, the plan.json that a command starts from."""
    return click.option(
        "--plan", "plan_file", required=True, type=click.Path(path_type=Path), help=help_text
    )


def trace_option(
    help_text: str = "Request log: a file, a directory or a glob. Repeat it for several.",
) -> Decorator:
    """Return `--trace TRACE`, as often as there are logs."""
    return click.option(
        "--trace", "traces", multiple=True, required=True, metavar="TRACE", help=help_text
    )


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format` and `--time-unit`: how a log is read where its content leaves a doubt."""
    unit = click.option(
        "--time-unit",
        metavar="UNIT",
        help="Unit of numeric arrival times, where the format does not say: s, ms, us or ns.",
    )
    fmt = click.option(
        "--format", "fmt", metavar="NAME", help="Log format, instead of detecting it."
    )
    return fmt(unit(command))
