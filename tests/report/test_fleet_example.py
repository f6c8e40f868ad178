"""The fleet example in reports/ is what the code writes today from the fleet.yaml at the top."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from planner.report.fleet import read_fleet_plan, render_fleet

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "reports" / "fleet-example"


def contents(directory):
    return {p.name: p.read_text(encoding="utf-8") for p in directory.iterdir() if p.is_file()}


def test_it_has_four_services_three_gpu_types_and_four_quarters():
    plan = read_fleet_plan(EXAMPLE / "fleet.json")
    assert len(plan.forecasts) == 4
    assert len({stock.gpu for stock in plan.quarters[0].stocks}) == 3
    assert len(plan.quarters) == 4


def test_it_is_the_rendering_of_its_fleet_json():
    assert render_fleet(read_fleet_plan(EXAMPLE / "fleet.json")) == contents(EXAMPLE)


@pytest.mark.slow
def test_it_comes_out_of_its_own_command(tmp_path, monkeypatch):
    """Run its command in a folder that has only the inputs it names."""
    from planner.cli.main import cli

    plan = read_fleet_plan(EXAMPLE / "fleet.json")
    for name in plan.inputs_sha256:
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    argv = shlex.split(plan.command)
    cli.main(args=argv[1:], prog_name="planner", standalone_mode=False)
    assert contents(tmp_path / argv[-1]) == contents(EXAMPLE)
