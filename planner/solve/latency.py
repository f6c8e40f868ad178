"""From the state of a replica to the chance that each request meets a limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.backlog import (
    backlog,
    burst_factor,
    excess_weight,
    queue_scale_tokens,
    unresolved_share,
    waiting_tail,
)
from planner.solve.steady import Lanes, State, remaining_tokens, steady
from planner.solve.steps import prompt_extra_s, step
from planner.solve.stretch import Stretch

Floats = NDArray[np.float64]

# Two-point Gauss quadrature of a uniform residual step, as shares of the step.
RESIDUAL_POINTS = (0.2113, 0.7887)
CHUNK_QUANTILES = 8
CHUNK_TOLERANCE = 0.02  # of a chunk: D is a mean, so is what it leaves of the budget
# Replays of real traces spread TPOT more than independent prompts would: long prompts come in runs,
# and their attention costs more than their share of tokens. Fitted on replays of two traces on five
# GPUs: P99 of TPOT then lies within about 15 % of the replayed one (tests/solve/test_replay.py).
SPREAD = 2.5
SMALLEST_SHAPE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Everything a limit on TTFT, TPOT, ITL or E2E is compared with, per lane and request."""

    state: State
    work: Floats  # (lane, request) unfinished prompt tokens on arrival and those that join, mean
    fluid: Floats  # its deterministic part
    scale: Floats  # (lane, request) e
    supply: Floats  # (lane, request) tokens/s that work it off
    own_s: Floats  # (lane, request) the request's own prefill, residual step left out
    residual_s: Floats  # (lane, request) longest residual of the step in progress
    gap_floor_s: Floats  # (lane, request) a decode that is alone
    gap_mean_s: Floats  # (lane, request) mean time per output token over the request's life
    gap_variance: Floats  # (lane, request) of that mean, s²
    gap_ceiling_s: Floats  # (lane, request) no step takes longer


def waits(cost: StepCost, stretch: Stretch, at: Lanes, *, mixes: bool = True) -> Waits:
    """Return state and per-request quantities for every lane.

    Parameters
    ----------
    cost
        Physics of the lanes' family.
    stretch
        Demand; its sample is what is evaluated.
    at
        Configurations and loads.
    mixes
        Whether prefill and decodes share steps.
    """
    state = steady(cost, stretch, at, mixes=mixes)
    arriving = _arriving(stretch, at)
    work, fluid, chance, scale = _queue(stretch, state, at, arriving)
    requests = stretch.sample
    block = requests.block
    supply = np.maximum(state.supply, 1e-9)[:, block]
    queued = (cost.async_scheduling * queued_step_s(state))[:, block]
    residual = _residual(state)[:, block]
    own, room = _own_prefill(cost, stretch, state, mixes)
    own = own + queued
    beside = room * state.demand[:, block] * (residual + queued)
    work = work[:, requests.bin] + beside
    first = work / supply + own + residual / 2.0
    mean, variance = _gaps(cost, stretch, state, at, arriving, scale, first)
    return Waits(
        state=state,
        work=work,
        fluid=fluid[:, requests.bin],
        scale=chance[:, requests.bin],
        supply=supply,
        own_s=own,
        residual_s=residual,
        gap_floor_s=np.broadcast_to(step(cost, 1.0, requests.prompt_tokens).gap_s, mean.shape),
        gap_mean_s=mean,
        gap_variance=variance,
        gap_ceiling_s=state.full_gap_s[:, block],
    )


def _arriving(stretch: Stretch, at: Lanes) -> Floats:
    """Return prompt tokens/s that reach the replica, per lane and bin."""
    weight = excess_weight(stretch.dispersion, at.factor)
    arriving: Floats = at.factor * (stretch.bin_mean + weight * stretch.bin_excess)
    return np.maximum(0.0, arriving)


