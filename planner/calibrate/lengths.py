"""Prompt and output lengths of a benchmark's requests, from what a points file says of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.measured import Row, text

SEED = 42


def relative_lengths(row: Row, count: int, seed: int = SEED) -> NDArray[np.float64]:
    """Return `count` output lengths over their mean, of the row's length distribution.

    "random" of the serving benchmarks is uniform from 1 to the nominal length, InferenceX's is
    uniform in 0.8 to 1.0 of it, chat data sets are close to exponential; anything else is fixed.
    """
    rng = np.random.default_rng(seed)
    kind = text(row, "len_dist")
    if kind.startswith("uniform[0.8,1.0]"):
        drawn = rng.uniform(0.8, 1.0, count) / 0.9
    elif "fixed" in kind or "ignore-eos" in kind:
        return np.ones(count)
    elif kind.startswith("random"):
        drawn = rng.uniform(0.0, 2.0, count)
    elif "dataset" in kind or "ShareGPT" in kind:
        drawn = rng.exponential(1.0, count)
    else:
        return np.ones(count)
    return np.asarray(drawn / drawn.mean())
