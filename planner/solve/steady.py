"""The state a replica settles into in each minute: decodes, step times, prompt supply.

A fixed point of three statements. Little's law: D = (tokens generated per s) · (s per token), taken
from the trace itself (`Stretch.residents`), so lengths, their correlation and their timing are
exact. Step time: τ(D, D·S, chunk) from the StepCost. Mixing: the share q of steps that carry
prefill and the tokens c in such a step, from the prompt rate a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.solve.kernel.settle import Physics, Settled, Traffic, settle
from planner.solve.stretch import SPEEDS_S, Stretch

Floats = NDArray[np.float64]

ITERATIONS = 60
TOLERANCE = 1e-4
DAMPING = 0.7  # of each correction; the slots' feedback would oscillate without


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
    demand = at.factor * stretch.block_tokens
    shape = (len(at), len(stretch.block_tokens))
    past = mean_past(stretch)
    found = Settled(*(np.empty(shape) for _ in Settled._fields))
    settle(
        _physics(cost),
        _offered(stretch, at, past, mixes=mixes),
        ITERATIONS,
        TOLERANCE,
        DAMPING,
        np.empty(shape[1] + 1),
        found,
    )
    limited = found.slots < 1.0
    return State(
        **{name: getattr(found, name) for name in Settled._fields if name != "slots"},
        demand=demand,
        slot_supply=np.where(limited, demand * found.slots, np.inf),
        past=past,
    )


def _physics(cost: StepCost) -> Physics:
    """Return the cost's fields as the kernel reads them, of one type each: it compiles once."""
    whole: dict[str, type] = {"tokens_per_decode": int, "stages": int, "async_scheduling": bool}

    def of(name: str) -> Any:  # noqa: ANN401 - an array or a number
        value = getattr(cost, name)
        return value if isinstance(value, np.ndarray) else whole.get(name, float)(value)

    return Physics(**{name: of(name) for name in Physics._fields})


def _offered(stretch: Stretch, at: Lanes, past: float, *, mixes: bool) -> Traffic:
    """Return the demand and the lanes as the kernel reads them."""
    return Traffic(
        residents=stretch.residents / SPEEDS_S[:, None],
        held=stretch.held / SPEEDS_S[:, None],
        log_speeds=np.log(SPEEDS_S),
        block_tokens=stretch.block_tokens,
        block_s=stretch.block_s,
        life_tokens=remaining_tokens(stretch.sample.output_tokens),
        past_tokens=past,
        mixes=mixes,
        factor=at.factor[:, 0].copy(),
        max_num_batched_tokens=at.max_num_batched_tokens[:, 0].copy(),
        max_num_seqs=at.max_num_seqs[:, 0].copy(),
        kv_tokens=at.kv_tokens[:, 0].copy(),
        lone_chunk=lone_chunks(stretch, at.max_num_batched_tokens)[:, 0].copy(),
    )


def remaining_tokens(outputs: Floats) -> float:
    """Return the mean tokens a running sequence has yet to generate: E[o²]/(2E[o]).

    It is also the mean it has generated. Length-biased: long answers are met more often.

    >>> remaining_tokens(np.array([100.0, 100.0]))
    50.0
    """
    return max(1.0, float((outputs**2).sum() / (2.0 * outputs.sum()))) if len(outputs) else 1.0
