"""Demand in one stretch of the trace, reduced to the arrays that the equations read.

Two clocks: bins of a few seconds carry the prompt queue (surges), blocks of a minute carry the
decoding sequences (they change with the length of an answer). Everything is per unit of load
factor: a replica at load factor f sees f times the trace's own rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.solve.traffic import Traffic
from planner.solve.windows import Window

Floats = NDArray[np.float64]

BIN_S = 2.0
MAX_BINS = 1_000_000  # 23 days at 2 s; longer traces get wider bins
BLOCK_S = 60.0
MAX_BLOCKS = 20_000
LEAD_S = 900.0  # before the stretch, so that a queue and its decodes are already there
LOCAL_MEAN_S = 600.0  # deviations from the mean over this long are bursts
SUB_BINS = 8  # resolution of burstiness inside a bin
SPEEDS_S = np.array([0.004, 0.012, 0.03, 0.08, 0.2, 0.5])  # seconds per token, for Little's law
KEPT_SHARE = 0.4  # of a thinned window's sample: its longest prompts, and its longest answers
MIX = 256  # requests that stand for the stretch's length distribution


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One stretch of demand with its lead-in; token rates in tokens/s of the trace itself."""

    start_s: float
    end_s: float
    bin_s: float
    block_s: float
    bin_mean: Floats  # prompt tokens/s per bin, averaged over ten minutes around it
    bin_excess: Floats  # what the bin itself adds to that
    bin_block: NDArray[np.int64]  # bin -> block
    block_tokens: Floats  # prompt tokens/s per block
    residents: Floats  # [speed, block] sequences decoding at SPEEDS_S seconds per token
    held: Floats  # [speed, block] KV tokens they hold
    dispersion: float  # bursts inside a bin: variance of tokens over a Poisson process's
    mix_prompt: Floats  # prompts that stand for the length distribution
    mix_cached: Floats
    windows: tuple[Window, ...]
    rejected: NDArray[np.int64]  # per window: requests too long to be served
    sample: Sample

    @property
    def prompt_tokens_per_s(self) -> float:
        """Mean prompt demand of the stretch itself, without its lead-in."""
        return float(self.bin_tokens[self.after_lead].mean())

    @property
    def bin_tokens(self) -> Floats:
        """Prompt tokens/s per bin as they arrived."""
        tokens: Floats = self.bin_mean + self.bin_excess
        return tokens

    @property
    def after_lead(self) -> NDArray[np.bool_]:
        """Bins of the stretch itself."""
        middle = (np.arange(len(self.bin_mean)) + 0.5) * self.bin_s
        return middle >= self.lead_s

    @property
    def lead_s(self) -> float:
        """Seconds of lead-in before `start_s`."""
        return min(self.start_s, LEAD_S)


