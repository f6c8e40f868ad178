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
from planner.output import write_whole

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
