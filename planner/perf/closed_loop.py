"""Steady state of a closed loop: c clients that each send their next request when one finishes.

Solved in step counts, which do not depend on how long a step takes; times follow from the StepCost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from planner.perf.step_arithmetic import attended_pairs
from planner.perf.step_cost import StepCost, step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the clients of a closed loop send."""

    prompt_tokens: float
    output_tokens: float
    concurrency: float  # per data-parallel rank
    opening_burst: float = 0.0  # concurrency / requests of the run: they all arrive at once
    ranks: int = 1  # data-parallel ranks behind one frontend
    in_step: bool = False  # whether they step together (experts shared between them)
    poll_steps: float = 1.0  # steps between looks at the inbox (SGLang's scheduler-recv-interval)
    cached_tokens: float = 0.0  # of a prompt, found in the prefix cache, on average
    burst_cached_tokens: float = 0.0  # the same of the prompts that open the run

    @property
    def fresh_tokens(self) -> float:
        """Prompt tokens to compute; the last one always is, for its logits."""
        return max(1.0, self.prompt_tokens - self.cached_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """Means over a long run. `mixed_share` of the steps carry `chunk_tokens` of prefill."""

    decode_seqs: float
    mixed_share: float
    chunk_tokens: float
    prefill_steps: float
    arrivals_per_step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """Latencies and throughput of one data-parallel rank."""

    tpot_s: float
    ttft_s: float
    output_tokens_per_s: float
    decode_step_s: float
    state: SteadyState


def steady_state(load: Load, budget: float, resident_limit: float, mixes: bool) -> SteadyState:
    """Return the steady state in step counts.

    Data-parallel ranks of a MoE model step together, so a prompt on any of them makes a step that
    carries prefill for all: λ in q counts every rank's.

    I are the prompt tokens to compute, what the prefix cache holds taken off.
    λ = D/(O − 1) requests start per decode step; a share q = max(1 − e^−λ, λI/room) of the steps
    carries prefill of p = λI/q tokens; a request waits for w steps before its chunks, so
    D = c(O − 1)/(O − 1 + n + w), at most what the KV cache and the budget allow.
    """
    decodes_each = max(load.output_tokens - 1.0, 1.0)
    clients = min(load.concurrency, resident_limit)
    prompt = load.fresh_tokens
    running = clients
    steps = waiting = 0.0
    for _ in range(60):
        room = max(budget - running, 0.1 * budget) if mixes else budget
        arrivals = running / decodes_each
        steps = max(1.0, math.ceil(prompt / room - 1e-9))
        if not mixes:
            break
        work = arrivals * prompt / room
        everyone = clients * prompt / room / 2.0  # all prompts queued behind each other
        waiting = min(work / (2.0 * max(1.0 - work, 0.02)) * steps, everyone)
        target = clients * decodes_each / (decodes_each + steps + waiting)
        target = min(target, decodes_each * room / prompt)
        if abs(target - running) < 1e-6 * clients:
            break
        running = 0.5 * (running + target)
    arrivals = running / decodes_each
    room = max(budget - running, 0.1 * budget) if mixes else budget
    starts = arrivals * (load.ranks if load.in_step else 1)
    share = max(1.0 - math.exp(-starts), min(1.0, arrivals * prompt / room))
    return SteadyState(
        decode_seqs=running,
        mixed_share=share,
        chunk_tokens=arrivals * prompt / share,
        prefill_steps=steps,
        arrivals_per_step=arrivals,
    )


def closed_loop(cost: StepCost, load: Load, resident_tokens: float, mixes: bool) -> ClosedLoop:
    """Return TPOT, TTFT and throughput of a closed loop.

    Mixed engines: TPOT = (1 − q)·τ(D, 0) + q·τ(D, p). Prefill-first engines: every decode step
    waits for the λ prompts that start, TPOT = τ(D, 0) + λ·τ(0, I).

    Parameters
    ----------
    cost
        One data-parallel rank's step cost.
    load
        Mean lengths and the clients of this rank.
    resident_tokens
        KV capacity of this rank.
    mixes
        Whether prefill and decode share a step.
    """
    context = load.prompt_tokens + load.output_tokens / 2.0
    budget = float(cost.max_num_batched_tokens)
    limit = min(max(1.0, resident_tokens / context), float(cost.max_num_seqs))
    state = steady_state(load, budget, limit, mixes)
    decode = _step(cost, load, state.decode_seqs, 0.0)
    if mixes:
        mixed = _step(cost, load, state.decode_seqs, state.chunk_tokens)
        tpot = (1.0 - state.mixed_share) * decode + state.mixed_share * mixed
    else:
        together = arrivals_together(state.arrivals_per_step * load.poll_steps)
        tpot = decode + _prefill_s_per_request(cost, load, together) * state.arrivals_per_step
    ttft = _ttft_s(cost, load, tpot, state, mixes)
    if load.concurrency > limit:  # clients beyond the KV cache queue for a resident (Little)
        residence = ttft + (load.output_tokens - 1.0) * tpot
        ttft += (load.concurrency - limit) / limit * residence
    residence = ttft + (load.output_tokens - 1.0) * tpot
    return ClosedLoop(
        tpot_s=tpot,
        ttft_s=ttft,
        output_tokens_per_s=load.concurrency * load.output_tokens / residence,
        decode_step_s=decode,
        state=state,
    )


def arrivals_together(mean: float) -> float:
    """Return how many prompts share a prefill step: m/(1 − e^−m), m the mean between two looks.

    Source: Poisson arrivals, given that there is one; requests that finish together are followed
    together, and between two looks at the inbox more of them gather.

    >>> round(arrivals_together(1e-9), 6), round(arrivals_together(1.0), 3)
    (1.0, 1.582)
    """
    return mean / -math.expm1(-mean) if mean > 1e-9 else 1.0


def _step(cost: StepCost, load: Load, decodes: float, chunk: float) -> float:
    """Time of a step with D decodes and `chunk` tokens of whole or cut prompts."""
    context = load.prompt_tokens + load.output_tokens / 2.0
    fresh, past = load.fresh_tokens, load.prompt_tokens - load.fresh_tokens
    prompts = chunk / fresh
    chunks = max(1.0, math.ceil(fresh / cost.max_num_batched_tokens - 1e-9))
    windows = [int(window) for window in cost.window_tokens]
    reads = [decodes * (min(context, w) if w else context) for w in windows]
    pairs = [prompts * float(attended_pairs(fresh, past, w)) for w in windows]
    tokens = min(decodes * cost.tokens_per_decode + chunk, float(cost.max_num_batched_tokens))
    return float(
        step_s(
            cost,
            tokens=tokens,
            decode_seqs=decodes,
            kv_tokens=np.array(reads),
            rows=min(decodes + prompts, float(cost.max_num_seqs)),
            pairs=np.array(pairs),
            prefix_tokens=prompts * (chunks * past + fresh * (chunks - 1.0) / 2.0),
        )
    )


def _prefill_s_per_request(cost: StepCost, load: Load, together: float) -> float:
    """Time of prefill steps without decodes, per prompt, when prompts share a step's budget."""
    budget = float(cost.max_num_batched_tokens)
    tokens = min(together * load.fresh_tokens, budget)
    steps_per_prompt = load.fresh_tokens / tokens
    return _step(cost, load, 0.0, tokens) * steps_per_prompt


def _ttft_s(cost: StepCost, load: Load, tpot: float, state: SteadyState, mixes: bool) -> float:
    """Return the mean time to first token, in s.

    Half a step until the current one ends (a long step is met more often: E[τ²]/2E[τ]), another
    one when asynchronous scheduling has it queued already, half an interval of polls, the prompt's
    own steps beside the decodes and the prompts that gathered with it (λ a step between two polls),
    the opening burst (φ·c/2 prompts of it are served first on average), and the frontend: a
    request's own work in it, its prompt's tokens, and the other clients, whose requests and tokens
    pass through the same process.
    """
    budget = float(cost.max_num_batched_tokens)
    beside = state.decode_seqs if mixes else 0.0
    together = load.fresh_tokens * (1.0 + state.arrivals_per_step * load.poll_steps)
    chunk = min(together, max(budget - beside, 1.0))
    own = _step(cost, load, beside, chunk) * max(1.0, load.fresh_tokens / chunk)
    short, long = _step(cost, load, state.decode_seqs, 0.0), own
    share = state.mixed_share
    square = (1.0 - share) * short**2 + share * long**2
    residual = square / (2.0 * ((1.0 - share) * short + share * long))
    further = (1.0 if cost.async_scheduling else 0.0) + (load.poll_steps - 1.0) / 2.0
    # Requests of nearly equal length leave in waves, so the burst's queue comes back: it is added
    # to everyone's wait instead of replacing a share (measured TTFT grows by 0.05·c prefills).
    opening = replace(load, cached_tokens=load.burst_cached_tokens)
    packed = max(1.0, math.floor(budget / opening.fresh_tokens))
    queued = _prefill_s_per_request(cost, opening, packed)
    burst = load.opening_burst * load.concurrency / 2.0 * queued
    frontend = (
        cost.frontend_s
        + cost.frontend_token_s * load.prompt_tokens
        + cost.frontend_client_s * load.ranks * load.concurrency
    )
    return own + residual + further * tpot + burst + frontend
