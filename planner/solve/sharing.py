"""How decodes share a replica with prefill, and the KV cache with each other."""

from __future__ import annotations

import numpy as np

from planner.perf.quantity import Quantity

# A running batch that fills the KV cache to the last token preempts half of the time; the state
# keeps one standard deviation of the held tokens free (running just under capacity is cheaper).
HELD_SIGMAS = 1.0


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
    met = np.maximum(-np.expm1(-tokens / lone_chunk), tokens / full_chunk)
    share = np.minimum(np.maximum(met, 1e-12), 1.0)
    return share, np.minimum(tokens / share, full_chunk)


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
