"""`planner simulate` at a plan's state gives the plan's own replay of a sampled trace."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from planner.cli.simulate import command
from planner.ingest.load import load_trace
from planner.profile.profile import profile_requests
from planner.sim.copying import INDEPENDENT_S
from planner.sim.setup import deployment_of
from planner.solve.redo import case_of, trial_at
from planner.spec import catalog
from planner.spec.slo_file import load_slo
from planner.units import HOUR_S

SAMPLE, GROWTH, REPLICAS, SEED = 0.1, 0.2, 3, 5
SLO = f"""
model: meta-llama/Llama-3.1-8B-Instruct
classes:
  chat: {{match: {{class: chat}}, slo: {{ttft_s: {{p99: 1.5}}, tpot_s: {{p99: 0.05}}}}}}
  batch: {{match: {{class: batch}}, slo: {{e2e_s: {{p90: 300}}}}}}
sample_rate: {SAMPLE}
growth: {GROWTH}
seed: {SEED}
"""


@pytest.fixture
def folder(tmp_path):
    """Write two hours of a Poisson stream at 0.4 requests/s: the sample's bursts are its luck."""
    rng = np.random.default_rng(1)
    n = 2900
    pl.DataFrame(
        {
            "timestamp": np.cumsum(rng.exponential(2.5, n)).round(6),
            "input_tokens": rng.integers(100, 3000, n),
            "output_tokens": rng.integers(20, 400, n),
            "class": np.where(rng.random(n) < 0.7, "chat", "batch"),
        }
    ).write_csv(tmp_path / "trace.csv")
    (tmp_path / "slo.yaml").write_text(SLO, encoding="utf-8")
    return tmp_path


def simulated(folder, *words):
    argv = ["--trace", folder / "trace.csv", "--slo", folder / "slo.yaml", "--gpu", "h100"]
    told = [str(word) for word in (*argv, "--replicas", REPLICAS, "--json", *words)]
    return CliRunner().invoke(command, told, catch_exceptions=False)


def planned(folder):
    """Return the trial that recommend and gate would hold the engine's defaults against."""
    slo = load_slo(folder / "slo.yaml")
    requests = load_trace([str(folder / "trace.csv")], classes=slo.classes).requests
    gpu, engine = catalog.gpu("h100"), catalog.engine(slo.engine, slo.engine_version)
    made = deployment_of(catalog.model(slo.model), gpu, engine, {"gpu_memory_utilization": 0.92})
    case = case_of(made, slo, requests, profile_requests(requests))
    load = case.needs.fleet_factor / REPLICAS
    return trial_at(case, made, load)[0], load


def test_every_class_has_the_figures_of_the_plans_replay(folder):
    """The same requests through the same replicas: equal but for the rounding of the JSON."""
    result = simulated(folder, "--load", 1.0 + GROWTH)
    trial, load = planned(folder)
    assert trial.copying.widest_s == HOUR_S
    assert "displaced by up to ± 30 min" in result.stderr
    assert "as recommend does, their sessions with the lengths of others" in result.stderr
    data, replay = json.loads(result.stdout), trial.whole(load, REPLICAS)
    assert data["replay"]["requests"] == len(replay)
    assert data["replay"]["events"] == replay.totals.events
    for said, each in zip(data["classes"], replay.classes(), strict=True):
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            theirs = asdict(getattr(each, name))
            for key in ("mean", "p50", "p90", "p99"):
                assert said[name][key] == pytest.approx(theirs[key], rel=1e-6), (each.name, name)
    for told, target in zip(data["targets"], replay.targets, strict=True):
        assert told["whole_s"] == pytest.approx(target.whole_s, rel=1e-6)
        mine = max(window["value_s"] for window in told["windows"])
        assert mine == pytest.approx(max(w.value_s for w in target.windows), rel=1e-6)


def test_the_burstier_reading_is_the_plans_doubt(folder):
    result = simulated(folder, "--load", 1.0 + GROWTH, "--burstier")
    assert "± 5 min" in result.stderr
    assert "burstier than recommend, which displaces them by up to ± 30 min" in result.stderr
    trial, load = planned(folder)
    doubt = trial.burstier
    assert doubt.copying.widest_s == INDEPENDENT_S
    assert (
        json.loads(result.stdout)["replay"]["events"] == doubt.whole(load, REPLICAS).totals.events
    )


def test_a_whole_log_is_replayed_as_it_is(folder):
    text = (folder / "slo.yaml").read_text().replace(f"sample_rate: {SAMPLE}", "sample_rate: 1.0")
    (folder / "slo.yaml").write_text(text, encoding="utf-8")
    result = simulated(folder)
    assert "scaling" not in result.stderr
    assert json.loads(result.stdout)["replay"]["requests"] == 2900


def test_coarse_timestamps_are_spread_as_a_plan_spreads_them(folder):
    table = pl.read_csv(folder / "trace.csv")
    table.with_columns(pl.col("timestamp") // 30 * 30).write_csv(folder / "trace.csv")
    result = simulated(folder, "--load", 1.0 + GROWTH)
    assert "spreading requests that share a coarse timestamp" in result.stderr
    trial, load = planned(folder)
    theirs = trial.whole(load, REPLICAS).classes()[0].ttft_s.p99
    found = json.loads(result.stdout)["classes"][0]["ttft_s"]["p99"]
    assert found == pytest.approx(theirs, rel=1e-6)
