"""What a missing path may have meant."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.spec.load import read_document
from planner.spec.nearby import nearest_path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "week42.parquet").touch()
    (tmp_path / "slo.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("traces/week24.parquet", "did you mean traces/week42.parquet?"),
        ("trace/week42.parquet", "did you mean traces/week42.parquet?"),
        ("slo.yml", "did you mean slo.yaml?"),
        ("conf/slo.yaml", "did you mean slo.yaml?"),
        ("a/b/slo.yaml", "did you mean slo.yaml?"),
        ("quite/else.csv", "there is no folder quite"),
        ("traces/nothing-like-it.csv", "check the path"),
    ],
)
def test_the_nearest_existing_path_is_named(folder, typed, hint):
    assert nearest_path(folder.__class__(typed)) == hint


def test_a_missing_declaration_names_the_nearest(folder):
    with pytest.raises(InputError) as caught:
        read_document(folder / "slo.yml")
    (problem,) = caught.value.problems
    assert problem.message == "no such file"
    assert problem.hint == f"did you mean {folder / 'slo.yaml'}?"
