"""Two plans compared: shares that add up, causes that are the right ones, text that links."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from solve_cases import poisson

from planner.cli.main import cli
from planner.json_data import encode
from planner.pipeline import recommend
from planner.profile.profile import profile_requests
from planner.report.codec import read_plan, rounded
from planner.report.compare import headline, markdown, rows, text
from planner.sim.load import scale
from planner.solve.compare import compare, terms_of
from planner.solve.counterfactual import Traces, explained
from planner.solve.differences import differences
from planner.spec.schema import load_schema

SLO = """model: meta-llama/Llama-3.1-8B-Instruct
slo: {{ttft_s: {{p99: {ttft}}}, tpot_s: {{p99: 0.05}}}}
sample_rate: 0.1
growth: {growth}
headroom: 0.1
spare_replicas: {spares}
min_requests_per_window: 500
prices_usd_per_hour: {{h100: {price}}}
"""
BASE = {"ttft": 2.0, "growth": 0.1, "spares": 1, "price": 2.0}


@pytest.fixture(scope="module")
def traffic():
    return poisson(6.0, 900.0, input_mean=1500, output_mean=250)


@pytest.fixture(scope="module")
def plans(tmp_path_factory, traffic):
    """Plans made in one folder, by name: a base and one change each."""
    place = tmp_path_factory.mktemp("compare")
    longer = replace(traffic, output_tokens=traffic.output_tokens * 2)
    traces = {"week": traffic, "busy": scale(traffic, 1.6), "long": longer}
    for name, requests in traces.items():
        columns = {
            "timestamp": requests.arrival_s,
            "input_tokens": requests.input_tokens,
            "output_tokens": requests.output_tokens,
        }
        pl.DataFrame(columns).write_csv(place / f"{name}.csv")
    changes = {
        "base": ("week", {}),
        "busy": ("busy", {}),
        "long": ("long", {}),
        "strict": ("week", {"ttft": 0.15}),
        "reserve": ("week", {"growth": 0.5, "spares": 3}),
        "dear": ("week", {"price": 3.0}),
    }
    before = Path.cwd()
    os.chdir(place)
    try:
        for name, (trace, change) in changes.items():
            slo = SLO.format(**{**BASE, **change})
            Path(f"{name}.yaml").write_text(slo, encoding="utf-8")
            recommend([f"{trace}.csv"], ["h100"], Path(f"{name}.yaml"), output=Path(name))
    finally:
        os.chdir(before)
    return place, {name: read_plan(place / name / "plan.json") for name in changes}


def causes(found):
    return [step.causes for step in found.steps]


def test_a_plan_does_not_differ_from_itself(plans):
    base = plans[1]["base"]
    found = compare(base, base)
    assert found.steps == ()
    assert found.differences == ()
    assert headline(found).endswith("nothing differs.")


@pytest.mark.parametrize("name", ["busy", "long", "strict", "reserve", "dear"])
def test_the_steps_lead_from_one_plan_to_the_other(plans, name):
    base, other = plans[1]["base"], plans[1][name]
    for old, new in ((base, other), (other, base)):
        found = compare(old, new)
        last = found.steps[-1]
        assert last.replicas == new.replicas.value
        assert last.gpus == new.gpus.value
        assert last.usd_per_month == pytest.approx(new.cost.usd_per_month, rel=1e-6)
        told = sum(int(row.gpus.replace("−", "-").replace("±", "")) for row in rows(found))
        assert told == new.gpus.value - old.gpus.value


@pytest.mark.parametrize(
    ("name", "cause"),
    [("long", "lengths"), ("strict", "targets"), ("reserve", "reserves"), ("dear", "prices")],
)
def test_the_one_thing_that_changed_is_the_cause(plans, name, cause):
    base, other = plans[1]["base"], plans[1][name]
    beside = {"settings", "traffic"} if name == "long" else {"settings"}  # another trace file
    kinds = {each.cause for each in differences(base, other)} - beside - {"decides"}
    assert kinds == {cause}
    found = compare(base, other)
    moved = {each for step in found.steps for each in step.causes} - beside
    assert moved == {cause}


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ("calibration", "calibration"),
        ("version", "planner"),
        ("growth", "reserves"),
        ("", "search"),
    ],
)
def test_the_same_trace_is_never_the_cause(plans, change, cause):
    """Another window decides after another change: its rate is no more traffic than before."""
    base = plans[1]["base"]
    terms = replace(
        base.replica_terms,
        window="0:00–0:07",
        peak_requests_per_s=1.3 * base.replica_terms.peak_requests_per_s,
        exact=base.replica_terms.exact + 1.0,
        for_load=base.replica_terms.for_load + 1,
    )
    count = replace(base.replicas, value=base.replicas.value + 1)
    new = replace(base, replica_terms=terms, replicas=count, gpus=count)
    told = base.provenance
    if change == "calibration":
        hashes = {**told.catalogue_sha256}
        hashes[next(name for name in hashes if "calibration" in name)] = "0" * 64
        new = replace(new, provenance=replace(told, catalogue_sha256=hashes))
    elif change == "version":
        new = replace(new, provenance=replace(told, planner_version="99"))
    elif change == "growth":
        new = replace(new, slo={**new.slo, "growth": 0.2}, replica_terms=replace(terms, growth=0.2))
    found = compare(base, new)
    assert causes(found) == [(cause,)]
    assert found.steps[-1].replicas == base.replicas.value + 1
    assert not {"traffic", "lengths"} & {each.cause for each in found.differences}
    assert {each.what for each in found.differences if each.cause == "decides"} == {
        "deciding window",
        "rate in the deciding window",
    }
    sampled = replace(new, slo={**new.slo, "sample_rate": 0.09})
    assert ("traffic",) in causes(compare(base, sampled))


def test_more_traffic_is_told_as_traffic_in_proportion(plans):
    base, busy = plans[1]["base"], plans[1]["busy"]
    found = compare(base, busy)
    step = found.steps[0]
    assert step.causes == ("traffic",)
    # The rate of the deciding window grew by 1.6, less or more by which window that is.
    assert step.exact / base.replica_terms.exact == pytest.approx(1.6, rel=0.1)
    assert "mainly because of traffic" in headline(found)


def test_the_capacity_gives_the_exact_count_back(plans):
    for plan in plans[1].values():
        terms = terms_of(plan)
        assert terms.exact == pytest.approx(plan.replica_terms.exact, rel=1e-5)
        assert terms.replicas == plan.replicas.value


@pytest.mark.parametrize(
    ("name", "cause"), [("busy", "traffic"), ("strict", "targets"), ("reserve", "reserves")]
)
def test_replay_finds_the_one_cause_too(plans, traffic, name, cause):
    base, other = plans[1]["base"], plans[1][name]
    now = scale(traffic, 1.6) if name == "busy" else traffic
    found = explained(base, other, Traces(old=traffic, new=now, new_in_old=now))
    assert found.method == "counterfactual"
    moves = {}
    gpus = base.gpus.value
    for step in found.steps:
        moves[step.causes] = abs(step.gpus - gpus)
        gpus = step.gpus
    assert gpus == other.gpus.value
    assert max(moves, key=lambda key: moves[key])[0] == cause, moves


def test_an_old_deployment_that_the_new_model_does_not_fit_goes_with_the_next_change(
    plans, traffic
):
    base = plans[1]["base"]
    told = {**base.slo, "model": "openai/gpt-oss-120b"}
    deployment = replace(base.deployment, model="openai/gpt-oss-120b", weight_dtype="mxfp4")
    other = replace(base, slo=told, deployment=deployment)
    found = explained(base, other, Traces(old=traffic, new=traffic, new_in_old=traffic))
    (step,) = found.steps  # bf16 weights of it leave no memory for KV: nothing is replayed
    assert "model" in step.causes
    assert step.note == "no_count_holds"


def test_a_trace_too_short_for_a_rate_is_replayed_as_it_is(plans, traffic):
    base, busy = plans[1]["base"], plans[1]["busy"]
    moment = replace(traffic, arrival_s=np.zeros(len(traffic)))
    short = replace(base, profile=profile_requests(moment))
    now = scale(traffic, 1.6)
    found = explained(short, busy, Traces(old=moment, new=now, new_in_old=now))
    assert found.steps[-1].gpus == busy.gpus.value
    assert all(step.note != "classes_differ" for step in found.steps)


def test_replay_separates_lengths_from_traffic(plans, traffic):
    """A service with half the requests of twice the output, against the plans of each change."""
    base, long = plans[1]["base"], plans[1]["long"]
    longer = replace(traffic, output_tokens=traffic.output_tokens * 2)
    half = replace(
        long, slo={**long.slo, "sample_rate": 0.2}
    )  # the same log, kept at twice the rate: half the service
    found = explained(base, half, Traces(old=traffic, new=longer, new_in_old=longer))
    lengths = next(step for step in found.steps if step.causes == ("lengths",))
    volume = next(step for step in found.steps if step.causes == ("traffic",))
    # With lengths alone, the fleet is about that of the plan for the long trace at the full rate.
    assert lengths.replicas == pytest.approx(long.replicas.value, abs=1)
    # Then half the rate: half the replicas for load, plus the spare.
    assert volume.exact == pytest.approx(lengths.exact / 2, rel=0.1)


def test_text_and_markdown_lead_with_the_difference(plans):
    made = plans[1]
    found = compare(made["base"], made["reserve"])
    first = text(found).replace("\n", " ")
    assert first.startswith(headline(found))
    page = markdown(found, "base/plan.json", "reserve/plan.json")
    assert page.startswith("### GPU fleet: +")
    assert "[week-h100](base/plan.json)" in page
    assert "| growth, headroom and spares | growth | 10 % | 50 % |" in page
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)


def test_what_was_declared_is_compared_not_what_was_reported(plans):
    """Limits and conditions edited in the declaration alone are differences too."""
    _, made = plans
    base = made["base"]
    one = base.slo["classes"][0]
    looser = [{**target, "limit_s": 9.0} for target in one["targets"]]
    edited = replace(base, slo={**base.slo, "classes": [{**one, "targets": looser}]})
    found = differences(base, edited)
    assert [(each.cause, each.before, each.after) for each in found] == [
        ("targets", 0.05, 9.0),
        ("targets", 2.0, 9.0),
    ]
    matched = [{**one, "match": {"input_tokens": {"min": 5}}}]
    (moved,) = differences(base, replace(base, slo={**base.slo, "classes": matched}))
    assert (moved.cause, moved.what, moved.before) == ("targets", "all, match", "{}")
    assert "nothing differs" not in text(compare(base, edited))


def test_another_routing_is_a_change_of_settings(plans):
    base = plans[1]["base"]
    (moved,) = differences(base, replace(base, slo={**base.slo, "routing": "least_loaded"}))
    assert (moved.cause, moved.what) == ("settings", "routing")
    assert (moved.before, moved.after) == ("random", "least_loaded")
    older = {key: value for key, value in base.slo.items() if key != "routing"}
    assert differences(replace(base, slo=older), base) == ()  # a plan from before says nothing


def test_json_obeys_its_schema(plans):
    found = compare(plans[1]["base"], plans[1]["strict"])
    data = encode(found, rounded)
    assert list(Draft202012Validator(dict(load_schema("comparison"))).iter_errors(data)) == []


def test_command_in_all_its_forms(plans, monkeypatch):
    monkeypatch.chdir(plans[0])
    runner = CliRunner()
    argv = ["compare", "base/plan.json", "dear/plan.json"]
    done = runner.invoke(cli, [*argv, "--replay", "--format", "json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["method"] == "counterfactual"
    assert [step["causes"] for step in data["steps"]] == [["prices"]]
    # 50 % dearer GPUs, nothing else.
    assert data["new"]["usd_per_month"] == pytest.approx(1.5 * data["old"]["usd_per_month"])
    assert runner.invoke(cli, [*argv, "--format", "markdown"]).stdout.startswith("### GPU fleet")


def test_replay_refuses_a_trace_that_is_not_the_plans(plans, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("week.csv").write_text("timestamp,input_tokens,output_tokens\n1,2,3\n", encoding="utf-8")
    files = [str(plans[0] / name / "plan.json") for name in ("base", "dear")]
    done = CliRunner().invoke(cli, ["compare", *files, "--replay"])
    assert "hash differs" in str(done.exception)
    Path("week.csv").unlink()
    done = CliRunner().invoke(cli, ["compare", *files, "--replay"])
    assert "no such file" in str(done.exception)
