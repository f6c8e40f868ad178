"""`planner validate`: definitions, files and tables against the reference script and by hand."""

import csv
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from planner.calibrate import scoring
from planner.calibrate.lengths import relative_lengths
from planner.calibrate.measured import dataset, figures
from planner.calibrate.names import architecture_name, family, gpu_of, model_of
from planner.calibrate.points import read_points
from planner.calibrate.runs import predict_row
from planner.cli.main import cli
from planner.perf.finite_run import finite_run

ROW = {
    "point_id": "T1",
    "engine": "vllm",
    "engine_version": "0.18.0",
    "gpu": "H100-SXM-80GB",
    "tp": "1",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "weight_dtype": "bf16",
    "input_tokens": "1000",
    "output_tokens": "200",
    "concurrency": "16",
    "load_type": "closed-loop max_concurrency",
    "tpot_mean_ms": "10",
    "ttft_mean_ms": "100",
}


@pytest.fixture(scope="module")
def reference(shared):
    spec = importlib.util.spec_from_file_location("score", shared / "groundtruth" / "score.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_every_metric_of_every_set_is_defined_as_in_the_script(shared, reference):
    for row in read_points(shared / "groundtruth" / "e2e_points.csv"):
        assert dataset(row) == reference.pset(row)
        ours = figures(row)
        for metric, (value, excluded) in reference.measured(row).items():
            assert bool(ours[metric].excluded) == bool(excluded), (row["point_id"], metric)
            if not excluded:
                assert ours[metric].value == pytest.approx(value), (row["point_id"], metric)


def test_the_script_prints_the_same_figures(shared, tmp_path):
    """A slice with both engines; the script reads our predictions file."""
    rows = read_points(shared / "groundtruth" / "e2e_points.csv")
    rows = [row for row in rows if dataset(row) == "main"][::12]
    points, out = write(tmp_path / "points.csv", rows), tmp_path / "predictions.csv"
    result = CliRunner().invoke(
        cli, ["validate", "--points", str(points), "--out", str(out), "--by", "engine"]
    )
    assert result.exit_code == 0, result.output
    script = shared / "groundtruth" / "score.py"
    theirs = subprocess.run(
        [sys.executable, str(script), str(out), str(points), "--by", "engine"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in theirs.splitlines()[1:]:
        assert line.split() in [ours.split() for ours in result.stdout.splitlines()]


def test_optional_columns_may_be_absent(tmp_path):
    few = {k: ROW[k] for k in ("point_id", "engine", "gpu", "model")}
    few |= {"input_tokens": "1000", "output_tokens": "200", "concurrency": "16"}
    points, out = write(tmp_path / "points.csv", [few]), tmp_path / "out.csv"
    result = CliRunner().invoke(cli, ["validate", "--points", str(points), "--out", str(out)])
    assert result.exit_code == 0, result.output
    row = next(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert list(row) == ["point_id", "ttft_ms", "tpot_ms", "out_tok_s", "status"]
    assert row["status"] == "ok"
    assert 5 < float(row["tpot_ms"]) < 30  # 16 GB of weights over 3.35 TB/s take 4.8 ms


def test_unsupported_rows_are_listed_with_the_reason(tmp_path):
    strange = {**ROW, "point_id": "T2", "model": "acme/Unknown-9B"}
    points, out = write(tmp_path / "points.csv", [ROW, strange]), tmp_path / "out.csv"
    result = CliRunner().invoke(cli, ["validate", "--points", str(points), "--out", str(out)])
    assert "main 1/2" in result.stdout
    assert "model acme/Unknown-9B is not in the catalogue" in result.stdout
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert rows[1]["tpot_ms"] == rows[1]["ttft_ms"] == rows[1]["out_tok_s"] == ""
    assert "not in the catalogue" in rows[1]["status"]


def test_a_missing_column_is_refused_by_name(tmp_path):
    points = write(tmp_path / "points.csv", [{"point_id": "T1", "model": "m"}])
    result = CliRunner().invoke(cli, ["validate", "--points", str(points)])
    assert result.exit_code != 0
    message = str(result.exception)
    assert "no column gpu" in message
    assert "no column engine" in message


@pytest.mark.parametrize(
    "arguments",
    [[], ["--out", "x.csv"], ["--open-loop", __file__]],
)
def test_options_that_make_no_sense_alone(arguments):
    assert CliRunner().invoke(cli, ["validate", *arguments]).exit_code == 2


def test_lines_by_hand():
    rows = [{**ROW, "point_id": str(i), "tpot_mean_ms": str(10 * (i + 1))} for i in range(3)]
    found = scoring.predict_rows(rows)
    predicted = 1e3 * found[0].predicted.tpot_s
    errors = np.array([predicted / (10 * (i + 1)) - 1 for i in range(3)]) * 100
    line = next(x for x in scoring.score(found) if x.metric == "TPOT")
    assert (line.scored, line.eligible) == (3, 3)
    assert line.median_ape_pct == pytest.approx(np.median(np.abs(errors)))
    assert line.mean_ape_pct == pytest.approx(np.mean(np.abs(errors)))
    assert line.bias_pct == pytest.approx(np.median(errors))


def test_json_has_coverage_errors_and_reasons(tmp_path):
    points = write(tmp_path / "points.csv", [ROW, {**ROW, "gpu": "abacus"}])
    result = CliRunner().invoke(cli, ["validate", "--points", str(points), "--json"])
    printed = json.loads(result.stdout)
    assert printed["coverage"] == {"main": {"predicted": 1, "rows": 2}}
    assert {entry["metric"] for entry in printed["errors"]} >= {"TPOT", "TTFT", "tok/s"}
    assert printed["unsupported"][0]["rows"] == 1


def test_every_set_has_a_prediction():
    static = predict_row({**ROW, "load_type": "static batch (all at t=0)"})
    closed = predict_row(ROW)
    assert static.status == closed.status == "ok"
    assert static.ttft_s > closed.ttft_s  # sixteen prompts before any token
    steady = predict_row({**ROW, "data_kind": "x steady-state", "avg_running_batch": "16"})
    assert steady.ttft_s is None
    assert steady.output_tokens_per_s == pytest.approx(16 / steady.tpot_s)
    burst = predict_row({**ROW, "load_type": "burst: rate=inf", "n_requests": "64"})
    assert burst.status == "ok"
    assert burst.output_tokens_per_s > closed.output_tokens_per_s  # 64 at a time instead of 16
    calm = {**ROW, "load_type": "poisson", "n_requests": "64", "req_rate": "0.2"}
    assert predict_row(calm).tpot_s < closed.tpot_s
    assert "not stated" in predict_row({**calm, "req_rate": ""}).status


def test_a_burst_of_sglang_drains_without_replay():
    burst = {**ROW, "engine": "sglang", "load_type": "burst", "n_requests": "64"}
    found = predict_row(burst)
    assert found.status == "ok"
    assert found.ttft_s is None
    assert found.output_tokens_per_s > 0


def test_a_tail_costs_throughput():
    """Four clients, eight requests, one ten times as long: it runs alone at the end."""
    equal = finite_run(np.full(8, 101.0), 4, 0.0, lambda d: 0.01, lambda d: 0.01)
    lengths = np.full(8, 101.0)
    lengths[-1] = 1001.0
    uneven = finite_run(lengths, 4, 0.0, lambda d: 0.01, lambda d: 0.01)
    assert equal.duration_s == pytest.approx(2.0)
    assert uneven.duration_s == pytest.approx(11.0)
    assert uneven.tpot_s == pytest.approx(0.01)


def test_fewer_running_requests_step_faster():
    run = finite_run(np.full(2, 101.0), 2, 0.0, lambda d: 0.01 * d, lambda d: 0.01 * d)
    assert run.duration_s == pytest.approx(2.0)
    alone = finite_run(np.array([101.0]), 1, 0.0, lambda d: 0.01 * d, lambda d: 0.01 * d)
    assert alone.duration_s == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "spread"),
    [
        ("fixed", 0.0),
        ("uniform[0.8,1.0]x nominal 1024/1024", 0.2 / np.sqrt(12) / 0.9),
        ("random (uniform up to nominal)", 1 / np.sqrt(3)),
        ("dataset/random (means)", 1.0),
    ],
)
def test_relative_lengths_have_mean_one_and_the_kind_s_spread(kind, spread):
    drawn = relative_lengths({"len_dist": kind}, 20_000)
    assert drawn.mean() == pytest.approx(1.0)
    assert drawn.std() == pytest.approx(spread, rel=0.05)  # sampling error of 20,000 draws


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B"),
        ("llama2-70b", "meta-llama/Llama-2-70b-hf"),
        ("amd/Llama-3.1-405B-Instruct-FP8-KV", "meta-llama/Llama-3.1-405B-Instruct"),
        ("bloom-176b", "bigscience/bloom"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "Qwen/Qwen2.5-14B-Instruct"),
    ],
)
def test_benchmarks_names_of_models(name, known):
    assert model_of(name).id == known


@pytest.mark.parametrize("name", ["GLM-5.3-Flash", "zai-org/GLM-4.5V", "acme/Unknown-9B"])
def test_other_models_are_not_taken_for_relatives(name):
    assert model_of(name) is None


def test_names_of_gpus_and_families():
    assert gpu_of("H100-SXM-80GB").id == "h100-sxm"
    assert gpu_of("abacus") is None
    assert architecture_name("x/Y-7B-AWQ") == "x/Y-7B"
    assert family("nvidia/DeepSeek-V3.1-NVFP4") == "DeepSeek-V3"


@pytest.mark.slow
def test_the_document_is_not_stale(shared, root):
    from planner.calibrate.document import document

    written = (root / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert written == document(shared / "groundtruth"), "run `make docs`"
