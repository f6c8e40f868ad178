"""Write a synthetic log so that the same recipe and library versions give the same bytes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from planner.errors import InputError, Problem
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


def synth(recipe: Recipe, path: Path, *, seed: int | None = None) -> Written:
    """Play the recipe (with `seed` instead of its own, if given), write it, say what was written.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    frame = synthesize(recipe if seed is None else replace(recipe, seed=seed))
    try:
        write_trace(frame, path)
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise InputError(Problem(message=message, file=str(path))) from error
    by_class = frame.group_by("class", maintain_order=True).len()
    counts = {str(name): int(rows) for name, rows in by_class.iter_rows()}
    return {
        "rows": frame.height,
        "rows_by_class": {c.name: counts.get(c.name, 0) for c in recipe.classes},
        "sessions": frame["session_id"].drop_nulls().n_unique(),
        "bytes": path.stat().st_size,
    }


def write_trace(frame: pl.DataFrame, path: Path) -> None:
    """Write `frame` as Parquet beside its final place, then move it there in one step.

    Every setting that the bytes depend on is fixed here: codec, level, statistics, row groups.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:  # opened here: polars would word the system's error anew
            frame.rechunk().write_parquet(
                file,
                compression="zstd",
                compression_level=19,
                statistics=True,
                row_group_size=1 << 20,
                data_page_size=1 << 20,
            )
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
