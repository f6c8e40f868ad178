"""A fleet over a few hours: the fewest replicas, an autoscaler that holds, and what each costs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from solve_cases import poisson, requests_of

from planner.cli.main import cli
from planner.errors import InputError
from planner.json_data import encode
from planner.pipeline import recommend
from planner.profile.profile import profile_requests
from planner.report.codec import read_plan, rounded
from planner.report.schedule import text
from planner.solve.course import Course, ahead, asked_for, behind, constant
from planner.solve.fleet import fleet_load
from planner.solve.redo import case_of, declared_slo, trial_at
from planner.solve.schedule import schedule
from planner.spec.schema import load_schema

SLO = """model: meta-llama/Llama-3.1-8B-Instruct
slo: {ttft_s: {p99: 2.0}, tpot_s: {p99: 0.05}}
sample_rate: 0.1
spare_replicas: 1
evaluation_window_s: 900
min_requests_per_window: 300
"""
RATES = (1.0, 4.0, 6.0, 2.0)  # requests/s of the sample in each quarter of an hour


@st.composite
def courses(draw):
    n = draw(st.integers(1, 6))
    gaps = draw(st.lists(st.floats(1.0, 500.0), min_size=n, max_size=n))
    counts = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    starts = np.concatenate([[0.0], np.cumsum(gaps)[:-1]])
    return Course(starts_s=starts, counts=np.array(counts))


@given(courses(), st.floats(0.0, 800.0))
def test_boot_time_is_a_running_minimum_and_paid_ahead_a_running_maximum(course, boot_s):
    """Against a brute-force look at every second."""
    times = np.arange(0.0, course.starts_s[-1] + 900.0, 7.3)
    ready, paid = behind(course, boot_s).at(times), ahead(course, boot_s).at(times)
    edges = course.starts_s
    for t, least, most in zip(times, ready, paid, strict=True):
        if np.abs(np.concatenate([edges, edges - boot_s, edges + boot_s]) - t).min() < 1e-5:
            continue  # a change at this very moment may count to either side
        before = edges[(edges > t - boot_s) & (edges <= t)]
        after = edges[(edges > t) & (edges <= t + boot_s)]
        assert least == course.at(np.append(before, max(0.0, t - boot_s))).min()
        assert most == course.at(np.append(after, t)).max()


@given(courses(), st.floats(0.0, 800.0))
def test_what_is_asked_for_in_time_is_ready_in_time(course, boot_s):
    """Replicas paid ahead and then booted are never fewer than the timetable says."""
    later = course.starts_s >= boot_s
    served = behind(ahead(course, boot_s), boot_s).at(course.starts_s[later] + 1e-4)
    assert (served >= course.counts[later]).all()


def test_an_autoscaler_rises_at_once_and_falls_after_its_memory():
    ends = np.arange(60.0, 901.0, 60.0)
    load = np.where((ends > 200) & (ends <= 300), 55.0, 8.0)
    course = asked_for(ends, load, target=10.0, least=2, stabilization_s=300.0)
    assert course.at(np.array([100.0, 240.0, 540.0, 660.0])).tolist() == [2, 6, 6, 2]


@pytest.fixture(scope="module")
def traffic():
    parts = [poisson(rate, 900.0, seed=i, input_mean=1500) for i, rate in enumerate(RATES)]
    arrival = np.concatenate([part.arrival_s + 900.0 * i for i, part in enumerate(parts)])
    inputs = np.concatenate([part.input_tokens for part in parts])
    outputs = np.concatenate([part.output_tokens for part in parts])
    return requests_of(arrival, inputs, outputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, traffic):
    import polars as pl

    place = tmp_path_factory.mktemp("schedule")
    columns = {
        "timestamp": traffic.arrival_s,
        "input_tokens": traffic.input_tokens,
        "output_tokens": traffic.output_tokens,
    }
    pl.DataFrame(columns).write_csv(place / "day.csv")
    (place / "slo.yaml").write_text(SLO, encoding="utf-8")
    recommend([str(place / "day.csv")], ["h100"], place / "slo.yaml", output=place / "plan")
    return place


@pytest.fixture(scope="module")
def plan(folder):
    return read_plan(folder / "plan" / "plan.json")


@pytest.fixture(scope="module")
def found(plan, traffic):
    slo = declared_slo(plan)
    return schedule(plan, slo, traffic, profile_requests(traffic), boot_s=60.0)


def test_the_timetable_follows_the_load_and_saves(found):
    counts = [hour.replicas for hour in found.timetable]
    assert len(counts) == len(RATES)
    # In proportion to the rate, give or take a replica, and one for a queue that is carried over.
    for count, rate in zip(counts, RATES, strict=True):
        assert count == pytest.approx(counts[2] * rate / RATES[2], abs=2.0)
    static, scheduled = found.modes[:2]
    assert static.least == static.most >= max(counts)
    assert scheduled.most == max(counts)
    assert scheduled.replica_hours < 0.8 * static.replica_hours
    # An hour of the trace: replicas for load, and the spare.
    assert static.replica_hours == pytest.approx(static.most + 1, rel=0.01)


def test_one_replica_fewer_in_any_hour_misses_a_target(found, plan, traffic):
    """One hour of the timetable lowered: that hour breaks, or one that it leaves a queue.

    In one piece, as the schedule replays it: other stretches draw other replicas for a request.
    """
    slo = declared_slo(plan)
    case = case_of(plan.deployment, slo, traffic, profile_requests(traffic))
    load = fleet_load(case.needs)
    trial, _, _ = trial_at(case, plan.deployment, load / plan.replica_terms.for_load)
    starts = np.array([hour.start_s for hour in found.timetable])
    counts = np.array([hour.replicas for hour in found.timetable])
    whole = (0.0, found.span_s)
    assert trial.varying(load, Course(starts_s=starts, counts=counts).at, whole).holds
    for index in np.flatnonzero(counts > 1):
        fewer = counts.copy()
        fewer[index] -= 1
        lowered = Course(starts_s=starts, counts=fewer)
        assert not trial.varying(load, lowered.at, whole).holds, index


def test_a_fleet_that_never_changes_is_the_ordinary_replay(plan, traffic):
    slo = declared_slo(plan)
    case = case_of(plan.deployment, slo, traffic, profile_requests(traffic))
    load = fleet_load(case.needs)
    trial, _, _ = trial_at(case, plan.deployment, 1.0)
    same = trial.varying(load, constant(4).at, (900.0, 1800.0))
    ordinary = trial.replayed(load / 4, 4, span=(900.0, 1800.0), budget=10**9)
    assert np.array_equal(same.ttft_s, ordinary.ttft_s)
    assert np.array_equal(same.e2e_s, ordinary.e2e_s)


def test_an_autoscaler_needs_more_when_replicas_start_slowly(found, plan, traffic):
    slow = schedule(plan, declared_slo(plan), traffic, profile_requests(traffic), boot_s=600.0)
    quick = next(mode for mode in found.modes if mode.name == "reactive")
    hours = [mode.replica_hours for mode in slow.modes if mode.name == "reactive"]
    # Either it costs at least as much, or none that was tried holds.
    assert not hours or hours[0] >= quick.replica_hours
    assert found.thresholds is not None
    assert found.thresholds.max_replicas >= found.thresholds.min_replicas >= 1
    assert 0.0 < found.thresholds.kv_use <= 1.0
    ahead_of_time = [mode.replica_hours for mode in (slow.modes[1], found.modes[1])]
    assert ahead_of_time[0] >= ahead_of_time[1]


def test_json_obeys_its_schema_and_text_names_the_metrics(found):
    data = encode(found, rounded)
    assert list(Draft202012Validator(dict(load_schema("schedule"))).iter_errors(data)) == []
    page = text(found)
    assert "vllm:num_requests_running" in page
    assert "saves" in page.splitlines()[0]
    none = text(replace(found, thresholds=None, modes=found.modes[:2]))
    assert "No autoscaler" in none


def test_command(folder):
    argv = ["--plan", str(folder / "plan" / "plan.json"), "--trace", str(folder / "day.csv")]
    done = CliRunner().invoke(cli, ["schedule", *argv, "--boot-s", "60", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["timetable"]) == len(RATES)


def test_a_trace_of_a_moment_is_refused(plan, traffic):
    moment = replace(traffic, arrival_s=np.zeros(len(traffic)))
    with pytest.raises(InputError, match="covers 0 s: too little for a schedule"):
        schedule(plan, declared_slo(plan), moment, profile_requests(moment), boot_s=60.0)
