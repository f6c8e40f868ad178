"""Write one result file: all of it or nothing, and never over what it was made from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from planner.errors import InputError, Problem

Fill = Callable[[BinaryIO], object]


def write_whole(path: Path, fill: Fill, *, inputs: Iterable[str | Path] = ()) -> None:
    """Let `fill` write the content, beside its place first, and move it there in one step.

    A link is followed, so that its target is replaced and not the link. What is no regular file
    (a pipe, /dev/stdout) is written to directly: moving a file there would destroy it.

    Raises
    ------
    InputError
        The file cannot be written, or it is one of `inputs`.
    """
    _keep(inputs, path)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as stream:
                fill(stream)
        else:
            _replace(path.resolve(), fill)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        raise _unwritable(path, error) from error


def check_file(path: Path, *, inputs: Iterable[str | Path] = ()) -> None:
    """Find out before the work whether `write_whole` will be able to write a file.

    A file is made beside its place and removed; what is there stays.

    Raises
    ------
    InputError
        The file cannot be written, or it is one of `inputs`.
    """
    _keep(inputs, path)
    try:
        with suppress(FileNotFoundError):  # so that a name too long is refused here
            path.stat()
        if path.exists() and not path.is_file() and not path.is_dir():
            return
        place = path.resolve()
        if place.is_dir():
            raise IsADirectoryError(0, "is a directory, name a file")
        probe = place.parent / f".{os.getpid()}.probe"
        probe.touch(exist_ok=False)
        probe.unlink()
    except (OSError, RuntimeError) as error:
        raise _unwritable(path, error) from error


def _keep(inputs: Iterable[str | Path], path: Path) -> None:
    if any(_same(path, Path(item)) for item in inputs):
        raise _refused(path, "is an input and would be overwritten", "choose another file")


def _unwritable(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or error
    hint = "create the folder first" if isinstance(error, FileNotFoundError) else ""
    if isinstance(error, NotADirectoryError):
        hint = "a file is in the way of the folder: choose another place"
    return _refused(path, f"cannot be written: {reason}", hint)


def _replace(path: Path, fill: Fill) -> None:
    if path.is_dir():
        raise IsADirectoryError(0, "is a directory, name a file")
    partial = path.parent / f".{os.getpid()}.partial"
    try:
        with partial.open("wb") as stream:
            fill(stream)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def _refused(path: Path, message: str, hint: str) -> InputError:
    return InputError(Problem(message=message, file=str(path), hint=hint))
