"""From the state of a replica to the chance that each request meets a limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.backlog import (
    backlog,
    burst_factor,
    queue_scale_tokens,
    unresolved_share,
    waiting_tail,
)
from planner.solve.gaps import gaps_of
from planner.solve.sample import Sample
from planner.solve.steady import Lanes, State, steady
from planner.solve.steps import prompt_extra_s, step
from planner.solve.stretch import Stretch

Floats = NDArray[np.float64]

# Two-point Gauss quadrature of a uniform residual step, as shares of the step.
RESIDUAL_POINTS = (0.2113, 0.7887)
CHUNK_QUANTILES = 8
CHUNK_TOLERANCE = 0.02  # of a chunk: D is a mean, so is what it leaves of the budget
SMALLEST_SHAPE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Everything a limit on TTFT, TPOT, ITL or E2E is compared with, per lane and request."""

    state: State
    work: Floats  # (lane, request) unfinished prompt tokens on arrival and those that join, mean
    fluid: Floats  # its deterministic part
    scale: Floats  # (lane, request) e
    supply: Floats  # (lane, request) tokens/s that work it off
    own_s: Floats  # (lane, request) own prefill and frontend, residual step left out
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
    work, fluid, chance, scale = _queue(cost, stretch, state, at, arriving)
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
    mean, variance = gaps_of(cost, stretch, state, at, arriving, scale, first)
    return Waits(
        state=state,
        work=work,
        fluid=fluid[:, requests.bin],
        scale=chance[:, requests.bin],
        supply=supply,
        own_s=own + _frontend_s(cost, requests),
        residual_s=residual,
        gap_floor_s=np.broadcast_to(step(cost, 1.0, requests.prompt_tokens).gap_s, mean.shape),
        gap_mean_s=mean,
        gap_variance=variance,
        gap_ceiling_s=state.full_gap_s[:, block],
    )


def _frontend_s(cost: StepCost, requests: Sample) -> Floats:
    """Return what each request spends outside the engine's loop: the whole prompt is read there."""
    whole = requests.prompt_tokens + requests.cached_tokens
    return np.asarray(cost.frontend_s + cost.frontend_token_s * whole)


def _arriving(stretch: Stretch, at: Lanes) -> Floats:
    """Return prompt tokens/s that reach the replica, per lane and bin."""
    arriving: Floats = at.factor * stretch.bin_tokens
    return arriving


def _queue(
    cost: StepCost, stretch: Stretch, state: State, at: Lanes, arriving: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return V, Q and e of every lane through the bins, and e before what the bins resolve."""
    scale = _scale(cost, stretch, state, at)
    supply = np.maximum(state.supply, 1e-9)[:, stretch.bin_block]
    share = unresolved_share(
        scale,
        state.demand,
        np.maximum(state.supply, 1e-9),
        at.factor * stretch.sample_rate,
        stretch.bin_s,
    )
    chance = (scale * share)[:, stretch.bin_block]
    work, fluid = backlog(arriving, supply, chance, stretch.bin_s)
    return work, fluid, chance, scale


def _scale(cost: StepCost, stretch: Stretch, state: State, at: Lanes) -> Floats:
    """Return e of each lane in tokens, from the time prompts take: a long one costs more per token.

    With S_i the time of prompt i in full chunks, attention included: e = E[p]/E[S]·E[S²]/(2E[S]).
    """
    full = state.full_chunk.mean(axis=1, keepdims=True)
    decodes, context = (x.mean(axis=1, keepdims=True) for x in (state.decodes, state.context))
    per_token = step(cost, decodes, context, full).interval_s / full
    attention = prompt_extra_s(cost, stretch.mix_prompt, stretch.mix_cached, full)
    service = stretch.mix_prompt * per_token + attention
    mean = service.mean(axis=1, keepdims=True)
    square = (service**2).mean(axis=1, keepdims=True)
    burst = burst_factor(stretch.dispersion, at.factor)
    scale: Floats = queue_scale_tokens(mean, square, burst) * stretch.mix_prompt.mean() / mean
    return scale


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
    the mean and variance of `gaps_of`: skewed like a sum of few prompts, normal when they are many.
    """
    from scipy.special import gammainc

    limit = np.broadcast_to(np.asarray(limit_s, np.float64), at.gap_mean_s.shape)
    within = np.ones(limit.shape)
    open_ = limit < at.gap_ceiling_s
    floor, mean = at.gap_floor_s[open_], at.gap_mean_s[open_]
    above = np.maximum(mean - floor, 1e-9)
    variance = np.maximum(at.gap_variance[open_], 1e-18)
    shape = np.maximum(above**2 / variance, SMALLEST_SHAPE)
    left = np.maximum(limit[open_] - floor, 0.0)
    within[open_] = gammainc(shape, left * above / variance)
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
