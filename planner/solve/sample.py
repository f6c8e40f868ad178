"""The requests of a stretch whose latency is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.solve.traffic import Traffic
from planner.solve.windows import Window

Floats = NDArray[np.float64]

KEPT_SHARE = 0.4  # of a thinned window's sample: its longest prompts, and its longest answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Requests whose latency is evaluated; `group` indexes the stretch's windows."""

    time_s: Floats  # from the start of the stretch's lead-in
    bin: NDArray[np.int64]
    block: NDArray[np.int64]
    group: NDArray[np.int64]
    weight: Floats  # requests that each one stands for
    prompt_tokens: Floats
    cached_tokens: Floats
    output_tokens: Floats


def place(offset_s: Floats, width_s: float, count: int) -> NDArray[np.int64]:
    """Return the index of the interval of `width_s` that each offset falls into."""
    return np.clip((offset_s // width_s).astype(np.int64), 0, count - 1)


def sample_of(
    traffic: Traffic,
    windows: Sequence[Window],
    begin: float,
    bin_s: float,
    block_s: float,
    bins: int,
    blocks: int,
    per_window: int | None,
) -> tuple[Sample, NDArray[np.int64]]:
    """Return the requests to evaluate, and how many of each window can never be served."""
    chosen, group, rejected, weights = [], [], [], []
    for index, window in enumerate(windows):
        end = window.end_s if window.end_s < traffic.span_s else np.inf
        first, last = np.searchsorted(traffic.arrival_s, [window.start_s, end])
        mine = np.flatnonzero(traffic.class_id[first:last] == window.class_id) + first
        served = mine[traffic.served[mine]]
        rejected.append(len(mine) - len(served))
        picked, weight = thinned(
            traffic.prompt_tokens[served], traffic.output_tokens[served], per_window
        )
        chosen.append(served[picked])
        weights.append(weight)
        group.append(np.full(len(picked), index))
    picked = np.concatenate(chosen) if chosen else np.zeros(0, np.int64)
    time_s = traffic.arrival_s[picked] - begin
    sample = Sample(
        time_s=time_s,
        bin=place(time_s, bin_s, bins),
        block=place(time_s, block_s, blocks),
        group=np.concatenate(group) if group else np.zeros(0, np.int64),
        weight=np.concatenate(weights) if weights else np.zeros(0),
        prompt_tokens=traffic.prompt_tokens[picked],
        cached_tokens=traffic.input_tokens[picked] - traffic.prompt_tokens[picked],
        output_tokens=traffic.output_tokens[picked],
    )
    return sample, np.asarray(rejected, dtype=np.int64)


def thinned(
    prompt_tokens: Floats, output_tokens: Floats, about: int | None
) -> tuple[NDArray[np.int64], Floats]:
    """Return which requests of a window stand for it, and how many each one stands for.

    High percentiles live in the longest requests, so those are all kept with weight 1; the rest is
    thinned evenly in time. Every request counts exactly once in the sum of the weights.

    >>> picked, weight = thinned(np.arange(1000.0), np.ones(1000), 100)
    >>> len(picked) < 160, float(weight.sum())
    (True, 1000.0)
    """
    count = len(prompt_tokens)
    if about is None or count <= about:
        return np.arange(count), np.ones(count)
    share = KEPT_SHARE * about / count
    longest = (prompt_tokens > np.quantile(prompt_tokens, 1.0 - share)) | (
        output_tokens > np.quantile(output_tokens, 1.0 - share)
    )
    rest = np.flatnonzero(~longest)
    number = max(1, min(about, len(rest)))
    edges = np.linspace(0, len(rest), number + 1).round().astype(np.int64)
    middles = rest[(edges[:-1] + edges[1:]) // 2]
    picked = np.concatenate([np.flatnonzero(longest), middles])
    weight = np.concatenate([np.ones(int(longest.sum())), np.diff(edges).astype(np.float64)])
    order = np.argsort(picked, kind="stable")
    return picked[order], weight[order]
