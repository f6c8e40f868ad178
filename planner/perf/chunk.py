"""Which chunk a latency limit allows, read off a deployment's own step times."""

from __future__ import annotations

import numpy as np

from planner.perf.step_cost import StepCost, mixed_step_s


def largest_chunk_within(
    cost: StepCost,
    limit_s: float,
    decode_seqs: float,
    context_tokens: float,
    past_tokens: float = 0.0,
) -> int | None:
    """Return the most prefill tokens beside D decodes whose step stays within τ_max.

    None when the decodes alone exceed it. Bisection over whole tokens: a step never gets shorter
    with more of them. The calibrated counterpart of `theory.largest_chunk_tokens`.
    """
    room = int(cost.max_num_batched_tokens - np.ceil(decode_seqs) * cost.tokens_per_decode)
    if room < 0:
        return None

    def step(chunk: int) -> float:
        return float(
            mixed_step_s(
                cost,
                decode_seqs=decode_seqs,
                context_tokens=context_tokens,
                chunk_tokens=chunk,
                past_tokens=past_tokens,
                finishing=1 if chunk else 0,
            )
        )

    if step(0) > limit_s:
        return None
    low, high = 0, room
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if step(middle) <= limit_s else (low, middle - 1)
    return low


def smallest_chunk_within(
    cost: StepCost,
    limit_s: float,
    prompt_tokens: int,
    decode_seqs: float,
    context_tokens: float,
) -> int | None:
    """Return the fewest prefill tokens a step that still give TTFT = ⌈T/C⌉·τ ≤ limit.

    Evaluated at every number of steps a prompt can take: with the same number of steps the least
    chunk is the shortest. None when no chunk does. Queueing is not included.
    """
    room = int(cost.max_num_batched_tokens - np.ceil(decode_seqs) * cost.tokens_per_decode)
    if room < 1:
        return None
    most = min(prompt_tokens, 4096)
    steps = np.arange(most, 0, -1)
    chunks = np.ceil(prompt_tokens / steps).astype(np.int64)
    allowed = chunks <= room
    steps, chunks = steps[allowed], chunks[allowed]
    if not len(steps):
        return None
    times = mixed_step_s(
        cost,
        decode_seqs=decode_seqs,
        context_tokens=context_tokens,
        chunk_tokens=chunks,
        past_tokens=np.maximum((prompt_tokens - chunks) / 2.0, 0.0),
        finishing=1,
    )
    within = np.flatnonzero(steps * times <= limit_s)
    return int(chunks[within[0]]) if len(within) else None
