"""The `planner` command: one subcommand a file, imported only when it runs."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any

import click

import planner
from planner.errors import InputError, PlannerError, StoppedError

GC_THRESHOLD = 100_000

# Subcommand -> what `planner --help` says, so that listing them imports none of them.
COMMANDS = {
    "recommend": "Size a fleet for a trace: settings, GPU count and the reasons.",
    "profile": "Say what the traffic in a trace is, class by class.",
    "check": "Check an slo.yaml and report every problem with its place.",
    "simulate": "Replay a trace through one deployment, request by request.",
    "fleet": "Buy, keep, release: GPUs for several services, quarter by quarter.",
    "gate": "Say whether a deployed plan still holds for new traffic; exit 4 if not.",
    "window": "Write the requests of one replica in a plan's hardest window, to replay on it.",
    "schedule": "Compare a static fleet with a timetable and an autoscaler.",
    "compare": "Say what changed between two plans, and why.",
    "explain": "Print an equation with the numbers of a case substituted.",
    "catalog": "List the known GPUs, models and engines with their sources.",
    "reproduce": "Recompute published results of papers on LLM serving.",
    "validate": "Compare predictions with measured serving points and start-ups.",
    "synth": "Write a seeded, realistic synthetic trace from a recipe.",
}


class LazyGroup(click.Group):
    """Lists every command without importing it; `planner --help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order a newcomer needs them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; every file in this package names it `command`."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"planner.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command table from COMMANDS."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(planner.__version__, prog_name="planner")
def cli() -> None:
    """Size an LLM serving fleet from its own request logs.

    Data goes to stdout, progress and warnings to stderr. Exit codes: 0 done, 2 bad input,
    3 no feasible plan, 4 a gate fails, 130 stopped by Ctrl-C.
    """


def main(argv: list[str] | None = None) -> Any:  # noqa: ANN401 - click returns what commands return
    """Run the command line; turn a PlannerError into its message and exit code."""
    # Imports and compiled code leave many objects that live to the end: look them over less often.
    gc.set_threshold(GC_THRESHOLD, 50, 50)
    # Vectors are too short for several threads, whose sums would depend on the number of cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        return cli.main(args=argv, prog_name="planner", standalone_mode=True)
    except InputError as error:
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        sys.exit(error.exit_code)
    except StoppedError as stopped:
        click.echo(f"\n{stopped}", err=True)
        sys.exit(stopped.exit_code)
    except PlannerError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
