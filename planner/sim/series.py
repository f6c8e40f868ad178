"""Figures over time: what all replicas did in each stretch of the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Per time bin. Rates are of the whole fleet, means are of one replica over the whole bin.

    A step belongs to the bin in which it starts (a long run is cut at the bin's end).
    """

    start_s: Floats
    end_s: Floats
    busy: Floats  # share of time in which a replica runs steps
    running: Floats  # requests running
    decodes: Floats  # sequences decoding
    kv_use: Floats  # share of KV blocks held
    prefill_tokens_per_s: Floats
    decode_tokens_per_s: Floats
    finished_per_s: Floats
    preemptions: NDArray[np.int64]


def cut_points(requests: Requests, edges: Sequence[Floats], bin_s: float) -> Floats:
    """Return where time bins end: every `bin_s` up to the last arrival, and at window edges."""
    if not len(requests):
        return np.zeros(0)
    first, last = float(requests.arrival_s[0]), float(requests.arrival_s[-1])
    grid = first + bin_s * np.arange(1 + int((last - first) // bin_s))
    every: Floats = np.unique(np.concatenate([grid, *edges]))
    finite: Floats = every[np.isfinite(every)]
    return finite


def series(bins: Any, last_s: float, replicas: int, num_blocks: int) -> Series:  # noqa: ANN401
    """Return the figures of the bins up to `last_s`, when the last replica fell idle."""
    used = np.flatnonzero(np.concatenate(([True], bins.end_s[:-1] < last_s)))[1:]
    start = bins.end_s[used - 1]
    end = np.minimum(bins.end_s[used], max(last_s, float(start[-1])) if len(used) else last_s)
    part = bins[used]
    seconds = np.where(end > start, end - start, np.inf)
    time = seconds * replicas
    return Series(
        start_s=start,
        end_s=end,
        busy=part.busy_s / time,
        running=part.running_seq_s / time,
        decodes=part.decode_seq_s / time,
        kv_use=part.used_block_s / (time * num_blocks),
        prefill_tokens_per_s=part.prefill_tokens / seconds,
        decode_tokens_per_s=part.decode_tokens / seconds,
        finished_per_s=part.finished / seconds,
        preemptions=part.preemptions,
    )
