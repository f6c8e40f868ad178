"""The reports in reports/ are what the code writes today: as renderings, and from their inputs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from planner.report.codec import read_plan
from planner.report.render import render

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "reports").glob("*/plan.json"))
IDS = [example.name for example in EXAMPLES]


def contents(directory: Path) -> dict[str, str]:
    return {p.name: p.read_text(encoding="utf-8") for p in directory.iterdir() if p.is_file()}


def test_the_worked_examples_are_there():
    assert IDS == ["azure-conversation-h100", "week42-h100"]


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_worked_example_is_the_rendering_of_its_plan_json(example):
    assert render(read_plan(example / "plan.json")) == contents(example)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_worked_example_comes_out_of_its_own_command(example, tmp_path, monkeypatch, request):
    """Run the command in the plan's provenance in a folder that has only the named inputs."""
    from planner.cli.main import cli

    plan = read_plan(example / "plan.json")
    argv = shlex.split(plan.provenance.command)
    assert argv[0] == "planner"
    for name in plan.provenance.inputs_sha256:
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(source_of(name, request))
    monkeypatch.chdir(tmp_path)
    cli.main(args=argv[1:], prog_name="planner", standalone_mode=False)
    (written,) = tmp_path.glob("**/plan.json")
    assert contents(written.parent) == contents(example)


def source_of(name: str, request) -> Path:
    """Return an input of a worked example: from the checkout, else from the reference traces."""
    if (ROOT / name).exists():
        return ROOT / name
    traces = request.getfixturevalue("shared") / "traces"
    for folder, _, files in os.walk(traces):
        if Path(name).name in files:
            return Path(folder) / Path(name).name
    pytest.skip(f"{name} is neither in the project nor among the reference traces")


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_what_one_replica_fewer_misses_lies_in_the_window_that_decides(example):
    """The first paragraph and the replica terms speak of one window."""
    terms = read_plan(example / "plan.json").replica_terms
    assert terms.one_fewer is None or terms.one_fewer.window == terms.window
    assert (terms.one_fewer is None) == (terms.for_load == 1)
