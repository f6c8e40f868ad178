"""KV capacity against what the traffic holds: residents, distance to preemption, its cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.preemption import overflow_probability, recompute_s
from planner.solve.case import Decision
from planner.solve.overfull import first_preemption
from planner.solve.plan import Concurrency
from planner.solve.steady import State, lanes, steady
from planner.solve.stretch import BLOCK_S, LEAD_S, Stretch
from planner.solve.traffic import Traffic
from planner.solve.windows import window_label

Floats = NDArray[np.float64]

AGES = (np.arange(20) + 0.5) / 20  # shares of an answer at which a running request is met
LOADS = np.geomspace(1.0, 16.0, 33)  # multiples of the plan's load searched for the KV limit
UNLIMITED_SEQS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """KV tokens of a running request: length-biased over the trace, uniform over its life."""

    mean: float
    root_mean_square: float
    p95: float


def held_tokens(traffic: Traffic) -> Held:
    """Return the distribution of what one running request holds, p + u·o with u uniform in [0, 1].

    Weighted by o, because a request is met in proportion to how long it decodes. The mean is
    E[p·o]/E[o] + E[o²]/(2E[o]).
    """
    served = traffic.served
    prompt, output = traffic.input_tokens[served], traffic.output_tokens[served]
    if len(prompt) > 50_000:  # evenly spaced requests stand for the trace
        pick = np.linspace(0, len(prompt) - 1, 50_000).astype(np.int64)
        prompt, output = prompt[pick], output[pick]
    held = prompt[:, None] + output[:, None] * AGES
    weight = np.repeat(output / output.sum() / len(AGES), len(AGES))
    flat = held.ravel()
    order = np.argsort(flat)
    total = np.cumsum(weight[order])
    return Held(
        mean=float(flat @ weight),
        root_mean_square=float(np.sqrt(flat**2 @ weight)),
        p95=float(flat[order][min(len(flat) - 1, int(np.searchsorted(total, 0.95)))]),
    )


def concurrency(decision: Decision) -> Concurrency:
    """Return the KV account of the plan in the stretch where most is held."""
    held = held_tokens(decision.demand.traffic)
    capacity = float(decision.candidate.memory.kv_tokens)
    stretch, state = _fullest(decision)
    after = _after_lead(stretch)
    used = (state.decodes * state.context)[0, after]
    overflow = overflow_probability(
        np.maximum(state.decodes[0, after], 1e-9),
        np.maximum(state.context[0, after], 1.0),
        held.root_mean_square,  # Poisson number of requests: compound variance N·E[h²]
        capacity,
    )
    supply = float(state.budget_supply[0, after].mean())
    return Concurrency(
        memory=decision.candidate.memory,
        mean_context_tokens=held.mean,
        p95_context_tokens=held.p95,
        resident_at_mean=capacity / held.mean,
        resident_at_p95=capacity / held.p95,
        window=window_label(stretch.start_s, stretch.end_s, decision.case.requests.origin),
        held_tokens_worst=float(used.mean()),
        kv_use_worst=float(used.mean()) / capacity,
        preemption_probability=float(np.mean(overflow)),
        preemption_load_factor=load_to_capacity(decision, stretch, capacity),
        preemption_cost_s=float(recompute_s(held.mean, supply)),
        first_preemption=first_preemption(decision),
    )


def _fullest(decision: Decision) -> tuple[Stretch, State]:
    """Return the judged stretch in which most KV is held, with its state at the plan's load."""
    best: tuple[float, Stretch, State] | None = None
    for part in decision.judged:
        state = steady(decision.cost, part.stretch, decision.at(), mixes=decision.case.mixes)
        held = float((state.decodes * state.context)[0, _after_lead(part.stretch)].mean())
        if best is None or held > best[0]:
            best = (held, part.stretch, state)
    assert best is not None
    return best[1], best[2]


def _after_lead(stretch: Stretch) -> NDArray[np.int64]:
    """Return the blocks of the stretch itself."""
    lead = int(min(stretch.start_s, LEAD_S) // BLOCK_S)
    blocks = stretch.residents.shape[1]
    return np.arange(min(lead, blocks - 1), blocks)


def load_to_capacity(decision: Decision, stretch: Stretch, capacity: float) -> float:
    """Return the multiple of the plan's load at which the mean of what is wanted fills the cache.

    With slots unlimited, so that it is the KV cache's distance and not max_num_seqs'. The largest
    multiple searched where even that does not fill it.
    """
    deployment = decision.deployment
    most = float(len(decision.cost.row_s) - 1)
    at = lanes(
        decision.load * LOADS,
        np.float64(deployment.max_num_batched_tokens),
        np.float64(most),
        np.float64(capacity),
    )
    state = steady(decision.cost, stretch, at, mixes=decision.case.mixes)
    after = _after_lead(stretch)
    use = (state.wanted * state.context)[:, after].mean(axis=1) / capacity
    above = np.flatnonzero(use >= 1.0)
    if not len(above):
        return float(LOADS[-1])
    first = int(above[0])
    if first == 0:
        return float(min(1.0, 1.0 / max(use[0], 1e-9)))
    low, high = use[first - 1], use[first]
    weight = (1.0 - low) / max(high - low, 1e-9)
    return float(LOADS[first - 1] * (LOADS[first] / LOADS[first - 1]) ** weight)
