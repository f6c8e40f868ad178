"""All of the report or none of it."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.report import render
from planner.report.render import write_report


def contents(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir()) if p.is_file()}


def leftovers(directory: Path) -> list[str]:
    return [p.name for p in directory.iterdir() if p.name.endswith(".partial")]


def fail_on(monkeypatch, method: str, name: str, error: OSError, *, source: bool = False) -> None:
    """Let one Path method fail for one file name."""
    original = getattr(Path, method)

    def failing(self, *args, **kwargs):
        if self.name == name and (not source or self.parent.name.endswith(".partial")):
            raise error
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, method, failing)


def test_a_new_directory_holds_exactly_the_report(example, tmp_path):
    directory = tmp_path / "reports" / "week42-h100"
    paths = write_report(example(), directory)
    assert sorted(path.name for path in paths) == sorted(contents(directory))
    assert {"report.md", "plan.json", "launch.sh", "step_time.svg"} <= set(contents(directory))
    assert leftovers(directory.parent) == []


def test_the_launch_script_runs_and_the_rest_does_not(example, tmp_path):
    for path in write_report(example(), tmp_path / "r"):
        executable = bool(path.stat().st_mode & stat.S_IXUSR)
        assert executable == (path.name == "launch.sh")
    text = (tmp_path / "r" / "launch.sh").read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert (
        "exec vllm serve meta-llama/Llama-3.1-8B-Instruct \\" in text or "exec vllm serve" in text
    )


def test_same_plan_same_bytes_over_an_old_report(example, tmp_path):
    write_report(example(), tmp_path / "one")
    write_report(example(verified="replay"), tmp_path / "two")
    write_report(example(), tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_unrelated_files_stay_and_stale_figures_go(example, edge, tmp_path):
    write_report(example(), tmp_path)
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "mine.svg").write_text("mine", encoding="utf-8")
    assert (tmp_path / "demand.svg").exists()
    write_report(edge("one_gpu_without_dates"), tmp_path)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "mine.svg").exists()
    assert not (tmp_path / "demand.svg").exists()
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("name", ["plan.json", "report.md", "latency.svg"])
def test_a_full_disk_leaves_nothing_of_a_new_report(example, tmp_path, monkeypatch, name):
    fail_on(monkeypatch, "write_text", name, OSError(28, "No space left on device"))
    with pytest.raises(InputError, match="No space left on device"):
        write_report(example(), tmp_path / "a" / "b" / "c")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plan.json", "report.md", "latency.svg"])
def test_a_failure_leaves_the_old_report_as_it_was(example, tmp_path, monkeypatch, name):
    write_report(example(), tmp_path)
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    before = contents(tmp_path)
    fail_on(monkeypatch, "replace", name, OSError(5, "Input/output error"), source=True)
    with pytest.raises(InputError, match="Input/output error"):
        write_report(example(verified="replay"), tmp_path)
    monkeypatch.undo()
    assert contents(tmp_path) == before
    assert leftovers(tmp_path) == []


def test_an_interruption_leaves_the_old_report_as_it_was(example, tmp_path, monkeypatch):
    write_report(example(), tmp_path)
    before = contents(tmp_path)
    original = Path.replace

    def interrupted(self, target):
        if self.name == "launch.sh" and self.parent.name.endswith(".partial"):
            raise KeyboardInterrupt
        return original(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(example(verified="replay"), tmp_path)
    monkeypatch.undo()
    assert contents(tmp_path) == before
    assert leftovers(tmp_path) == []


def test_a_place_below_a_file_is_one_input_error(example, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        write_report(example(), tmp_path / "file" / "report")
    (problem,) = caught.value.problems
    assert problem.file == str(tmp_path / "file" / "report")
    assert "--output" in problem.hint
    with pytest.raises(InputError):
        write_report(example(), tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_one_input_error(example, tmp_path):
    directory = tmp_path / "closed"
    directory.mkdir(mode=0o500)
    with pytest.raises(InputError, match="Permission denied"):
        write_report(example(), directory)
    with pytest.raises(InputError, match="Permission denied"):
        write_report(example(), directory / "report")


def test_permission_denied_is_one_input_error_for_root_as_well(example, tmp_path, monkeypatch):
    def denied(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(InputError, match="Permission denied"):
        write_report(example(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_named_like_a_report_file_is_not_touched(example, tmp_path):
    (tmp_path / "report.md").mkdir()
    (tmp_path / "report.md" / "keep").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"report\.md is a directory"):
        write_report(example(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]
    assert (tmp_path / "report.md" / "keep").exists()


def test_nothing_is_written_when_rendering_fails(example, tmp_path):
    with pytest.raises(ValueError, match="verified"):
        write_report(replace(example(), verified="guess"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_every_file_a_report_can_have_is_known(plan):
    assert set(render.render(plan)) <= set(render.OWN_FILES)
