"""From a recipe to the rows of a log: one independent random stream per class and purpose."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.synth.arrivals import expected_starts, seconds_into_week, session_starts
from planner.synth.recipe import Arrivals, ClassRecipe, Faults, Incident, Recipe
from planner.synth.sessions import Turns, mean_turns, play
from planner.units import HOUR_S

if TYPE_CHECKING:
    import polars as pl

MAX_SESSIONS = 50e6  # session starts drawn before thinning: about 2 GB while they are drawn
MAX_ROWS = 20e6  # rows kept: about 4 GB while they are played and sorted
LEAD_IN_S = 2.0 * HOUR_S  # sessions already under way when the log begins
OK_STATUS, CANCELLED_STATUS, FAILED_STATUS = 200, 499, 503


def stream(seed: int, *names: str) -> np.random.Generator:
    """Return the generator that belongs to `names`; adding a class never moves another's draws.

    Examples
    --------
    >>> bool(stream(1, "chat").random() == stream(1, "chat").random())
    True
    """
    words = [seed, *(zlib.crc32(name.encode()) for name in names)]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


def expected_size(recipe: Recipe) -> tuple[float, float]:
    """Return the expected sessions to draw and rows to keep, all classes together."""
    sessions = rows = 0.0
    for item in recipe.classes:
        starts = expected_starts(*_law(recipe, item))
        sessions += starts
        rows += starts * recipe.sample_rate * mean_turns(item.sessions)
    return sessions, rows


def _law(
    recipe: Recipe, item: ClassRecipe
) -> tuple[Arrivals, float, list[Incident], float, tuple[float, float]]:
    """Return what `session_starts` takes for one class."""
    begin = recipe.start
    return (
        item.arrivals,
        item.arrivals.requests_per_s / mean_turns(item.sessions),
        [i for i in recipe.incidents if not i.classes or item.name in i.classes],
        seconds_into_week(begin.weekday(), begin.hour, begin.minute, begin.second),
        (-LEAD_IN_S, recipe.duration_s),
    )


def class_turns(recipe: Recipe, item: ClassRecipe) -> Turns:
    """Return the requests of one class that fall into the log, thinned by whole sessions."""
    starts = session_starts(*_law(recipe, item), stream(recipe.seed, item.name, "arrivals"))
    kept = stream(recipe.seed, item.name, "sample").random(len(starts)) < recipe.sample_rate
    turns = play(item, recipe.service, starts[kept], stream(recipe.seed, item.name, "sessions"))
    logged = (turns.arrival_s >= 0.0) & (turns.arrival_s < recipe.duration_s)
    return Turns(
        arrival_s=turns.arrival_s[logged],
        session=turns.session[logged],
        input_tokens=turns.input_tokens[logged],
        output_tokens=turns.output_tokens[logged],
    )


def synthesize(recipe: Recipe) -> pl.DataFrame:
    """Play the recipe and return the log, sorted by time.

    Columns: `timestamp` (UTC, milliseconds), `class`, `session_id` (null where the class does not
    log it), `input_tokens`, `output_tokens` (null for failed rows), `status` (HTTP code).
    """
    import polars as pl

    played = [class_turns(recipe, item) for item in recipe.classes]
    names = [item.name for item in recipe.classes]
    frame = pl.concat(
        [_frame(item, turns) for item, turns in zip(recipe.classes, played, strict=True)]
    )
    # Stable order: time, then class as declared, then session, so that ties have one order too.
    frame = frame.with_columns(pl.col("class").cast(pl.Enum(names))).sort(
        "ms", "class", "session", maintain_order=True
    )
    frame = _number_sessions(frame)
    frame = _with_faults(frame, recipe.faults, stream(recipe.seed, "", "faults"))
    epoch_ms = round(recipe.start.timestamp() * 1000.0)
    return frame.select(
        timestamp=(pl.col("ms") + epoch_ms).cast(pl.Datetime("ms", "UTC")),
        **{"class": pl.col("class").cast(pl.String)},
        session_id=pl.col("session").cast(pl.Int32),
        input_tokens=pl.col("input_tokens").cast(pl.Int32),
        output_tokens=pl.col("output_tokens").cast(pl.Int32),
        status=pl.col("status").cast(pl.Int16),
    )


def _frame(item: ClassRecipe, turns: Turns) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        {
            "ms": np.floor(turns.arrival_s * 1000.0).astype(np.int64),
            "class": [item.name] * len(turns.arrival_s),
            "session": turns.session,
            "logged": np.full(len(turns.arrival_s), item.sessions.logged),
            "input_tokens": turns.input_tokens,
            "output_tokens": turns.output_tokens,
        }
    )


def _number_sessions(frame: pl.DataFrame) -> pl.DataFrame:
    """Give sessions one running number over all classes, in order of their first logged row."""
    import polars as pl

    keys = (
        frame.filter(pl.col("logged"))
        .select("class", "session")
        .unique(maintain_order=True)
        .with_row_index("number", offset=1)
    )
    return (
        frame.join(keys, on=["class", "session"], how="left", maintain_order="left")
        .drop("session")
        .rename({"number": "session"})
    )


def _with_faults(frame: pl.DataFrame, faults: Faults, rng: np.random.Generator) -> pl.DataFrame:
    """Spoil the declared shares of rows; a duplicate directly follows its original."""
    import polars as pl

    n = frame.height
    failed, cancelled, unknown, twice = (
        _chosen(share, n, rng)
        for share in (
            faults.failed_share,
            faults.cancelled_share,
            faults.unknown_input_share,
            faults.duplicate_share,
        )
    )
    frame = frame.with_columns(
        pl.when(pl.Series(unknown)).then(0).otherwise(pl.col("input_tokens")).alias("input_tokens"),
        pl.when(pl.Series(failed))
        .then(None)
        .when(pl.Series(cancelled))
        .then(0)
        .otherwise(pl.col("output_tokens"))
        .alias("output_tokens"),
        pl.when(pl.Series(failed))
        .then(FAILED_STATUS)
        .when(pl.Series(cancelled))
        .then(CANCELLED_STATUS)
        .otherwise(OK_STATUS)
        .alias("status"),
    )
    return frame[np.repeat(np.arange(n), np.where(twice, 2, 1))]


def _chosen(share: float, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    return rng.random(n) < share
