"""The README shows what the commands print, to the letter."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli.main import cli

BLOCK = re.compile(r"```console\n\$ planner (?P<command>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)


def shown(root: Path) -> list[tuple[str, str]]:
    text = (root / "README.md").read_text(encoding="utf-8")
    return [(found["command"], found["output"]) for found in BLOCK.finditer(text)]


def test_every_shown_command_prints_what_is_shown(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run in a copy of the inputs, so that the report does not land in the checkout."""
    for name in ("traces", "slo.yaml"):
        (tmp_path / name).symlink_to(root / name)
    monkeypatch.chdir(tmp_path)
    blocks = shown(root)
    assert len(blocks) >= 2
    for command, output in blocks:
        result = CliRunner().invoke(cli, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert result.stdout == output, f"README is stale for: planner {command}"
