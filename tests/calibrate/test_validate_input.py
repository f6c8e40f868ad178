"""What `planner validate` refuses: no columns, unknown columns, a file it cannot write."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from planner.cli.main import cli
from planner.errors import InputError

POINT = "point_id,model,gpu,engine\nx,llama-3.1-8b,h100,vllm\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "points.csv").write_text(POINT, encoding="utf-8")

    def run(*words, points="points.csv"):
        return CliRunner().invoke(cli, ["validate", "--points", str(tmp_path / points), *words])

    return run


def test_an_empty_file_is_said_to_be_empty(run, tmp_path):
    (tmp_path / "empty.csv").write_bytes(b"")
    error = run(points="empty.csv").exception
    assert isinstance(error, InputError)
    assert "the file is empty" in str(error)


def test_an_unknown_column_to_group_by_lists_the_known_ones(run):
    done = run("--by", "gpu,nothere")
    assert done.exit_code == 2
    assert "no column nothere; there are engine, family, gpu, model, point_id" in done.output


def test_predictions_are_written_whole_or_refused(run, tmp_path):
    assert isinstance(run("--out", str(tmp_path / "points.csv" / "x")).exception, InputError)
    assert isinstance(run("--out", str(tmp_path / "points.csv")).exception, InputError)
    assert (tmp_path / "points.csv").read_text(encoding="utf-8") == POINT
    assert run("--out", str(tmp_path / "out.csv")).exit_code == 0
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("point_id,ttft_ms")