def _queue(
    stretch: Stretch, state: State, at: Lanes, arriving: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return V, Q and e of every lane through the bins, and e before what the bins resolve."""
    prompt = stretch.mix_prompt
    burst = burst_factor(stretch.dispersion, at.factor)
    scale = queue_scale_tokens(float(prompt.mean()), float((prompt**2).mean()), burst)
    supply = np.maximum(state.supply, 1e-9)[:, stretch.bin_block]
    share = unresolved_share(
        scale, state.demand, np.maximum(state.supply, 1e-9), at.factor, stretch.bin_s
    )
    chance = (scale * share)[:, stretch.bin_block]
    work, fluid = backlog(arriving, supply, chance, stretch.bin_s)
    return work, fluid, chance, scale


def _residual(state: State) -> Floats:
    """Return the step in progress that an arrival must wait out, in s, 0 when the replica is idle.

    Only what the queue does not count already: of a step with prefill, the part that its own
    prompt tokens do not explain.
    """
    mixed = _beyond_prompts(state)
    length = state.mixed_share * mixed**2 + (1.0 - state.mixed_share) * state.decode_gap_s**2
    residual: Floats = _busy(state) * length / state.mean_gap_s
    return residual


def queued_step_s(state: State) -> Floats:
    """Return the step that is already queued behind the one in progress, in s.

    An asynchronous scheduler has handed it out before the request arrived. As in `_residual`, only
    what the prompt queue does not count.
    """
    length = state.mixed_share * _beyond_prompts(state)
    queued: Floats = _busy(state) * (length + (1.0 - state.mixed_share) * state.decode_gap_s)
    return queued


def _busy(state: State) -> Floats:
    """Return the chance that a replica is in a step: 1 − exp(−D)·(1 − ρ)."""
    load = np.minimum(1.0, state.demand / np.maximum(state.budget_supply, 1e-9))
    return 1.0 - np.exp(-state.decodes) * (1.0 - load)


def _beyond_prompts(state: State) -> Floats:
    """Return the part of a step with prefill that its prompt tokens do not explain, in s."""
    carried = state.chunk / np.maximum(state.budget_supply, 1e-9)
    return np.maximum(state.mixed_gap_s - carried, 0.0)


def _own_prefill(
    cost: StepCost, stretch: Stretch, state: State, mixes: bool
) -> tuple[Floats, Floats]:
    """Return each request's own ⌈p/C⌉ prefill steps in s, and the room its last step leaves.

    The prompts that arrive while it waits for that step fill the room (a share of a full chunk)
    and lengthen the step: they count as work in front of it.
    """
    requests = stretch.sample
    block = requests.block
    full = state.full_chunk[:, block]
    chunks = np.maximum(1.0, np.ceil(requests.prompt_tokens / full - CHUNK_TOLERANCE))
    rest = requests.prompt_tokens - (chunks - 1.0) * full
    decodes = state.decodes[:, block] if mixes else np.zeros_like(full)
    context = state.context[:, block]
    whole = step(cost, decodes, context, full, 0.0).interval_s  # chunks follow each other closely
    last = step(cost, decodes, context, rest, 0.0).latency_s
    attention = prompt_extra_s(cost, requests.prompt_tokens, requests.cached_tokens, full)
    own: Floats = (chunks - 1.0) * whole + last + attention
    return own, np.maximum(1.0 - rest / full, 0.0)


def _gaps(
    cost: StepCost,
    stretch: Stretch,
    state: State,
    at: Lanes,
    arriving: Floats,
    scale: Floats,
    first_s: Floats,
) -> tuple[Floats, Floats]:
    """Return mean and variance of each request's time per output token.

    Mean: the local mean gap integrated over the tokens of the request's own life, plus the prompts
    that queued up behind it while it waited for its first token, which its first gaps carry.
    Variance: the prompts that come during life and wait are a compound Poisson stream (β seconds
    each token), so β²·λE[p²]·I·(time exposed)/n² over n gaps; and the number of companions is
    Poisson around D, which averages out only over lives longer than the companions' own.
    """
    requests = stretch.sample
    gaps = np.maximum(requests.output_tokens - 1.0, 1.0)
    seen = np.minimum(state.decodes + 1.0, at.max_num_seqs)  # an arrival sees itself and the rest
    alone = step(cost, seen, state.context).gap_s
    spread = np.minimum(seen + np.sqrt(state.decodes), at.max_num_seqs)
    companions = step(cost, spread, state.context).gap_s - alone
    local = state.mean_gap_s + (alone - state.decode_gap_s)
    mean = _life_mean(local, stretch.block_s, requests.time_s, gaps)
    delay = (state.mean_gap_s - state.decode_gap_s) / np.maximum(
        state.demand * state.mean_gap_s, 1e-12
    )
    prompts = SPREAD * 2.0 * scale * state.demand * delay**2 * state.mean_gap_s  # λE[p²]·I = 2·e·a
    life = remaining_tokens(requests.output_tokens)
    block = requests.block
    ceiling = state.full_gap_s[:, block]
    behind = _prompts_behind(stretch, state, at, arriving, first_s, gaps * mean)
    mean = mean + delay[:, block] * behind / gaps
    mean = np.clip(mean, alone[:, block], np.maximum(ceiling, alone[:, block]))
    exposed = (1.0 + first_s / (gaps * mean)) / gaps
    companion = companions[:, block] ** 2 / (1.0 + gaps / life)
    return mean, prompts[:, block] * exposed + companion


def _prompts_behind(
    stretch: Stretch, state: State, at: Lanes, arriving: Floats, first_s: Floats, life_s: Floats
) -> Floats:
    """Return prompt tokens that a request's decodes carry beyond what its minutes average.

    Those that arrive while it waits for its first token, and those of the burst it came with: bins
    from its arrival to its end, less its own prompt, less the minutes' mean over its decoding.
    """
    requests = stretch.sample
    start, end = requests.time_s, requests.time_s + first_s + life_s
    came = _between(arriving, stretch.bin_s, start, end)
    counted = _between(state.demand, stretch.block_s, start + first_s, end)
    own = at.factor * requests.prompt_tokens * np.minimum(1.0, (end - start) / stretch.bin_s)
    behind: Floats = np.maximum(came - own, 0.0) - counted
    return behind


def _between(rate: Floats, width_s: float, start_s: Floats, end_s: Floats) -> Floats:
    """Return ∫ rate dt from `start_s` to `end_s`; beyond the last interval its rate goes on."""
    total = np.concatenate([np.zeros((len(rate), 1)), np.cumsum(rate, axis=1)], axis=1)
    last = rate.shape[1]

    def until(time_s: Floats) -> Floats:
        position = np.broadcast_to(time_s / width_s, (len(rate), time_s.shape[-1]))
        low = np.clip(position.astype(np.int64), 0, last - 1)
        before = np.take_along_axis(total, low, axis=1)
        local = np.take_along_axis(rate, low, axis=1)
        upto: Floats = (before + (position - low) * local) * width_s
        return upto

    return until(end_s) - until(start_s)


def _life_mean(gap_s: Floats, block_s: float, time_s: Floats, gaps: Floats) -> Floats:
    """Return s per token of requests that start at `time_s` and take `gaps` steps.

    Tokens generated by time t are N(t) = ∫ dt/τ; the request ends where N has grown by its gaps.
    """
    edges = np.arange(gap_s.shape[1] + 1) * block_s
    mean = np.empty((len(gap_s), len(time_s)))
    for lane, local in enumerate(gap_s):
        tokens = np.concatenate([[0.0], np.cumsum(block_s / local)])
        last = tokens[-1]
        target = np.interp(time_s, edges, tokens) + gaps
        beyond = np.maximum(target - last, 0.0) * local[-1]  # past the stretch: as at its end
        mean[lane] = (np.interp(target, tokens, edges) + beyond - time_s) / gaps
    return mean


def ttft_within(at: Waits, limit_s: Floats | float) -> Floats:
    """Return P(TTFT ≤ limit) per lane and request: residual step, queue, own prefill."""
    left = np.asarray(limit_s) - at.own_s
    chance = np.zeros_like(at.own_s)
    for point in RESIDUAL_POINTS:
        tokens = (left - point * at.residual_s) * at.supply
        chance += 1.0 - waiting_tail(at.work, at.fluid, at.scale, tokens)
    return chance / len(RESIDUAL_POINTS)


def tpot_within(at: Waits, limit_s: Floats | float) -> Floats:
    """Return P(TPOT ≤ limit) per lane and request.

    TPOT lies between a lone decode's step and a full one's; between them a Gamma distribution with
    the mean and variance of `_gaps`: skewed like a sum of few prompts, normal when they are many.
    """
    from scipy.special import gammainc

    above = np.maximum(at.gap_mean_s - at.gap_floor_s, 1e-9)
    variance = np.maximum(at.gap_variance, 1e-18)
    shape = np.maximum(above**2 / variance, SMALLEST_SHAPE)
    left = np.maximum(np.asarray(limit_s) - at.gap_floor_s, 0.0)
    chance = gammainc(shape, left * above / variance)
    within: Floats = np.where(np.asarray(limit_s) >= at.gap_ceiling_s, 1.0, chance)
    return within


def e2e_within(at: Waits, outputs: Floats, limit_s: Floats | float) -> Floats:
    """Return P(E2E ≤ limit): TTFT within what the mean decode time leaves."""
    return ttft_within(at, np.asarray(limit_s) - (outputs - 1.0) * at.gap_mean_s)


def itl_within(
    cost: StepCost, stretch: Stretch, state: State, limit_s: Floats | float, *, mixes: bool = True
) -> Floats:
    """Return P(gap ≤ limit) of a token generated in each block, per lane.

    A gap is a decode step, or with probability q one that carries a chunk: the chunk's size is
    spread as lone prompts' chunks are, scaled to the mean c.
    """
    limit = np.asarray(limit_s)
    sizes = _chunk_sizes(stretch, float(state.full_chunk.mean()))
    factor = state.chunk / max(float(sizes.mean()), 1.0)
    mixed = np.zeros_like(state.chunk)
    for size in sizes:
        chunk = np.minimum(size * factor, state.full_chunk)
        if mixes:
            gap = step(cost, state.decodes, state.context, chunk, state.past).gap_s
        else:
            gap = state.decode_gap_s + step(cost, 0.0 * chunk, 0.0, chunk, state.past).gap_s
        mixed += (gap <= limit) / len(sizes)
    within: Floats = (1 - state.mixed_share) * (
        state.decode_gap_s <= limit
    ) + state.mixed_share * mixed
    return within


def _chunk_sizes(stretch: Stretch, full_chunk: float) -> Floats:
    """Return quantiles of the chunks that lone prompts are cut into."""
    full = np.floor(stretch.mix_prompt / full_chunk).astype(int)
    rest = stretch.mix_prompt - full * full_chunk
    sizes = np.sort(np.concatenate([np.full(int(full.sum()), full_chunk), rest[rest > 0]]))
    picks = ((np.arange(CHUNK_QUANTILES) + 0.5) * len(sizes) / CHUNK_QUANTILES).astype(int)
    quantiles: Floats = sizes[picks]
    return quantiles
