"""When the KV cache overflows, how often, and what a victim costs."""

from __future__ import annotations

import math

import numpy as np

from planner.perf.quantity import Quantity


def held_tokens_mean(
    prompt_output_mean: float, output_mean: float, output_square_mean: float
) -> float:
    """Return the mean KV tokens a running request holds: E[p·o]/E[o] + E[o²]/(2E[o]).

    Source: renewal argument: a request is seen in proportion to how long it decodes, and then half
    done on average.

    >>> held_tokens_mean(1000 * 200, 200, 200**2)
    1100.0
    """
    return prompt_output_mean / output_mean + output_square_mean / (2.0 * output_mean)


def overflow_probability(
    running_seqs: Quantity, held_mean: Quantity, held_std: Quantity, capacity_tokens: Quantity
) -> Quantity:
    """Return P(KV demand > capacity) = Q((S_cap − N·μ)/(√N·σ)).

    Source: central limit theorem over N independent running requests.

    >>> round(float(overflow_probability(100, 400, 300, 40_000)), 3)
    0.5
    """
    from scipy.special import ndtr

    spread = np.sqrt(np.asarray(running_seqs, dtype=np.float64)) * held_std
    room = capacity_tokens - running_seqs * held_mean
    return ndtr(-room / np.maximum(spread, 1e-12))


def safe_running_seqs(held_mean: float, held_std: float, capacity_tokens: float, z: float) -> float:
    """Return the most running requests whose demand stays below capacity with z deviations.

    N from N·μ + z·√N·σ = S_cap. Source: the same normal approximation, solved for √N.

    >>> round(safe_running_seqs(400, 300, 40_000, 0.0))
    100
    """
    root = (-z * held_std + math.sqrt((z * held_std) ** 2 + 4.0 * held_mean * capacity_tokens)) / (
        2.0 * held_mean
    )
    return root**2


def load_factor_to_capacity(mean_held_total: Quantity, capacity_tokens: Quantity) -> Quantity:
    """Return how many times today's load fills the KV cache on average: S_cap/(N·μ).

    Source: held tokens grow at least in proportion to load (Little), so this is an upper bound.

    >>> load_factor_to_capacity(10_000, 40_000)
    4.0
    """
    return capacity_tokens / mean_held_total


def recompute_s(tokens: Quantity, prefill_tokens_per_s: Quantity) -> Quantity:
    """Return the time a preempted request's tokens take to prefill again, in s: n/rate.

    Source: vLLM V1 preempts by recompute; prompt and generated tokens are prefilled, less what the
    prefix cache still holds.

    >>> recompute_s(2000, 20_000)
    0.1
    """
    return tokens / prefill_tokens_per_s
