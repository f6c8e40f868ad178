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

from planner.solve.kernel.blocks import (
    BEGUN,
    INPUT,
    INPUT_LATE,
    LATE,
    ONES,
    OUTPUT,
    OUTPUT_LATE,
    SUMS,
    YOUNG,
    sums_by_block,
)
from planner.solve.sample import Sample, place, sample_of
from planner.solve.sampling import estimated_rate, local_mean, signal_share
from planner.solve.traffic import Traffic
from planner.solve.windows import Window

Floats = NDArray[np.float64]

BIN_S = 2.0
MAX_BINS = 1_000_000  # 23 days at 2 s; longer traces get wider bins
BLOCK_S = 60.0
MAX_BLOCKS = 20_000
LEAD_S = 900.0  # before the stretch, so that a queue and its decodes are already there
LOCAL_BLOCKS = 10  # deviations of a minute from the mean over this many around it
SUB_BINS = 8  # resolution of burstiness inside a bin
SPEEDS_S = np.array([0.004, 0.012, 0.03, 0.08, 0.2, 0.5])  # seconds per token, for Little's law
MIX = 512  # requests that stand for the stretch's length distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One stretch of demand with its lead-in; token rates in tokens/s of the trace itself."""

    start_s: float
    end_s: float
    bin_s: float
    block_s: float
    bin_tokens: Floats  # prompt tokens/s per bin; of a sampled trace, the estimate (`sampling`)
    bin_block: NDArray[np.int64]  # bin -> block
    block_tokens: Floats  # prompt tokens/s per block
    residents: Floats  # [speed, block] sequences decoding at SPEEDS_S seconds per token
    held: Floats  # [speed, block] KV tokens they hold
    dispersion: float  # bursts inside a bin: variance of tokens over a Poisson process's
    mix_prompt: Floats  # prompts that stand for the length distribution
    mix_cached: Floats
    sample_rate: float
    own_share: float  # of a request's own tokens that show in its bin
    windows: tuple[Window, ...]
    rejected: NDArray[np.int64]  # per window: requests too long to be served
    sample: Sample

    @property
    def prompt_tokens_per_s(self) -> float:
        """Mean prompt demand of the stretch itself, without its lead-in."""
        return float(self.bin_tokens[self.after_lead].mean())

    @property
    def peak_over_mean(self) -> float:
        """Prompt demand of the fullest bin over the mean, both without the lead-in."""
        mean = self.prompt_tokens_per_s
        return float(self.bin_tokens[self.after_lead].max()) / mean if mean > 0.0 else 1.0

    @property
    def after_lead(self) -> NDArray[np.bool_]:
        """Bins of the stretch itself."""
        middle = (np.arange(len(self.bin_tokens)) + 0.5) * self.bin_s
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
    tokens, dispersion = _bins(traffic, part, begin, length, bin_s)
    bins, blocks = len(tokens), int(np.ceil(length / block_s))
    bin_block = np.minimum(
        ((np.arange(bins) + 0.5) * bin_s // block_s).astype(np.int64), blocks - 1
    )
    residents, held = _residents(traffic, begin, end_s, block_s, blocks)
    mix_prompt, mix_cached = _mix(traffic, part)
    sample, rejected = sample_of(traffic, inside, begin, bin_s, block_s, bins, blocks, per_window)
    return Stretch(
        start_s=start_s,
        end_s=end_s,
        bin_s=bin_s,
        block_s=block_s,
        bin_tokens=tokens,
        bin_block=bin_block,
        block_tokens=np.bincount(bin_block, tokens, blocks)
        / np.maximum(1, np.bincount(bin_block, minlength=blocks)),
        residents=residents,
        held=held,
        dispersion=dispersion,
        mix_prompt=mix_prompt,
        mix_cached=mix_cached,
        sample_rate=traffic.sample_rate,
        own_share=traffic.burst_shares[0],
        windows=inside,
        rejected=rejected,
        sample=sample,
    )


def _bins(
    traffic: Traffic, part: slice, begin: float, length: float, bin_s: float
) -> tuple[Floats, float]:
    """Return prompt tokens/s per bin, and the dispersion inside a bin."""
    bins = max(1, int(np.ceil(length / bin_s - 1e-9)))
    work = np.where(traffic.served[part], traffic.prompt_tokens[part], 0.0)
    fine = place(traffic.arrival_s[part] - begin, bin_s / SUB_BINS, bins * SUB_BINS)
    sub = _counts(fine, work, bins * SUB_BINS).reshape(bins, SUB_BINS)
    tokens = estimated_rate(sub.sum(axis=1) / bin_s, bin_s, traffic.burst_shares)
    return tokens, _dispersion(sub, float((work**2).sum()))


def _counts(place: NDArray[np.int64], weight: Floats, length: int) -> Floats:
    """Return Σ weight by place, as float64 even where nothing is counted."""
    return np.bincount(place, weight, length).astype(np.float64)


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
    residents = np.empty((len(SPEEDS_S), blocks))
    held = np.empty_like(residents)
    started = _Sums(start, length, output, blocks)
    for index, speed in enumerate(SPEEDS_S):
        ended = _Sums(start + output * speed / block_s, length, output, blocks)
        residents[index] = started.steps(ONES, LATE) - ended.steps(ONES, LATE)
        grown = (started.ramp() - ended.ramp()) * block_s / speed
        grown -= ended.steps(OUTPUT, OUTPUT_LATE)
        prompts = started.steps(INPUT, INPUT_LATE) - ended.steps(INPUT, INPUT_LATE)
        held[index] = prompts + grown
    return _without_sampling_noise(
        np.maximum(residents, 0.0), np.maximum(held, 0.0), traffic.sample_rate
    )


def _without_sampling_noise(
    residents: Floats, held: Floats, sample_rate: float
) -> tuple[Floats, Floats]:
    """Keep of a minute's deviation what the draw of the sample does not explain.

    Drawing requests with probability s gives a number of residents with mean N the variance
    (1 − s)·N.
    """
    if sample_rate >= 1.0 or residents.shape[1] <= LOCAL_BLOCKS:
        return residents, held
    for index in range(len(residents)):
        mean = local_mean(residents[index], LOCAL_BLOCKS)
        observed = float(((residents[index] - mean) ** 2).mean()) * 1.1  # 10 or 11 neighbours
        share = signal_share(observed, (1.0 - sample_rate) * float(residents[index].mean()))
        residents[index] = mean + share * (residents[index] - mean)
        about = local_mean(held[index], LOCAL_BLOCKS)
        held[index] = about + share * (held[index] - about)
    return residents, held


class _Sums:
    """Requests that begin (or end) at `position`, in unit blocks, reduced to block means."""

    def __init__(self, position: Floats, length: Floats, output: Floats, blocks: int) -> None:
        self.sums = np.zeros((SUMS, blocks + 1))
        sums_by_block(position, length, output, self.sums)

    def steps(self, whole: int, late: int) -> Floats:
        """Return the block means of Σ weight · 1[t ≥ position]."""
        means: Floats = (np.cumsum(self.sums[whole]) - self.sums[late])[:-1]
        return means

    def ramp(self) -> Floats:
        """Return the block means of Σ max(0, t − position)."""
        count, begun = np.cumsum(self.sums[ONES])[:-1], np.cumsum(self.sums[BEGUN])[:-1]
        middle = np.arange(1, len(count)) + 0.5
        ramp: Floats = self.sums[YOUNG][:-1].copy()
        ramp[1:] += count[:-1] * middle - begun[:-1]
        return ramp


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
