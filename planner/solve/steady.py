"""The state a replica settles into in each minute: decodes, step times, prompt supply.

A fixed point of three statements. Little's law: D = (tokens generated per s) · (s per token), taken
from the trace itself (`Stretch.residents`), so lengths, their correlation and their timing are
exact. Step time: τ(D, D·S, chunk) from the StepCost. Mixing: the share q of steps that carry
prefill and the tokens c in such a step, from the prompt rate a.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.quantity import Quantity
from planner.perf.step_cost import StepCost
from planner.solve.steps import step
from planner.solve.stretch import SPEEDS_S, Stretch

Floats = NDArray[np.float64]

ITERATIONS = 40
TOLERANCE = 1e-3
DAMPING = 0.7  # of each correction; the slots' feedback would oscillate without
# A running batch that fills the KV cache to the last token preempts half of the time; the state
# keeps one standard deviation of the held tokens free (running just under capacity is cheaper).
HELD_SIGMAS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Configurations and loads evaluated side by side: column vectors (n, 1).

    `factor` is the load: requests/s at the replica over requests/s in the trace.
    """

    factor: Floats
    max_num_batched_tokens: Floats
    max_num_seqs: Floats
    kv_tokens: Floats

    def __len__(self) -> int:
        return len(self.factor)


def lanes(
    factor: Floats | float,
    max_num_batched_tokens: Floats | float,
    max_num_seqs: Floats | float,
    kv_tokens: Floats | float,
) -> Lanes:
    """Return lanes from anything that broadcasts to one length."""
    columns = np.broadcast_arrays(
        *(
            np.atleast_1d(np.asarray(x, dtype=np.float64))
            for x in (factor, max_num_batched_tokens, max_num_seqs, kv_tokens)
        )
    )
    f, budget, seqs, kv = (column[:, None] for column in columns)
    return Lanes(factor=f, max_num_batched_tokens=budget, max_num_seqs=seqs, kv_tokens=kv)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What each lane does in each block: arrays (lane, block), in s, tokens and sequences."""

    decodes: Floats  # D, sequences decoding on average
    wanted: Floats  # D if neither slots nor KV limited it
    context: Floats  # S, tokens a decode reads on average
    decode_gap_s: Floats  # step with decodes only
    mixed_gap_s: Floats  # step with decodes and a typical chunk
    full_gap_s: Floats  # step with decodes and a full chunk
    mixed_share: Floats  # q
    mean_gap_s: Floats  # (1 − q)·decode + q·mixed
    chunk: Floats  # c, prefill tokens in a mixed step
    full_chunk: Floats  # C = max_num_batched_tokens − D·(γ + 1)
    demand: Floats  # a, prompt tokens/s
    budget_supply: Floats  # prompt tokens/s with every step full
    slot_supply: Floats  # prompt tokens/s that ending sequences make room for
    past: float  # tokens a prefill token attends to on average

    @property
    def supply(self) -> Floats:
        """Prompt tokens/s the replica can take: the budget's or the slots', whichever is less."""
        return np.minimum(self.budget_supply, self.slot_supply)


def mixed_steps(
    demand: Quantity, interval_s: Quantity, lone_chunk: Quantity, full_chunk: Quantity
) -> tuple[Quantity, Quantity]:
    """Return share q of steps that carry prefill and the prefill tokens c in such a step.

    Prompts bring a/c₁ chunks per second (c₁ tokens each when alone); a step of τ seconds is met by
    none of them with probability exp(−aτ/c₁) (Poisson), and never can q be below aτ/C:
    q = max(1 − exp(−aτ/c₁), aτ/C), c = aτ/q.

    >>> q, c = mixed_steps(1000.0, 0.01, 500.0, 2000.0)
    >>> round(float(q), 4), round(float(c), 1)
    (0.0198, 505.0)
    """
    tokens = demand * interval_s
    share = np.clip(np.maximum(-np.expm1(-tokens / lone_chunk), tokens / full_chunk), 1e-12, 1.0)
    return share, np.minimum(tokens / share, full_chunk)


def residents_at(stretch: Stretch, gap_s: Floats) -> tuple[Floats, Floats]:
    """Return sequences decoding and KV tokens held at `gap_s` per token, per unit of load.

    Between the tabulated speeds, sequences per (s/token) vary slowly: interpolated in log speed.
    """
    logs = np.log(SPEEDS_S)
    place = np.interp(np.log(np.maximum(gap_s, 1e-6)), logs, np.arange(len(logs)))
    low = np.minimum(place.astype(np.int64), len(logs) - 2)
    weight = place - low
    block = np.broadcast_to(np.arange(gap_s.shape[-1]), gap_s.shape)
    rates = stretch.residents / SPEEDS_S[:, None]
    held = stretch.held / SPEEDS_S[:, None]

    def at(table: Floats) -> Floats:
        mixed: Floats = (1.0 - weight) * table[low, block] + weight * table[low + 1, block]
        return mixed * gap_s

    return at(rates), at(held)


def lone_chunks(stretch: Stretch, budget: Floats) -> Floats:
    """Return prefill tokens per step of a prompt that has the budget to itself: Σp / Σ⌈p/C⌉."""
    chunks = np.ceil(stretch.mix_prompt / budget).sum(axis=-1, keepdims=True)
    mean: Floats = stretch.mix_prompt.sum() / chunks
    return mean


def mean_past(stretch: Stretch) -> float:
    """Return how many tokens a prefill token attends to on average: Σ(p·h + p²/2) / Σp.

    h cached tokens precede the prompt's own p. Length-biased: long prompts hold most tokens.
    """
    prompt, cached = stretch.mix_prompt, stretch.mix_cached
    return float((prompt * (cached + prompt / 2.0)).sum() / prompt.sum())


def steady(cost: StepCost, stretch: Stretch, at: Lanes, *, mixes: bool = True) -> State:
    """Return the state of every lane in every block.

    The iteration starts from an empty replica and climbs to the smallest fixed point: the state a
    replica reaches when load comes up, not the congested one that may exist beside it.

    Parameters
    ----------
    cost
        Physics; its tables must cover the lanes' budgets and sequence counts.
    stretch, at
        Demand, and the configurations and load factors to evaluate it for.
    mixes
        Whether a step may carry prefill and decodes together. Where not (SGLang's default), a
        prefill step runs alone and the decodes wait for it.
    """
    blocks = stretch.residents.shape[1]
    demand = at.factor * stretch.block_tokens
    past = mean_past(stretch)
    lone = lone_chunks(stretch, at.max_num_batched_tokens)
    shape = (len(at), blocks)
    gap = np.broadcast_to(step(cost, 1.0, 0.0).gap_s, shape).copy()
    admitted = np.ones(shape)
    life = remaining_tokens(stretch.sample.output_tokens)
    for _ in range(ITERATIONS):
        recent = recent_gap(gap, life, stretch.block_s)
        wanted, limit, context = _decodes(stretch, at, recent)
        decodes = np.minimum(wanted * admitted, limit)
        full_chunk = np.maximum(1.0, at.max_num_batched_tokens - decodes * cost.tokens_per_decode)
        alone = step(cost, decodes, context)
        full = _prefill_step(cost, decodes, context, full_chunk, past, alone.gap_s, mixes)
        supply = full_chunk / full[1]
        slots = np.minimum(1.0, limit / np.maximum(wanted, 1e-9))
        admitted = np.minimum(np.minimum(1.0, supply / np.maximum(demand, 1e-9)), slots)
        share, chunk = mixed_steps(demand * admitted, gap / cost.stages, lone, full_chunk)
        mixed = _prefill_step(cost, decodes, context, chunk, past, alone.gap_s, mixes)
        new = (1.0 - share) * alone.gap_s + share * mixed[0]
        change = float(np.max(np.abs(new - gap) / gap, initial=0.0))
        gap = gap + DAMPING * (new - gap)
        if change < TOLERANCE:
            break
    return State(
        decodes=decodes,
        wanted=wanted,
        context=context,
        decode_gap_s=alone.gap_s,
        mixed_gap_s=mixed[0],
        full_gap_s=full[0],
        mixed_share=share,
        mean_gap_s=gap,
        chunk=chunk,
        full_chunk=full_chunk,
        demand=demand,
        budget_supply=supply,
        slot_supply=np.where(slots < 1.0, demand * slots, np.inf),
        past=past,
    )


def remaining_tokens(outputs: Floats) -> float:
    """Return the mean tokens a running sequence has yet to generate: E[o²]/(2E[o]).

    It is also the mean it has generated. Length-biased: long answers are met more often.

    >>> remaining_tokens(np.array([100.0, 100.0]))
    50.0
    """
    return max(1.0, float((outputs**2).sum() / (2.0 * outputs.sum()))) if len(outputs) else 1.0


def recent_gap(gap_s: Floats, life_tokens: float, block_s: float) -> Floats:
    """Return the gap at which the sequences now running have run: harmonic over their life.

    Who still runs now depends on the speed since its arrival, not on the speed of this minute: a
    surge of a minute cannot fill a batch that takes three minutes to fill.

    >>> recent_gap(np.array([[0.01, 0.01, 0.1]]), 1200, 60.0).round(4).tolist()
    [[0.01, 0.01, 0.0182]]
    """
    length = life_tokens * gap_s / block_s  # blocks of life at the present speed
    tokens = np.cumsum(1.0 / gap_s, axis=1)
    blocks = gap_s.shape[1]
    position = np.arange(1, blocks + 1) - np.maximum(length, 1.0)
    low = np.clip(position.astype(np.int64), 0, blocks - 1)
    padded = np.concatenate([np.zeros((len(gap_s), 1)), tokens], axis=1)
    start = np.take_along_axis(padded, low, axis=1)
    after = np.take_along_axis(padded, low + 1, axis=1)
    earlier = start + (position - low) * (after - start)  # before the stretch: as at its start
    recent: Floats = np.maximum(length, 1.0) / (tokens - earlier)
    return recent


def _decodes(stretch: Stretch, at: Lanes, gap: Floats) -> tuple[Floats, Floats, Floats]:
    """Return D without limits, the D that slots and KV allow, and the mean context S."""
    unit, held = residents_at(stretch, gap)
    context = np.where(unit > 1e-12, held / np.maximum(unit, 1e-12), 0.0)
    limit = np.minimum(at.max_num_seqs, kv_sequences(at.kv_tokens, context))
    return at.factor * unit, np.maximum(limit, 1e-3), context


def kv_sequences(kv_tokens: Quantity, context: Quantity) -> Quantity:
    """Return sequences that fit the KV cache with HELD_SIGMAS deviations of it free.

    N·S + z·√(N·S²·1.5) = kv_tokens for independent sequences whose held tokens have a second
    moment of about 1.5·S² (contexts spread between prompt and full length).

    >>> round(float(kv_sequences(100_000.0, 1000.0)), 1)
    88.5
    """
    size = np.maximum(context, 1.0)
    spread = HELD_SIGMAS * np.sqrt(1.5)
    root = (-spread + np.sqrt(spread**2 + 4.0 * kv_tokens / size)) / 2.0
    return root**2


def _prefill_step(
    cost: StepCost,
    decodes: Floats,
    context: Floats,
    chunk: Floats,
    past: float,
    decode_gap_s: Floats,
    mixes: bool,
) -> tuple[Floats, Floats]:
    """Return what a step with prefill adds up to: gap between a decode's tokens, and interval."""
    if mixes:
        times = step(cost, decodes, context, chunk, past)
        return times.gap_s, times.interval_s
    times = step(cost, 0.0 * decodes, 0.0, chunk, past)
    return decode_gap_s + times.gap_s, times.interval_s