def stretch_of(
    traffic: Traffic,
    windows: Sequence[Window],
    *,
    start_s: float,
    end_s: float,
    per_window: int | None = None,
) -> Stretch:
    """Reduce [start_s, end_s) of the traffic, evaluating the windows that lie inside it.

    `per_window` is about how many requests of a window are evaluated (see `thinned`); None
    evaluates all of them.
    """
    lead = min(start_s, LEAD_S)
    begin, length = start_s - lead, end_s - start_s + lead
    bin_s = max(BIN_S, length / MAX_BINS)
    block_s = max(BLOCK_S, length / MAX_BLOCKS)
    inside = tuple(w for w in windows if w.start_s >= start_s and w.end_s <= end_s)
    first, last = np.searchsorted(traffic.arrival_s, [begin, end_s + 1e-9])
    part = slice(int(first), int(last))
    tokens, excess, dispersion = _bins(traffic, part, begin, length, bin_s)
    bins, blocks = len(tokens), int(np.ceil(length / block_s))
    bin_block = np.minimum(
        ((np.arange(bins) + 0.5) * bin_s // block_s).astype(np.int64), blocks - 1
    )
    residents, held = _residents(traffic, begin, end_s, block_s, blocks)
    mix_prompt, mix_cached = _mix(traffic, part)
    sample, rejected = _sample(traffic, inside, begin, bin_s, block_s, bins, blocks, per_window)
    return Stretch(
        start_s=start_s,
        end_s=end_s,
        bin_s=bin_s,
        block_s=block_s,
        bin_mean=tokens,
        bin_excess=excess,
        bin_block=bin_block,
        block_tokens=np.bincount(bin_block, tokens + excess, blocks)
        / np.maximum(1, np.bincount(bin_block, minlength=blocks)),
        residents=residents,
        held=held,
        dispersion=dispersion,
        mix_prompt=mix_prompt,
        mix_cached=mix_cached,
        windows=inside,
        rejected=rejected,
        sample=sample,
    )


def _bins(
    traffic: Traffic, part: slice, begin: float, length: float, bin_s: float
) -> tuple[Floats, Floats, float]:
    """Return prompt tokens/s per bin as local mean and excess, and the dispersion inside a bin."""
    bins = max(1, int(np.ceil(length / bin_s - 1e-9)))
    work = np.where(traffic.served[part], traffic.prompt_tokens[part], 0.0)
    fine = _place(traffic.arrival_s[part] - begin, bin_s / SUB_BINS, bins * SUB_BINS)
    sub = _counts(fine, work, bins * SUB_BINS).reshape(bins, SUB_BINS)
    tokens = sub.sum(axis=1) / bin_s
    mean = local_mean(tokens, max(1, round(LOCAL_MEAN_S / bin_s)))
    return mean, tokens - mean, _dispersion(sub, float((work**2).sum()))


def _counts(place: NDArray[np.int64], weight: Floats, length: int) -> Floats:
    """Return Σ weight by place, as float64 even where nothing is counted."""
    return np.bincount(place, weight, length).astype(np.float64)


def _place(offset_s: Floats, width_s: float, count: int) -> NDArray[np.int64]:
    """Return the index of the interval of `width_s` that each offset falls into."""
    return np.clip((offset_s // width_s).astype(np.int64), 0, count - 1)


def local_mean(values: Floats, width: int) -> Floats:
    """Return the running mean over `width` neighbours, narrower at the ends.

    >>> local_mean(np.array([1.0, 2.0, 3.0, 4.0]), 3).tolist()
    [1.5, 2.0, 3.0, 3.5]
    """
    total = np.concatenate([[0.0], np.cumsum(values)])
    half = width // 2
    low = np.maximum(0, np.arange(len(values)) - half)
    high = np.minimum(len(values), np.arange(len(values)) + half + 1)
    mean: Floats = (total[high] - total[low]) / (high - low)
    return mean


def _dispersion(sub: Floats, squares: float) -> float:
    """Variance of tokens between the parts of a bin over what Poisson arrivals would give.

    Poisson arrivals of prompts p have variance Σp² (compound Poisson); 1 means no bursts.
    """
    parts = sub.shape[1]
    within = float(((sub - sub.mean(axis=1, keepdims=True)) ** 2).sum()) * parts / (parts - 1)
    return max(1.0, within / squares) if squares > 0 else 1.0


def _residents(
    traffic: Traffic, begin: float, end_s: float, block_s: float, blocks: int
) -> tuple[Floats, Floats]:
    """Return sequences decoding and KV tokens held per block, for each speed in SPEEDS_S.

    Exact in time and in the joint distribution of input and output: each request decodes for
    output × speed seconds from its arrival on and holds input plus what it has generated.
    """
    longest = float(SPEEDS_S[-1]) * float(np.max(traffic.output_tokens, initial=1.0))
    first, last = np.searchsorted(traffic.arrival_s, [begin - longest, end_s])
    keep = np.flatnonzero(traffic.served[first:last]) + first
    start = (traffic.arrival_s[keep] - begin) / block_s
    length, output = traffic.input_tokens[keep], traffic.output_tokens[keep]
    ones = np.ones(len(keep))
    residents = np.empty((len(SPEEDS_S), blocks))
    held = np.empty_like(residents)
    started, started_input = _steps(start, (ones, length), blocks)
    started_ramp = _ramp(start, blocks)
    for index, speed in enumerate(SPEEDS_S):
        stop = start + output * speed / block_s
        ended, ended_input, ended_output = _steps(stop, (ones, length, output), blocks)
        residents[index] = started - ended
        grown = (started_ramp - _ramp(stop, blocks)) * block_s / speed - ended_output
        held[index] = started_input - ended_input + grown
    return np.maximum(residents, 0.0), np.maximum(held, 0.0)


def _steps(position: Floats, weights: Sequence[Floats], blocks: int) -> list[Floats]:
    """Return, for each weight, the block means of Σ weight · 1[t ≥ position] (unit blocks)."""
    place, late = _clipped(position, blocks)
    means = []
    for weight in weights:
        whole = np.cumsum(_counts(place, weight, blocks + 1))
        part = _counts(place, weight * late, blocks + 1)
        means.append((whole - part)[:blocks])
    return means


def _ramp(position: Floats, blocks: int) -> Floats:
    """Return the block means of Σ max(0, t − position) (unit blocks)."""
    place, late = _clipped(position, blocks)
    earlier = np.minimum(position, 0.0)  # started before the first block
    count = np.concatenate([[0.0], np.cumsum(np.bincount(place, minlength=blocks + 1))[:-1]])
    begun = np.concatenate(
        [[0.0], np.cumsum(np.bincount(place, place + late + earlier, blocks + 1))[:-1]]
    )
    middle = np.arange(blocks + 1) + 0.5
    young = np.where(earlier < 0, 0.5 - earlier, (1.0 - late) ** 2 / 2.0)
    ramp: Floats = (count * middle - begun + np.bincount(place, young, blocks + 1))[:blocks]
    return ramp


def _clipped(position: Floats, blocks: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the block of each position and how far into it, clipped to the grid."""
    inside = np.clip(position, 0.0, float(blocks))
    place = np.minimum(inside.astype(np.int64), blocks)
    return place, inside - place


def _mix(traffic: Traffic, part: slice) -> tuple[Floats, Floats]:
    """Return evenly spaced requests, by prompt length, that stand for the distribution."""
    keep = traffic.served[part]
    prompt = traffic.prompt_tokens[part][keep]
    if not len(prompt):
        return np.ones(1), np.zeros(1)
    cached = traffic.input_tokens[part][keep] - prompt
    order = np.argsort(prompt, kind="stable")
    pick = order[((np.arange(MIX) + 0.5) * len(order) / MIX).astype(np.int64)]
    return prompt[pick], cached[pick]


def _sample(
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
        bin=_place(time_s, bin_s, bins),
        block=_place(time_s, block_s, blocks),
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
