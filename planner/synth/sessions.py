"""What a session asks: turns, prompts that grow with history, and the time between turns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.synth.recipe import ClassRecipe, LogNormal, Service, Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Requests of one class, session by session; arrays of equal length."""

    arrival_s: NDArray[np.float64]
    session: NDArray[np.int64]  # index of the session within its class
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]


def mean_turns(sessions: Sessions) -> float:
    """Mean of a geometric number of turns cut at m: (1 − (1 − p)^m)/p with p = 1/turns_mean.

    Examples
    --------
    >>> from planner.synth.recipe import LogNormal
    >>> think = LogNormal(median=1, sigma=0, minimum=0, maximum=1)
    >>> mean_turns(Sessions(turns_mean=2, turns_max=2, think_s=think, carries_history=True,
    ...                     logged=True))
    1.5
    """
    p = 1.0 / sessions.turns_mean
    return (1.0 - (1.0 - p) ** sessions.turns_max) / p


def draw(law: LogNormal, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn standard normal scores into clipped log-normal amounts: clip(median·exp(σz)).

    Examples
    --------
    >>> law = LogNormal(median=100, sigma=1, minimum=50, maximum=200)
    >>> draw(law, np.array([-9.0, 0.0, 9.0])).tolist()
    [50.0, 100.0, 200.0]
    """
    return np.clip(law.median * np.exp(law.sigma * z), law.minimum, law.maximum)


def correlated_scores(
    correlation: float, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two standard normal vectors with the given correlation (a Gaussian copula)."""
    first = rng.standard_normal(n)
    second = rng.standard_normal(n)
    return first, correlation * first + math.sqrt(1.0 - correlation * correlation) * second


def sum_before(values: NDArray[np.float64], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum of the earlier values of the same group; `first[i]` is where row i's group begins.

    Examples
    --------
    >>> sum_before(np.array([1.0, 2.0, 3.0, 5.0]), np.array([0, 0, 0, 3])).tolist()
    [0.0, 1.0, 3.0, 0.0]
    """
    before = np.concatenate([[0.0], np.cumsum(values)])
    sums: NDArray[np.float64] = before[:-1] - before[first]
    return sums


def play(
    recipe: ClassRecipe,
    service: Service,
    starts_s: NDArray[np.float64],
    rng: np.random.Generator,
) -> Turns:
    """Play every session to its end: lengths, history, answers and thinking."""
    sessions = recipe.sessions
    turns = np.minimum(rng.geometric(1.0 / sessions.turns_mean, len(starts_s)), sessions.turns_max)
    n = int(turns.sum())
    session = np.repeat(np.arange(len(starts_s)), turns)
    first = np.repeat(np.cumsum(turns) - turns, turns)
    added_scores, output_scores = correlated_scores(recipe.length_correlation, n, rng)
    added = np.rint(draw(recipe.turn_tokens, added_scores))
    output = np.maximum(np.rint(draw(recipe.output_tokens, output_scores)), 1.0)
    prompt = recipe.fixed_tokens + added
    if sessions.carries_history:
        prompt = prompt + sum_before(added + output, first)
    busy = service.ttft_s + service.tpot_s * output + draw(sessions.think_s, rng.standard_normal(n))
    return Turns(
        arrival_s=starts_s[session] + sum_before(busy, first),
        session=session.astype(np.int64),
        input_tokens=np.minimum(prompt, recipe.context_max_tokens).astype(np.int64),
        output_tokens=output.astype(np.int64),
    )
