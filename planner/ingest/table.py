"""All files of a trace as one table of judged rows, still in file order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.format import Format
from planner.ingest.judge import Judgement
from planner.ingest.quotes import Unreadable
from planner.ingest.read import Arrays, FileRows
from planner.ingest.sniff import Source

Rows = NDArray[np.int64]  # positions in file order, over all files
DEFAULTS: Mapping[str, tuple[type[np.generic], float]] = {
    "cached_tokens": (np.int64, 0),
    "ttft_s": (np.float64, np.nan),
    "e2e_s": (np.float64, np.nan),
    "class_id": (np.int64, 0),
    "session_id": (np.uint64, 0),
    "request_id": (np.uint64, 0),
    "chat_id": (np.uint64, 0),
    "parent_chat_id": (np.uint64, 0),
    "n_blocks": (np.int64, 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All files' judged rows, one after the other, and how they were read."""

    fmt: Format
    sources: tuple[Source, ...]
    formats: tuple[Format, ...]
    types: tuple[Mapping[str, str], ...]
    judgement: Judgement
    class_names: tuple[str, ...]
    arrays: Arrays
    file_start: Rows  # first row of each file, then the number of rows
    block_keys: NDArray[np.uint64]
    unreadable: tuple[tuple[int, Unreadable], ...]  # (file, line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something noticed about rows that are kept."""

    name: str
    effect: str
    rows: Rows


def join(
    *,
    fmt: Format,
    sources: tuple[Source, ...],
    formats: tuple[Format, ...],
    types: tuple[Mapping[str, str], ...],
    files: Sequence[FileRows],
    judgement: Judgement,
    class_names: tuple[str, ...],
) -> Table:
    """Put the files' rows one after the other; columns that only some files have get defaults."""
    names = dict.fromkeys(name for file in files for name in file.arrays)
    arrays = {name: _concatenated(name, files) for name in names}
    sizes = [len(file) for file in files]
    return Table(
        fmt=fmt,
        sources=sources,
        formats=formats,
        types=types,
        judgement=judgement,
        class_names=class_names,
        arrays=arrays,
        file_start=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        block_keys=(
            files[0].block_keys
            if len(files) == 1
            else np.concatenate([file.block_keys for file in files])
        ),
        unreadable=tuple(
            (index, line) for index, file in enumerate(files) for line in file.unreadable
        ),
    )


def _concatenated(name: str, files: Sequence[FileRows]) -> NDArray[Any]:
    if len(files) == 1:
        return files[0].arrays[name]
    dtype, value = DEFAULTS.get(name, (np.float64, np.nan))
    return np.concatenate(
        [
            file.arrays[name] if name in file.arrays else np.full(len(file), value, dtype)
            for file in files
        ]
    )
