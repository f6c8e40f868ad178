"""The request arrays that profile, sim and solve pass along."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """All usable requests of a trace, sorted by arrival; arrays of equal length n.

    `arrival_s` is relative to `origin`, the first arrival (seconds, float64). Token counts are
    int64. `class_id` indexes `class_names`. `cached_tokens` is the leading prefix that an infinite
    cache would hold, whole prompts included (engines recompute a last block even then); where the
    trace has no block ids it is the hit that the log itself reports, 0 where it reports none.
    `session_id` is -1 where unknown; sessions count from 0 in order of first arrival.
    Prefix block ids are ragged: request i owns `block_ids[block_offset[i]:block_offset[i + 1]]`;
    ids are 0, 1, 2, … in order of first use. Observed latencies are NaN where the log has none.
    """

    arrival_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    class_id: NDArray[np.int64]
    class_names: tuple[str, ...]
    cached_tokens: NDArray[np.int64]
    session_id: NDArray[np.int64]
    block_tokens: int = 0  # tokens a prefix block id stands for; 0: no ids
    block_offset: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    block_ids: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    observed_ttft_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    observed_e2e_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    origin: str = ""  # ISO 8601 of arrival_s = 0, "" when the trace only has relative times

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last arrival (0 for fewer than two requests)."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) > 1 else 0.0
