"""The public API and its command: exit codes, one message, nothing half-written."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

from planner.cli.main import main
from planner.errors import InputError
from planner.pipeline import check_writable, recommend

SLO = """\
model: meta-llama/Llama-3.1-8B-Instruct
slo:
  ttft_s: {p99: 2.0}
  tpot_s: {p99: 0.05}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    arrival = np.sort(draw.uniform(0, 900, 2500))
    lines = ["timestamp,input_tokens,output_tokens"]
    lines += [
        f"{t:.3f},{int(p)},{int(o)}"
        for t, p, o in zip(
            arrival, draw.integers(50, 3000, 2500), draw.integers(2, 500, 2500), strict=True
        )
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "slo.yaml").write_text(SLO, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["recommend", *arguments])
    output = capsys.readouterr()
    return stopped.value.code or 0, output.out, output.err


ARGUMENTS = ("--trace", "log.csv", "--gpu", "h100", "--slo", "slo.yaml")


def test_command_writes_the_report_where_asked(folder, capsys):
    code, out, err = run(capsys, *ARGUMENTS, "--output", "plan")
    assert code == 0, err
    assert "× H100" in out
    assert "reading the trace" in err
    plan = json.loads((folder / "plan" / "plan.json").read_text(encoding="utf-8"))
    assert plan["name"] == "log-h100"
    assert (
        "planner recommend --trace log.csv --gpu h100 --slo slo.yaml"
        in plan["provenance"]["command"]
    )
    assert set(plan["provenance"]["inputs_sha256"]) == {"log.csv", "slo.yaml"}
    assert str(folder) not in (folder / "plan" / "plan.json").read_text(encoding="utf-8")


def test_default_place_and_json(folder, capsys):
    code, out, _ = run(capsys, *ARGUMENTS, "--json")
    assert code == 0
    assert json.loads(out)["replicas"]["value"] >= 1
    assert (folder / "reports" / "log-h100" / "plan.json").is_file()
    assert json.loads(out) == json.loads(
        (folder / "reports" / "log-h100" / "plan.json").read_text(encoding="utf-8")
    )


def test_absolute_paths_stay_out_of_the_plan(folder):
    plan = recommend([str(folder / "log.csv")], ["h100"], folder / "slo.yaml")
    assert set(plan.provenance.inputs_sha256) == {"log.csv", "slo.yaml"}
    assert plan.ingest.files == ("log.csv",)
    assert str(folder) not in repr(plan)


def test_another_folder_gives_the_same_plan(folder, tmp_path_factory, monkeypatch):
    first = recommend(["log.csv"], ["h100"], folder / "slo.yaml")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("log.csv", "slo.yaml"):
        shutil.copy(folder / name, elsewhere / name)
    monkeypatch.chdir(elsewhere)
    assert repr(recommend(["log.csv"], ["h100"], elsewhere / "slo.yaml")) == repr(first)


def test_model_override(folder):
    plan = recommend(
        ["log.csv"], ["h100"], folder / "slo.yaml", model="meta-llama/Llama-3.1-70B-Instruct"
    )
    assert plan.model_name == "meta-llama/Llama-3.1-70B-Instruct"
    assert plan.deployment.tensor_parallel_size >= 2
    assert "--model" in plan.provenance.command


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (("--gpu", "h1000"), 2, "h1000"),
        (("--trace", "missing.csv"), 2, "missing.csv"),
        (("--slo", "missing.yaml"), 2, "missing.yaml"),
        (("--model", "meta-llama/Llama-9"), 2, "Llama-9"),
    ],
)
def test_bad_input_is_one_message_and_no_report(folder, capsys, change, code, says):
    arguments = list(ARGUMENTS)
    if change[0] in arguments:
        arguments[arguments.index(change[0]) + 1] = change[1]
    else:
        arguments += change
    found, out, err = run(capsys, *arguments, "--output", "plan")
    assert found == code
    assert out == ""
    errors = [line for line in err.splitlines() if not line.startswith("…")]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert says in errors[0]
    assert not (folder / "plan").exists()


def test_infeasible_targets_exit_3_without_a_report(folder, capsys):
    text = SLO.replace("p99: 2.0", "p99: 0.002")
    (folder / "slo.yaml").write_text(text, encoding="utf-8")
    code, out, err = run(capsys, *ARGUMENTS, "--output", "plan")
    assert code == 3
    assert out == ""
    assert "nearest feasible limit" in err
    assert not (folder / "plan").exists()


def test_gpu_that_slo_yaml_does_not_allow(folder, capsys):
    (folder / "slo.yaml").write_text(SLO + "gpus: [l40s]\n", encoding="utf-8")
    code, _, err = run(capsys, *ARGUMENTS)
    assert code == 2
    assert "h100-sxm" in err
    assert "l40s" in err


def test_unwritable_place_is_refused_before_any_work(folder, capsys):
    (folder / "file").write_text("", encoding="utf-8")
    code, _, err = run(capsys, *ARGUMENTS, "--output", "file/plan")
    assert code == 2
    assert "not a directory" in err
    assert "reading" not in err  # refused at once
    if os.geteuid() != 0:  # root may write anywhere
        (folder / "locked").mkdir(mode=0o500)
        with pytest.raises(InputError, match="permission"):
            check_writable(folder / "locked" / "plan")
