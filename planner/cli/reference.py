"""Render `docs/cli.md` from the commands' own `--help`, so that the two cannot disagree."""

from __future__ import annotations

import click

from planner.cli.main import COMMANDS, cli

WIDTH = 88


def help_of(command: click.Command, name: str) -> str:
    """Return the `--help` text of one command at a fixed width."""
    # As the running command would: click keeps the help option that the first context asked for.
    names = cli.context_settings["help_option_names"]
    with click.Context(
        command, info_name=name, max_content_width=WIDTH, help_option_names=names
    ) as context:
        context.terminal_width = WIDTH
        return command.get_help(context)


def render() -> str:
    """Return the whole reference as Markdown: the group first, then each command."""
    parts = [
        "# Command line reference",
        "",
        "Generated from `planner --help` by `make docs`; a test compares the two.",
        "",
        "```text",
        help_of(cli, "planner"),
        "```",
    ]
    with click.Context(cli) as context:
        for name in COMMANDS:
            command = cli.get_command(context, name)
            assert command is not None, f"COMMANDS lists {name}, which has no module"
            parts += ["", f"## planner {name}", "", "```text"]
            parts += [help_of(command, f"planner {name}"), "```"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    click.echo(render(), nl=False)
