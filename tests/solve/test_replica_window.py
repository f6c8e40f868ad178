"""The load test's traffic: one replica's share of the window that decided a plan."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from solve_cases import poisson

from planner.cli.main import cli
from planner.errors import InputError
from planner.ingest.load import load_trace
from planner.pipeline import recommend
from planner.profile.profile import profile_requests
from planner.report.codec import read_plan
from planner.report.trace_lines import trace_lines
from planner.solve.deployed import contradictions
from planner.solve.redo import declared_slo
from planner.solve.replica_window import replica_window, share_of_replica

SLO = """model: meta-llama/Llama-3.1-8B-Instruct
slo: {ttft_s: {p99: 2.0}, tpot_s: {p99: 0.05}}
sample_rate: 0.1
growth: 0.1
evaluation_window_s: 600
min_requests_per_window: 500
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("window")
    calm = poisson(3.0, 2400.0, input_mean=1500, output_mean=250)
    busy = poisson(4.0, 600.0, input_mean=1500, output_mean=250, seed=5)
    frame = pl.DataFrame(
        {
            "timestamp": np.concatenate([calm.arrival_s, busy.arrival_s + 1200.0]),
            "input_tokens": np.concatenate([calm.input_tokens, busy.input_tokens]),
            "output_tokens": np.concatenate([calm.output_tokens, busy.output_tokens]),
        }
    ).sort("timestamp")
    frame.write_csv(place / "trace.csv")
    frame.filter(pl.col("timestamp") < 700).write_csv(place / "other.csv")
    (place / "slo.yaml").write_text(SLO, encoding="utf-8")
    recommend([str(place / "trace.csv")], ["h100"], place / "slo.yaml", output=place / "plan")
    return place


@pytest.fixture(scope="module")
def plan(folder):
    return read_plan(folder / "plan" / "plan.json")


def test_one_replica_gets_its_share_of_the_deciding_window(folder, plan):
    requests = load_trace([str(folder / "trace.csv")]).requests
    found = replica_window(plan, declared_slo(plan), requests, profile_requests(requests))
    terms = plan.replica_terms
    assert found.share == pytest.approx(1.1 / (0.1 * terms.for_load))
    assert found.label == terms.window
    begin, end = found.start_s + found.lead_s, found.start_s + found.lead_s + 600.0
    assert found.requests.arrival_s.min() >= found.start_s
    assert found.requests.arrival_s.max() <= end
    judged = int((found.requests.arrival_s >= begin).sum())
    there = int(((requests.arrival_s >= begin) & (requests.arrival_s <= end)).sum())
    # the share of a Poisson count, and what copies moved over the window's edges
    assert judged == pytest.approx(found.share * there, abs=4 * (found.share * there) ** 0.5)


def test_the_command_writes_lines_that_come_back_as_a_trace(folder):
    target, names = folder / "window.jsonl", folder / "names.txt"
    plan_file, trace = str(folder / "plan" / "plan.json"), str(folder / "trace.csv")
    command = ["window", "--plan", plan_file, "--trace", trace]
    told = CliRunner().invoke(cli, [*command, "--output", str(target), "--classes", str(names)])
    assert told.exit_code == 0, told.output
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(names.read_text().splitlines()) == len(rows)
    assert f"{len(rows):,} requests of one replica" in told.output
    again = load_trace([str(target)]).requests
    assert again.input_tokens.tolist() == [row["input_length"] for row in rows]
    assert [row["timestamp"] for row in rows] == sorted(row["timestamp"] for row in rows)


def test_one_file_for_lines_and_classes_is_refused(folder):
    plan_file, trace = str(folder / "plan" / "plan.json"), str(folder / "trace.csv")
    both = folder / "both.jsonl"
    command = ["window", "--plan", plan_file, "--trace", trace, "--output", str(both)]
    told = CliRunner().invoke(cli, [*command, "--classes", str(folder / "." / "both.jsonl")])
    assert isinstance(told.exception, InputError)
    assert "--classes: is the file of --output too" in str(told.exception)
    assert not both.exists()


def test_a_share_without_a_request_is_refused(folder, plan):
    requests = load_trace([str(folder / "trace.csv")]).requests
    rare = replace(plan, replica_terms=replace(plan.replica_terms, for_load=10**9))
    with pytest.raises(InputError, match="comes to one replica"):
        replica_window(rare, declared_slo(plan), requests, profile_requests(requests))


def test_counts_that_do_not_belong_together_are_named(plan):
    terms = replace(plan.replica_terms, for_load=plan.replica_terms.for_load + 1)
    (found,) = contradictions(replace(plan, replica_terms=terms))
    assert found.path == ("replica_terms", "for_load")
    assert "for the load and 0 spares are not" in found.message


def test_another_trace_is_refused_by_the_window_it_lacks(folder, plan):
    requests = load_trace([str(folder / "other.csv")]).requests
    with pytest.raises(InputError, match="has no window"):
        replica_window(plan, declared_slo(plan), requests, profile_requests(requests))


def test_hash_ids_cover_the_prompt_and_are_shared_as_in_the_log():
    base = poisson(1.0, 3.0, seed=3)
    requests = replace(
        base,
        arrival_s=np.array([10.0, 10.5]),
        input_tokens=np.array([1100, 600]),
        output_tokens=np.array([5, 7]),
        class_id=np.zeros(2, np.int64),
        cached_tokens=np.zeros(2, np.int64),
        session_id=np.full(2, -1),
        block_tokens=512,
        block_offset=np.array([0, 2, 3]),
        block_ids=np.array([7, 9, 7]),
    )
    lines = [json.loads(line) for line in trace_lines(requests, 10.0)]
    assert lines == [
        {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 500, "input_length": 600, "output_length": 7, "hash_ids": [0, 3]},
    ]


def test_the_share_is_growth_over_sample_and_replicas(plan):
    terms = replace(plan.replica_terms, growth=0.5, for_load=4)
    moved = replace(plan, replica_terms=terms, slo={**plan.slo, "sample_rate": 0.5})
    assert share_of_replica(moved) == pytest.approx(1.5 / (0.5 * 4))
