"""The implicit Euler step of the prompt queue, bin after bin."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from planner.solve.kernel.compile import entry

Floats = NDArray[np.float64]


@entry
def unfinished_work(
    arriving: Floats, supply: Floats, scale: Floats, bin_s: float, work: Floats, fluid: Floats
) -> None:
    """Fill `work` and `fluid`, (lane, bin), see `planner.solve.backlog.backlog`."""
    for lane in range(arriving.shape[0]):
        v = 0.0
        queue = 0.0
        for index in range(arriving.shape[1]):
            coming = arriving[lane, index] * bin_s
            net = coming - supply[lane, index] * bin_s
            e = scale[lane, index]
            half = v * 0.5 + (net - e) * 0.5
            v = math.sqrt(half * half + (v + coming) * e) + half
            queue = max(0.0, queue + net)
            work[lane, index] = v
            fluid[lane, index] = queue
