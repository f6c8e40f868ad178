"""From what the user typed (files, folders, globs) to an ordered list of readable files."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.errors import InputError, Problem
from planner.spec.nearby import nearest_path
from planner.text import counted

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".log")
REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The files to read, as typed, and what was passed over."""

    files: tuple[str, ...]
    notes: tuple[str, ...]


def expand(paths: Sequence[str]) -> Expansion:
    """Resolve files, folders (searched in depth) and globs, in a fixed order, each file once.

    Raises
    ------
    InputError
        Naming every path that is missing, empty, unreadable or without a trace in it.
    """
    if not paths:
        raise InputError(Problem(message="no trace given", hint="name a file, a folder or a glob"))
    found: list[str] = []
    notes: list[str] = []
    problems: list[Problem] = []
    for text in paths:
        try:
            found.extend(_expand_one(text, notes))
        except InputError as error:
            problems.extend(error.problems)
    unique = _once(found, notes)
    problems.extend(problem for problem in map(_unreadable, unique) if problem)
    if problems:
        raise InputError(problems)
    return Expansion(files=tuple(unique), notes=tuple(notes))


def _expand_one(text: str, notes: list[str]) -> list[str]:
    if not text:
        raise InputError(Problem(message="a trace without a name", hint="name a file or folder"))
    if REMOTE.match(text):
        raise InputError(
            Problem(message="not a local file", file=text, hint="download it, then name the copy")
        )
    path = Path(text)
    try:
        if path.is_dir():
            return _in_folder(path, notes)
        if path.exists():
            return [text.rstrip("/")]
        if path.is_symlink():
            message = f"a link to {path.readlink()}, where there is no file"
            raise InputError(Problem(message=message, file=text, hint="restore it or remove it"))
    except OSError as error:
        raise InputError(_os_problem(text, error)) from None
    if GLOB_CHARACTERS & set(text):
        found = glob.glob(text, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        matched = sorted(name for name in found if Path(name).is_file())
        if not matched:
            raise InputError(
                Problem(message="no file matches this pattern", file=text, hint="check the folder")
            )
        return matched
    raise InputError(Problem(message="no such file", file=text, hint=nearest_path(path)))


def _in_folder(folder: Path, notes: list[str]) -> list[str]:
    try:
        inside = sorted(
            (
                item
                for item in folder.rglob("*")
                if item.is_file() and not item.name.startswith(".")
            ),
            key=str,
        )
        next(folder.iterdir(), None)  # rglob keeps silent about a folder it may not list
    except OSError as error:
        raise InputError(_os_problem(str(folder), error)) from None
    traces = [str(item) for item in inside if _has_trace_suffix(item)]
    if not traces:
        others = ", ".join(item.name for item in inside[:5]) or "nothing"
        raise InputError(
            Problem(
                message=f"no trace in this folder (found {others})",
                file=str(folder),
                hint=f"traces end in {', '.join(SUFFIXES)} or these with .gz; name others directly",
            )
        )
    if ignored := len(inside) - len(traces):
        notes.append(f"{folder}: {counted(ignored, 'file')} passed over: not named like a trace")
    return traces


def _has_trace_suffix(path: Path) -> bool:
    name = path.name.casefold().removesuffix(".gz")
    return name.endswith(SUFFIXES)


def _once(files: Iterable[str], notes: list[str]) -> list[str]:
    seen: dict[Path, str] = {}
    for name in files:
        path = Path(name).resolve()
        if path in seen:
            notes.append(f"{name}: named more than once, read once")
        seen.setdefault(path, name)
    return list(seen.values())


def _unreadable(name: str) -> Problem | None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return Problem(message="the file's name is not UTF-8", file=name, hint="rename it")
    try:
        if not Path(name).is_file():
            return Problem(
                message="a pipe or device: a trace is read more than once",
                file=name,
                hint="write it to a file first",
            )
        with Path(name).open("rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        return _os_problem(name, error)
    if empty:
        return Problem(message="the file is empty", file=name, hint="export the trace again")
    return None


def _os_problem(name: str, error: OSError) -> Problem:
    if isinstance(error, PermissionError):
        return Problem(
            message="no permission to read this", file=name, hint="chmod +r, or run as its owner"
        )
    return Problem(message=f"cannot be read: {error.strerror or error}", file=name)
