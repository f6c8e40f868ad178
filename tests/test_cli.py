"""The command line as a whole: help, exit codes, documentation and start-up cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from planner.cli.main import COMMANDS, cli


def test_reference_equals_the_help_texts(root: Path) -> None:
    # In a process of its own: click keeps on each command the help option it was first asked for.
    done = subprocess.run(
        [sys.executable, "-m", "planner.cli.reference"], capture_output=True, text=True, check=True
    )
    written = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == done.stdout, "docs/cli.md is stale: run `make docs`"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Example" in result.output
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    undocumented = [
        parameter.name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert undocumented == []


def test_every_command_module_is_listed(root: Path) -> None:
    modules = {path.stem for path in (root / "planner" / "cli").glob("*.py")}
    helpers = {
        "__init__",
        "main",
        "options",
        "reference",
        "progress",
        "replicas",
        "scaled",
        "values",
    }
    assert modules - helpers == set(COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from planner.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'polars', 'duckdb', 'scipy', 'numba', 'numpy', 'jinja2'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_unknown_command_exits_2() -> None:
    result = CliRunner().invoke(cli, ["recomend"])
    assert result.exit_code == 2
