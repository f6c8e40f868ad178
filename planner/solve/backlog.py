"""The prompt queue of a replica through time: surges and chance in one equation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.perf.quantity import Quantity
from planner.solve.kernel.work import unfinished_work

Floats = NDArray[np.float64]

RESOLVED_BINS = 2.0  # a burst is visible in the bins once it lasts about two of them


def queue_scale_tokens(
    prompt_mean: Quantity, prompt_square_mean: Quantity, burst: Quantity
) -> Quantity:
    """Return e = I·E[p²]/(2E[p]) tokens: what randomness alone makes of a queue.

    In an M/G/1 queue of prompts served at s tokens/s, the mean unfinished work is ρ·e/(1 − ρ)
    (Pollaczek–Khinchine with work in tokens; I = 1). I is the variance of arriving tokens over a
    Poisson stream's, which gives the heavy-traffic mean of a G/G/1 queue.

    >>> queue_scale_tokens(1000.0, 1.5e6, 1.0)
    750.0
    """
    return burst * prompt_square_mean / (2.0 * prompt_mean)


def burst_factor(dispersion: float, factor: Quantity) -> Quantity:
    """Return the dispersion that one replica sees: I_f = 1 + f·(I − 1).

    Random splitting thins the excess over Poisson; the same law holds when the trace is itself a
    sample of the service, because a replica at load factor f is a share f of the trace either way.

    >>> burst_factor(3.0, 0.25)
    1.5
    """
    return 1.0 + factor * (dispersion - 1.0)


def unresolved_share(
    scale: Quantity, demand: Quantity, supply: Quantity, fleet_share: Quantity, bin_s: float
) -> Quantity:
    """Return the share of e that the bins do not already show.

    A replica that is the whole fleet gets its bursts from the bins; only what happens inside a bin
    is chance. A queue whose relaxation time σ²/(s − a)² (σ² = 2·e·a) is longer than
    RESOLVED_BINS bins owes the rest to bursts that the bins show. A replica that gets a random
    share φ of the fleet's requests adds chance at every time scale, 1 − φ of a Poisson stream's.

    >>> round(float(unresolved_share(750.0, 1.0, 1e4, 1.0, 2.0)), 2)
    1.0
    >>> round(float(unresolved_share(750.0, 1e4, 1e4, 0.25, 2.0)), 2)
    0.75
    """
    slack = np.maximum(supply - demand, 1e-6 * supply)
    relaxation = 2.0 * scale * demand / slack**2
    inside = 1.0 / (1.0 + relaxation / (RESOLVED_BINS * bin_s))
    split = np.maximum(0.0, 1.0 - fleet_share)
    return np.maximum(split + (1.0 - split) * inside, 1e-3)


def backlog(arriving: Floats, supply: Floats, scale: Floats, bin_s: float) -> tuple[Floats, Floats]:
    """Return mean unfinished prompt work V and its deterministic part Q, tokens, per lane and bin.

    V follows dV/dt = a − s·V/(V + e), the pointwise-stationary fluid-flow equation (Wang, Tipper
    and Banerjee 1996): at constant load its rest point is ρ·e/(1 − ρ), in overload it grows as the
    fluid does, and it remembers a surge until it is worked off. Solved by the implicit Euler step,
    a quadratic. Q is the fluid queue alone: Q ← max(0, Q + (a − s)·Δ).

    Parameters
    ----------
    arriving, supply
        Prompt tokens/s, arrays (lane, bin).
    scale
        e in tokens, array (lane, bin).
    bin_s
        Δ.

    >>> a, s = np.full((1, 400), 800.0), np.full((1, 400), 1000.0)
    >>> v, q = backlog(a, s, np.full((1, 400), 750.0), 2.0)
    >>> round(float(v[0, -1])), float(q[0, -1])
    (3000, 0.0)
    """
    a, s, e = (np.ascontiguousarray(rates) for rates in (arriving, supply, scale))
    work, fluid = np.empty(a.shape), np.empty(a.shape)
    unfinished_work(a, s, e, bin_s, work, fluid)
    return work, fluid


def waiting_tail(work: Quantity, fluid: Quantity, scale: Quantity, tokens: Quantity) -> Quantity:
    """Return P(unfinished work > `tokens`): an atom at zero, then an exponential beyond the fluid.

    ρ = V/(V + e) is the chance to find work at all; the rest above Q is exponential with the mean
    that makes the total V: P = ρ·exp(−max(0, y − Q)/(V + e − Q)). At rest this is the usual
    ρ·exp(−y(1 − ρ)/e) of an M/G/1 queue; negative `tokens` give 1.

    >>> round(float(waiting_tail(3000.0, 0.0, 750.0, 3750.0)), 4)
    0.2943
    """
    busy = work / (work + scale)
    beyond = np.maximum(tokens - fluid, 0.0) / np.maximum(work + scale - fluid, 1e-9)
    return np.where(np.asarray(tokens) < 0.0, 1.0, busy * np.exp(-beyond))
