"""Write a synthetic log so that the same recipe and library versions give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

from planner.errors import InputError, Problem
from planner.output import write_whole
from planner.synth.generate import synthesize
from planner.synth.recipe import Recipe

if TYPE_CHECKING:
    import polars as pl


class Written(TypedDict):
    """What `synth` wrote."""

    rows: int
    rows_by_class: dict[str, int]
    sessions: int
    bytes: int


def synth(
    recipe: Recipe, path: Path, *, seed: int | None = None, inputs: Iterable[str | Path] = ()
) -> Written:
    """Play the recipe (with `seed` instead of its own, if given), write it, say what was written.

    `inputs` are files that must not be overwritten.

    Raises
    ------
    InputError
        The recipe makes no request, or the file cannot be written.
    """
    frame = synthesize(recipe if seed is None else replace(recipe, seed=seed))
    if frame.is_empty():
        message = "no request falls into the log"
        raise InputError(Problem(message=message, hint="raise requests_per_s or sample_rate"))
    write_whole(path, partial(write_parquet, frame), inputs=inputs)
    by_class = frame.group_by("class", maintain_order=True).len()
    counts = {str(name): int(rows) for name, rows in by_class.iter_rows()}
    return {
        "rows": frame.height,
        "rows_by_class": {c.name: counts.get(c.name, 0) for c in recipe.classes},
        "sessions": frame["session_id"].drop_nulls().n_unique(),
        "bytes": path.stat().st_size,
    }


def write_parquet(frame: pl.DataFrame, file: BinaryIO) -> None:
    """Write `frame` with every setting that the bytes depend on: codec, level, row groups."""
    frame.rechunk().write_parquet(
        file,
        compression="zstd",
        compression_level=19,
        statistics=True,
        row_group_size=1 << 20,
        data_page_size=1 << 20,
    )
