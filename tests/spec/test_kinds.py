"""One of the planner's files given for another is answered in one sentence."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from planner.cli.main import cli
from planner.errors import InputError
from planner.report.codec import read_plan
from planner.report.fleet import read_fleet_plan
from planner.spec.fleet_file import load_fleet
from planner.spec.slo_file import load_slo
from planner.synth.load import load_recipe

SLO = "model: meta-llama/Llama-3.1-8B-Instruct\nslo: {ttft_s: {p99: 2.0}}\nspare_replicas: 1\n"
FLEET = """start: "2027-01-01"
inventory:
  h100:
    eu: {held: 4, available: 8, usd_per_hour: 2.5}
services:
  chat: {slo: slo.yaml, traffic: day.csv, growth_per_quarter: 0.1}
"""
RECIPE = "duration_s: 60\nseed: 1\nclasses: {}\n"


@pytest.fixture
def files(tmp_path):
    for name, text in (("slo.yaml", SLO), ("fleet.yaml", FLEET), ("recipe.yaml", RECIPE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("load", "name", "said"),
    [
        (load_slo, "fleet.yaml", "this is a fleet.yaml, not an slo.yaml"),
        (load_slo, "recipe.yaml", "this is a recipe of traffic, not an slo.yaml"),
        (load_fleet, "slo.yaml", "this is an slo.yaml, not a fleet.yaml"),
        (load_recipe, "slo.yaml", "this is an slo.yaml, not a recipe of traffic"),
        (read_plan, "fleet.yaml", "this is a fleet.yaml, not a plan.json"),
        (read_fleet_plan, "fleet.yaml", "this is a fleet.yaml, not a fleet.json"),
    ],
)
def test_the_wrong_file_is_one_problem(files, load, name, said):
    with pytest.raises(InputError) as caught:
        load(files / name)
    (problem,) = caught.value.problems
    assert problem.message.startswith(said)
    assert problem.hint
    assert problem.file == str(files / name)


def test_a_file_with_slips_is_still_its_own(files):
    """Keys nobody knows, and keys that a recipe has too, do not make an slo.yaml another file."""
    (files / "slo.yaml").write_text("classes: {}\nseed: 1\nsample_rate: 2\nmodell: x\n")
    with pytest.raises(InputError) as caught:
        load_slo(files / "slo.yaml")
    assert any("modell" in problem.path for problem in caught.value.problems)


def test_check_takes_a_fleet_file(files):
    result = CliRunner().invoke(cli, ["check", str(files / "fleet.yaml")])
    assert result.exit_code == 0, result.output
    assert f"{files / 'fleet.yaml'}: OK" in result.stdout
    assert "  h100-sxm in eu: 4 GPUs held, 0 committed, 8 can be had, $2.5 an hour" in result.stdout
    assert "survives the loss of 1 replica; headroom 0.1" in result.stdout
    data = json.loads(
        CliRunner().invoke(cli, ["check", str(files / "fleet.yaml"), "--json"]).stdout
    )
    assert data["ok"] is True
    assert data["fleet"]["start"] == "2027-01-01"


def test_check_of_a_fleet_file_names_its_problems(files):
    (files / "fleet.yaml").write_text(FLEET.replace("held: 4", "held: 4, hold: 4"))
    result = CliRunner().invoke(cli, ["check", str(files / "fleet.yaml"), "--json"])
    assert result.exit_code == 2
    (problem,) = json.loads(result.stdout)["problems"]
    assert problem["path"] == "inventory.h100.eu.hold"
