"""A published figure, how it is recomputed, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PASS, FAIL, NOT_REPRODUCIBLE = "pass", "fail", "not_reproducible"
# Columns of prompt and output tokens: Vidur's length files, Azure's traces.
COLUMNS = (("num_prefill_tokens", "num_decode_tokens"), ("ContextTokens", "GeneratedTokens"))


class MissingInput(Exception):  # noqa: N818 - it ends no command: the claim reports it
    """A file that a claim is computed from is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The folders in which published length files may lie."""

    lengths: tuple[Path, ...] = ()

    def pairs(self, name: str) -> NDArray[np.int64]:
        """Return (prompt, output) tokens of every row of a length file, [rows, 2].

        Raises
        ------
        MissingInput
            The file is in none of the folders.
        """
        for folder in self.lengths:
            if (folder / name).is_file():
                return _pairs(folder / name)
        raise MissingInput(f"needs {name} (prompt and output lengths): give its folder")


@lru_cache(maxsize=4)
def _pairs(path: Path) -> NDArray[np.int64]:
    import csv

    import numpy as np

    with path.open(encoding="utf-8", newline="") as stream:
        table = csv.DictReader(stream)
        names = next(pair for pair in COLUMNS if pair[0] in (table.fieldnames or ()))
        rows = [(int(row[names[0]]), int(row[names[1]])) for row in table]
    return np.array(rows, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """What still counts as the published result, and why so much.

    `low` and `high` are in the claim's unit; an open end is infinite.
    """

    low: float
    high: float
    why: str

    def holds(self, value: float) -> bool:
        """Return whether a value lies inside, ends included."""
        return self.low <= value <= self.high


def within(published: float, share: float, why: str) -> Band:
    """Return the band of `share` either way of the published value."""
    return Band(low=published * (1.0 - share), high=published * (1.0 + share), why=why)


def gain_within(published: float, share: float, why: str) -> Band:
    """Return the band of a speed-up whose gain, what exceeds 1, may be off by `share`.

    >>> band = gain_within(1.25, 0.4, "")
    >>> round(band.low, 6), round(band.high, 6)
    (1.15, 1.35)
    """
    gain = published - 1.0
    return Band(low=1.0 + gain * (1.0 - share), high=1.0 + gain * (1.0 + share), why=why)


# Why a published figure is missed.
KERNELS = "kernels of 2023"
HOST = "host time of engines of 2023"
FIT = "coefficients that depend on the points they are fitted to"
POINTS = "published points that contradict each other"
UNPUBLISHED = "settings, profiles or requests that are not published"
MODEL = "advice that hangs on the model"
CAUSES = (KERNELS, HOST, FIT, POINTS, UNPUBLISHED, MODEL)

DIRECTION = Band(low=1.0, high=math.inf, why="direction alone: the size depends on the engines")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A claim under another setting than the one it is judged by.

    It is shown with the verdict that it would have, and counted nowhere: it says what decides a
    verdict, and how much.
    """

    setting: str
    ours: Callable[[Inputs], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published figure.

    `ours` computes the same figure; None where it cannot be, which `reason` then explains. A claim
    whose input is its output (a fitted point, a setting) is not `counted`, and `reason` says why.
    `after_fit` marks what rests on a cost fitted to points of the same paper. `note` is what a
    reader should know about a miss or about the setting, `cause` (one of CAUSES) the group that a
    miss belongs to, `variants` what other settings give. `replays` marks what takes seconds.
    """

    id: str
    claim: str
    setting: str
    source: str
    published: float
    unit: str
    band: Band | None = None
    ours: Callable[[Inputs], float] | None = None
    after_fit: bool = False
    counted: bool = True
    replays: bool = False
    reason: str = ""
    note: str = ""
    cause: str = ""
    variants: tuple[Variant, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a claim that could not be judged."""
        if self.ours is None and not self.reason:
            raise ValueError(f"{self.id} is neither computed nor excused")
        if self.ours is not None and self.counted and self.band is None:
            raise ValueError(f"{self.id} has no band")
        if self.cause and self.cause not in CAUSES:
            raise ValueError(f"{self.id}: {self.cause!r} is no cause")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """What one of a claim's variants gives, and the verdict it would have."""

    setting: str
    ours: float
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim and what came of it; `ours` is None where nothing could be computed."""

    claim: Claim
    ours: float | None
    verdict: str
    reason: str
    alternatives: tuple[Alternative, ...] = ()

    @property
    def counted(self) -> bool:
        """Whether the verdict says something about the planner."""
        return self.claim.counted and self.verdict != NOT_REPRODUCIBLE


def judge(claim: Claim, inputs: Inputs) -> Finding:
    """Compute a claim and hold it against its band; a setting is what it is."""
    if claim.ours is None and not claim.counted:
        return Finding(claim=claim, ours=claim.published, verdict=PASS, reason=claim.reason)
    if claim.ours is None:
        return Finding(claim=claim, ours=None, verdict=NOT_REPRODUCIBLE, reason=claim.reason)
    try:
        ours = float(claim.ours(inputs))
    except MissingInput as missing:
        return Finding(claim=claim, ours=None, verdict=NOT_REPRODUCIBLE, reason=str(missing))
    others = ((each.setting, float(each.ours(inputs))) for each in claim.variants)
    return Finding(
        claim=claim,
        ours=ours,
        verdict=_verdict(claim, ours),
        reason=claim.reason or claim.note,
        alternatives=tuple(
            Alternative(setting=setting, ours=value, verdict=_verdict(claim, value))
            for setting, value in others
        ),
    )


def _verdict(claim: Claim, value: float) -> str:
    return PASS if claim.band is None or claim.band.holds(value) else FAIL
