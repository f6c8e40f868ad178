"""A deployed plan against new traffic: verdicts, margins, and the command around them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from solve_cases import poisson

from planner.cli.main import cli
from planner.errors import GateError, InputError
from planner.json_data import encode
from planner.pipeline import _declared, recommend
from planner.profile.profile import profile_requests
from planner.report.codec import read_plan, rounded
from planner.report.gate import headline, text
from planner.sim.load import scale
from planner.solve.gate import gate
from planner.solve.margins import LEAST_STEPS, MOST_STEPS, STEP, _bracket
from planner.solve.redo import declared_slo
from planner.spec.schema import load_schema

SLO = """model: meta-llama/Llama-3.1-8B-Instruct
slo: {ttft_s: {p99: 2.0}, tpot_s: {p99: 0.05}}
sample_rate: 0.1
growth: 0.1
headroom: 0.1
spare_replicas: 1
min_requests_per_window: 500
"""


def write(requests, path):
    pl.DataFrame(
        {
            "timestamp": requests.arrival_s,
            "input_tokens": requests.input_tokens,
            "output_tokens": requests.output_tokens,
        }
    ).write_csv(path)


@pytest.fixture(scope="module")
def traffic():
    return poisson(6.0, 900.0, input_mean=1500, output_mean=250)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, traffic):
    place = tmp_path_factory.mktemp("gate")
    write(traffic, place / "then.csv")
    (place / "slo.yaml").write_text(SLO, encoding="utf-8")
    recommend([str(place / "then.csv")], ["h100"], place / "slo.yaml", output=place / "plan")
    return place


@pytest.fixture(scope="module")
def plan(folder):
    return read_plan(folder / "plan" / "plan.json")


@pytest.fixture(scope="module")
def verdict(plan, traffic):
    return gate(plan, declared_slo(plan), traffic, profile_requests(traffic))


def test_the_declaration_comes_back_from_the_plan(plan):
    slo = declared_slo(plan)
    assert slo.sample_rate == 0.1
    assert [t.limit_s for t in slo.classes[0].targets] == [2.0, 0.05]
    assert json.loads(json.dumps(_declared(slo))) == json.loads(json.dumps(dict(plan.slo)))
    with pytest.raises(InputError, match="classes"):
        declared_slo(replace(plan, slo={k: v for k, v in plan.slo.items() if k != "classes"}))


def test_a_plan_holds_for_the_traffic_it_was_made_for(plan, verdict):
    assert verdict.holds
    assert verdict.replicas == plan.replica_terms.for_load
    assert verdict.spares == 1
    # The plan divides by (1 − headroom) and multiplies by (1 + growth), then rounds up: at least
    # that much must be left, less the grid's two percent and the one percent of its own search.
    assert verdict.planned_load_factor == pytest.approx(1.1 / 0.9)
    assert verdict.load_factor >= verdict.planned_load_factor / (STEP * 1.01)
    # And not more than the rounding gave, by the plan's own capacity.
    terms = plan.replica_terms
    rounding = terms.for_load / terms.exact
    assert verdict.load_factor <= verdict.planned_load_factor * rounding * STEP * 1.05


def test_margins_are_each_targets_own_and_the_smallest_binds(verdict):
    (binding,) = [target for target in verdict.targets if target.binds]
    assert binding.load_factor == verdict.load_factor
    assert binding.load_factor == min(target.load_factor for target in verdict.targets)
    for target in verdict.targets:
        assert target.holds == (target.worst_s <= target.limit_s)
        assert target.margin == pytest.approx(1 - target.worst_s / target.limit_s)


def test_it_fails_beyond_the_load_factor_it_states(plan, traffic, verdict):
    """More of the same traffic, laid over itself outside the gate, must break where it says."""
    slo = declared_slo(plan)
    for share, holds in ((0.93, True), (1.08, False)):
        more = scale(traffic, verdict.load_factor * share, seed=7)
        again = gate(plan, slo, more, profile_requests(more))
        assert again.holds is holds, (share, again.load_factor)


def test_fewer_replicas_carry_less_in_proportion(plan, traffic, verdict):
    """Random routing: replicas are independent, so 60 % of them carry about 60 % of the load."""
    fewer = round(0.6 * verdict.replicas)
    found = gate(plan, declared_slo(plan), traffic, profile_requests(traffic), replicas=fewer)
    share = fewer / verdict.replicas
    assert found.load_factor / verdict.load_factor == pytest.approx(share, rel=0.08)
    assert not found.holds
    assert "no longer holds" in headline(found)
    assert found.spares == 0


def test_what_is_asked_for_beyond_the_traffic_decides_too(plan, traffic, verdict):
    beyond = verdict.load_factor * 1.1
    found = gate(plan, declared_slo(plan), traffic, profile_requests(traffic), needed=beyond)
    assert not found.holds
    assert all(target.holds for target in found.targets)
    assert "asked for" in headline(found)


def test_changes_of_traffic_are_named(plan, traffic):
    half = replace(traffic, output_tokens=np.maximum(2, traffic.output_tokens // 2))
    found = gate(plan, declared_slo(plan), half, profile_requests(half))
    (change,) = found.traffic
    assert change.requests_ratio == pytest.approx(1.0, rel=1e-4)
    assert change.output_tokens_ratio == pytest.approx(0.5, rel=0.01)
    assert "output tokens −50 %" in text(found)
    assert "within 5 %" not in text(found)


def test_a_changed_catalogue_entry_is_said(plan, traffic):
    stale = dict.fromkeys(plan.provenance.catalogue_sha256, "0")
    old = replace(plan, provenance=replace(plan.provenance, catalogue_sha256=stale))
    found = gate(old, declared_slo(plan), traffic, profile_requests(traffic))
    assert [w.split(" ", 1)[0] for w in found.warnings] == sorted(stale)


def test_json_obeys_its_schema(verdict):
    data = encode(verdict, rounded)
    assert list(Draft202012Validator(dict(load_schema("gate"))).iter_errors(data)) == []


@pytest.mark.parametrize("edge", [-120, -116, -50, -1, 0, 3, 4, 69, 70, 90])
def test_the_bracket_is_right_wherever_the_edge_is(edge):
    low, high = _bracket(lambda step: step <= edge)
    assert low <= max(LEAST_STEPS, min(edge, MOST_STEPS)) < high


def test_command_prints_the_verdict_and_exits_4_when_it_fails(folder, traffic):
    runner = CliRunner()
    argv = ["gate", "--plan", str(folder / "plan" / "plan.json"), "--trace"]
    held = runner.invoke(cli, [*argv, str(folder / "then.csv")])
    assert held.exit_code == 0, held.output
    assert "holds and carries" in held.stdout
    write(scale(traffic, 1.8), folder / "now.csv")
    failed = runner.invoke(cli, [*argv, str(folder / "now.csv"), "--json"])
    assert isinstance(failed.exception, GateError)
    assert failed.exception.exit_code == 4
    data = json.loads(failed.stdout)
    assert data["holds"] is False
    assert data["load_factor"] < 1.0


def test_command_takes_other_targets(folder):
    (folder / "strict.yaml").write_text(SLO.replace("2.0", "0.02"), encoding="utf-8")
    argv = ["--plan", str(folder / "plan" / "plan.json"), "--trace", str(folder / "then.csv")]
    done = CliRunner().invoke(cli, ["gate", *argv, "--slo", str(folder / "strict.yaml")])
    assert isinstance(done.exception, GateError)
    assert "TTFT p99 VIOLATED" in done.stdout


def test_same_input_same_bytes(plan, traffic, verdict):
    again = gate(plan, declared_slo(plan), traffic, profile_requests(traffic))
    assert again == verdict


def test_the_factor_is_told_as_the_search_knows_it(verdict):
    """Neighbours on a grid of two percent, each rounded outwards by less than a hundredth."""
    for target in (*verdict.targets, verdict):
        if target.at_least:
            assert target.load_factor_below is None
            continue
        low, high = target.load_factor, target.load_factor_below
        assert low * STEP - 0.02 < high < low * STEP + 0.03
        assert (round(low, 2), round(high, 2)) == (low, high)
    said = f"at least {verdict.load_factor:.2f}× and less than {verdict.load_factor_below:.2f}×"
    assert f"{said} this traffic, where " in headline(verdict)


def test_one_is_singular(verdict):
    one = replace(verdict, replicas=1, gpus=1, spares=2)
    assert "\n1 replica on 1 × h100-sxm, 2 spares left out;" in text(one)


def test_a_fleet_that_carries_a_tenth_of_it_nowhere_is_told_so(plan, traffic):
    slo = declared_slo(plan)
    (only,) = slo.classes
    limits = tuple(replace(target, limit_s=1e-4) for target in only.targets)
    impossible = replace(slo, classes=(replace(only, targets=limits),))
    found = gate(plan, impossible, traffic, profile_requests(traffic))
    assert not found.holds
    assert (found.load_factor, found.load_factor_below) == (0.0, 0.11)
    assert "carry less than 0.11× this traffic" in headline(found)


def edited(folder, path, value):
    """Write plan.json with one value changed and return its name."""
    data = json.loads((folder / "plan" / "plan.json").read_text(encoding="utf-8"))
    at = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    (folder / "edited.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    return folder / "edited.json"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("deployment", "tensor_parallel_size"), 0),
        (("deployment", "block_size"), 0),
        (("deployment", "block_size"), 7),
        (("deployment", "weight_dtype"), "int2"),
        (("deployment", "gpu_memory_utilization"), 1.7),
        (("deployment", "gpu_memory_utilization"), 0.05),
        (("deployment", "max_num_batched_tokens"), 1),
        (("deployment", "max_num_batched_tokens"), 10**12),
        (("deployment", "max_model_len"), 10**9),
        (("deployment", "model"), "foo/bar"),
        (("deployment", "gpu"), "h999"),
        (("deployment", "engine"), "ollama"),
        (("deployment", "engine_version"), "9.9"),
        (("replicas", "value"), 0),
        (("gpus", "value"), 10**9),
        (("slo", "sample_rate"), 0),
        (("slo", "classes", 0, "targets", 0, "limit_s"), -1),
        (("replica_terms", "spare"), 10**6),
        (("replica_terms", "for_load"), 10**6),
    ],
)
def test_a_plan_that_cannot_be_is_refused_at_the_value(folder, path, value):
    """Whatever an edit breaks is one problem with the value's own line, for gate and compare."""
    file = edited(folder, path, value)
    key = f'"{path[-1]}":'
    with pytest.raises(InputError) as caught:
        read_plan(file)
    (problem,) = caught.value.problems
    assert problem.file == str(file)
    assert key in file.read_text(encoding="utf-8").splitlines()[problem.line - 1]
    assert problem.path.endswith(path[-1])
    good = str(folder / "plan" / "plan.json")
    for words in (
        ["gate", "--plan", str(file), "--trace", str(folder / "then.csv")],
        ["compare", good, str(file)],
    ):
        result = CliRunner().invoke(cli, words)
        assert isinstance(result.exception, InputError)


def test_more_replicas_than_requests_are_refused(plan, traffic):
    with pytest.raises(InputError, match="1,000,000,000 replicas for"):
        gate(plan, declared_slo(plan), traffic, profile_requests(traffic), replicas=10**9)


def test_targets_for_another_model_are_refused(plan, traffic):
    """What is deployed does not serve it: its weights would not even fit."""
    other = replace(declared_slo(plan), model="openai/gpt-oss-120b", file="other.yaml")
    with pytest.raises(InputError, match="is for openai/gpt-oss-120b, and the plan deploys"):
        gate(plan, other, traffic, profile_requests(traffic))


@pytest.mark.parametrize("typed", ["nan", "inf", "-1", "0"])
def test_a_load_factor_is_a_finite_number_above_zero(folder, typed):
    words = ["--plan", str(folder / "plan" / "plan.json"), "--trace", str(folder / "then.csv")]
    result = CliRunner().invoke(cli, ["gate", *words, "--load-factor", typed])
    assert result.exit_code == 2
    assert "--load-factor" in result.output
