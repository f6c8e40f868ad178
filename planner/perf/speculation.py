"""Speculative decoding: tokens a verify pass yields, and when that pays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.perf.quantity import Quantity


def tokens_per_step(acceptance: Quantity, draft_tokens: Quantity) -> Quantity:
    """Return expected tokens of one verify pass: (1 − a^(γ+1))/(1 − a).

    Source: Leviathan et al. (arXiv:2211.17192) theorem 3.8: γ drafts, each accepted with
    probability a if the ones before it were, plus the model's own token.

    >>> round(float(tokens_per_step(0.71, 7)), 2)
    3.23
    """
    a = np.asarray(acceptance, dtype=np.float64)
    safe = np.where(a < 1.0, a, 0.0)
    return np.where(a < 1.0, (1.0 - safe ** (draft_tokens + 1)) / (1.0 - safe), draft_tokens + 1.0)


def tokens_per_step_by_position(acceptances: Sequence[float]) -> float:
    """Return expected tokens when acceptance falls by position: 1 + Σ_j Π_{i≤j} a_i.

    Source: the same chain of acceptances without assuming them equal.

    >>> tokens_per_step_by_position([0.8, 0.5])
    2.2
    """
    survives, total = 1.0, 1.0
    for acceptance in acceptances:
        survives *= acceptance
        total += survives
    return total


def speculative_tpot_s(
    verify_step_s: Quantity, draft_s: Quantity, expected_tokens: Quantity
) -> Quantity:
    """Return time per output token with speculation, in s: (τ(B(γ+1)) + γ·t_draft)/E[tokens].

    Source: Leviathan et al., with the verify step's own time instead of "one step".

    >>> speculative_tpot_s(0.030, 0.004, 1.7)
    0.02
    """
    return (verify_step_s + draft_s) / expected_tokens


def speculative_speedup(plain_step_s: Quantity, speculative_tpot: Quantity) -> Quantity:
    """Return how much faster tokens come: τ(B)/TPOT_spec; below 1 drafting loses.

    Source: ratio of the two times per token. It falls with batch size, as idle compute does.

    >>> speculative_speedup(0.025, 0.02)
    1.25
    """
    return plain_step_s / speculative_tpot
