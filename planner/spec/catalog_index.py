"""Find a catalogue file by any of its names, without parsing YAML.

Ids and aliases stand on the first lines of every file, each on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from planner.resources import data_dir

_HEAD = re.compile(r"^(id|aliases|same_architecture): (.+)$", re.MULTILINE)


@cache
def catalogue_files(kind: str) -> tuple[Path, ...]:
    """Return the files of a catalogue ("gpus", "models", "engines") by name."""
    return tuple(sorted(data_dir(kind).glob("*.yaml")))


@cache
def head(path: Path) -> dict[str, tuple[str, ...]]:
    """Return a file's id, aliases and sister repositories."""
    text = path.read_text(encoding="utf-8")
    return {
        key: tuple(item.strip(" \"'") for item in value.strip("[]").split(","))
        for key, value in _HEAD.findall(text)
    }


@cache
def index(kind: str) -> dict[str, Path]:
    """Map every name of every file, in canonical form, to the file."""
    return {canonical(name): path for path in catalogue_files(kind) for name in names(path)}


def names(path: Path) -> Iterator[str]:
    """Yield a file's id, aliases, sister repositories, and the short names of repositories."""
    known = head(path)
    for name in (*known["id"], *known.get("aliases", ()), *known.get("same_architecture", ())):
        yield name
        if "/" in name:
            yield name.split("/", 1)[1]


def own_id(path: Path, name: str) -> str:
    """Return the repository that `name` means: the sister it names, or the file's own."""
    known = head(path)
    wanted = canonical(name)
    for repository in known.get("same_architecture", ()):
        if wanted in (canonical(repository), canonical(repository.split("/", 1)[1])):
            return repository
    return known["id"][0]


def canonical(name: str) -> str:
    """Return a name without case; blanks and underscores become hyphens.

    >>> canonical(" H100_80GB SXM ")
    'h100-80gb-sxm'
    """
    return re.sub(r"[\s_]+", "-", name.strip().lower())
