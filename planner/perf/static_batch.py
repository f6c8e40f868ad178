"""A static batch: all requests at time 0, none follows, every output equally long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.perf.step_cost import StepCost, mixed_step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticBatch:
    """Latencies and throughput of one batch."""

    ttft_s: float
    tpot_s: float
    duration_s: float


def static_batch(
    cost: StepCost, batch: float, prompt_tokens: float, output_tokens: float
) -> StaticBatch:
    """Return times of a batch: all prompts first, then one token a sequence and step.

    TTFT is when the last prompt is done, as such benchmarks report it; the decode steps are taken
    at the mean context I + O/2, in which they are linear.
    """
    tokens = min(batch * prompt_tokens, float(cost.max_num_batched_tokens))
    steps = max(1.0, batch * prompt_tokens / tokens)
    prompts = max(1, round(tokens / prompt_tokens))
    # Whole prompts side by side: each attends its own tokens only.
    chunk = min(prompt_tokens, tokens)
    alone = float(mixed_step_s(cost, decode_seqs=0, context_tokens=0.0, chunk_tokens=int(chunk)))
    together = float(
        mixed_step_s(cost, decode_seqs=0, context_tokens=0.0, chunk_tokens=int(tokens))
    )
    pairs = float(sum(cost.pair_s)) * chunk * chunk / 2.0
    whole = float(sum(cost.pair_s)) * tokens * tokens / 2.0
    ttft = steps * max(alone, together - whole + prompts * pairs)
    sequences = min(batch, float(cost.max_num_seqs))
    step = float(
        mixed_step_s(
            cost, decode_seqs=sequences, context_tokens=prompt_tokens + output_tokens / 2.0
        )
    )
    waves = math.ceil(batch / sequences)
    return StaticBatch(
        ttft_s=ttft, tpot_s=step, duration_s=ttft + waves * max(output_tokens - 1.0, 0.0) * step
    )
