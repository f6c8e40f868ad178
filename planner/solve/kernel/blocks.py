"""Sums over requests by the block of time they fall into, all in one pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.solve.kernel.compile import entry

Floats = NDArray[np.float64]

ONES, LATE, INPUT, INPUT_LATE, OUTPUT, OUTPUT_LATE, BEGUN, YOUNG = range(8)
SUMS = 8


@entry
def sums_by_block(
    position: Floats, input_tokens: Floats, output_tokens: Floats, sums: Floats
) -> None:
    """Add each request to its block's column of `sums`, (SUMS, blocks + 1).

    `position` is in blocks; what lies outside the grid is clipped to it. With `late` the part of
    the block before the position: LATE, INPUT_LATE and OUTPUT_LATE are weighted by it, BEGUN is
    the position itself, even before the grid, and YOUNG the mean over the block of the time since.
    """
    blocks = sums.shape[1] - 1
    for i in range(len(position)):
        at = position[i]
        inside = min(max(at, 0.0), float(blocks))
        place = min(int(inside), blocks)
        late = inside - place
        earlier = min(at, 0.0)
        sums[ONES, place] += 1.0
        sums[LATE, place] += late
        sums[INPUT, place] += input_tokens[i]
        sums[INPUT_LATE, place] += input_tokens[i] * late
        sums[OUTPUT, place] += output_tokens[i]
        sums[OUTPUT_LATE, place] += output_tokens[i] * late
        sums[BEGUN, place] += place + late + earlier
        sums[YOUNG, place] += 0.5 - earlier if earlier < 0.0 else (1.0 - late) ** 2 / 2.0
