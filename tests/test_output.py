"""Result files: whole or not at all, and never instead of something else."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
from click.testing import CliRunner

from planner.cli.main import cli
from planner.errors import InputError, Problem
from planner.output import check_file, write_whole
from planner.pipeline import check_writable

TRACE = "timestamp,input_tokens,output_tokens\n1746446400,5,5\n1746446460,6,5\n"


def hello(stream: BinaryIO) -> None:
    stream.write(b"hello")


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def broken(stream: BinaryIO) -> None:
    stream.write(b"half of it")
    raise OSError(28, "No space left on device")


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    write_whole(target, hello)
    assert target.read_text() == "hello"
    assert names(tmp_path) == ["out.json"]


def test_a_failure_keeps_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    with pytest.raises(InputError, match="No space left"):
        write_whole(target, broken)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out.json"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", hello)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "hello"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, hello)
    reader.join(timeout=10)
    assert got == [b"hello"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["", ".", "missing/out.json", "file/out.json", "loop", "x" * 300])
def test_places_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot be written"):
        write_whole(Path(name), hello)
    assert names(tmp_path) == ["file", "loop"]


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    trace = tmp_path / "week.csv"
    trace.write_text(TRACE)
    (tmp_path / "again.csv").symlink_to(trace)
    for target in ("week.csv", "again.csv"):
        done = CliRunner().invoke(cli, ["profile", str(trace), "-o", str(tmp_path / target)])
        assert isinstance(done.exception, InputError)
        assert "would be overwritten" in str(done.exception)
    assert trace.read_text() == TRACE


def test_a_problem_is_one_printable_line() -> None:
    problem = Problem(message="no\nsuch \x1b[31mname", file="n\udcff.csv", hint="rename\u202e it")
    assert str(problem) == r"n\udcff.csv: no\nsuch \x1b[31mname (rename\u202e it)"


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("x")
    for place, said in (
        ("afile/x", "a file is in the way"),
        ("none/x", "create the folder first"),
        ("L" * 300, "name too long"),
        (".", "is a directory"),
    ):
        with pytest.raises(InputError, match=said):
            check_file(tmp_path / place)
    with pytest.raises(InputError, match="is an input"):
        check_file(tmp_path / "afile", inputs=[tmp_path / "afile"])
    check_file(tmp_path / "afile")
    check_file(tmp_path / "fresh")
    assert names(tmp_path) == ["afile"]
    assert (tmp_path / "afile").read_text() == "x"


def test_a_report_has_a_place_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "afile").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "deep")
    for place, said in (
        ("dangling", "dangling is a link to a folder that does not exist"),
        ("dangling/sub", "dangling is a link to a folder that does not exist"),
        ("afile/x", "afile is not a directory"),
        ("L" * 300, "name too long"),
    ):
        with pytest.raises(InputError, match=said):
            check_writable(tmp_path / place)
    check_writable(tmp_path / "new" / "report")
    assert names(tmp_path) == ["afile", "dangling"]


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_options_take_finite_numbers(tmp_path: Path, number: str) -> None:
    argv = ["simulate", "--trace", "t.csv", "--gpu", "h100", "--slo", "s.yaml", "--load", number]
    done = CliRunner().invoke(cli, argv)
    assert done.exit_code == 2
    assert f"'{number}' is not a finite number" in done.output


def test_an_empty_place_is_no_place() -> None:
    argv = ["recommend", "--trace", "t.csv", "--gpu", "h100", "--slo", "s.yaml", "-o", ""]
    done = CliRunner().invoke(cli, argv)
    assert done.exit_code == 2
    assert "the path is empty" in done.output
