"""Findings about the engine's settings: the chunk, the KV cache, the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from planner.perf import theory
from planner.perf.ideal import TheoryInputs, theory_inputs
from planner.perf.memory import memory_budget
from planner.perf.step_cost import StepCost
from planner.solve.capacity import Judged
from planner.solve.case import Decision
from planner.solve.findings import finding
from planner.solve.plan import (
    ChunkAnalysis,
    Concurrency,
    Finding,
    LatencyRow,
    Surge,
)
from planner.solve.refuted import worth_testing
from planner.solve.remarks_preemption import preemption
from planner.solve.steady import steady
from planner.solve.steps import step
from planner.solve.windows import window_label

RESIDENT_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The computed parts of a plan that findings speak about."""

    decision: Decision
    binding: Judged
    latency: tuple[LatencyRow, ...]
    chunk: ChunkAnalysis
    surge: Surge
    concurrency: Concurrency


def crossing_seqs(inputs: TheoryInputs, context_tokens: float) -> float:
    """Return the sequences at which decode alone reaches the ridge point: w/(φ/R − S·k).

    From D·φ/(R·B) = (w + D·S·k)/B, the compute term of D tokens against the memory floor. Only
    below the context of `memory_bound_context_tokens`.
    """
    read = context_tokens * inputs.kv.bytes_per_token(context_tokens)
    return inputs.weight_bytes / (inputs.token_flops / inputs.ridge_flops_per_byte - read)


def chunk_remarks(parts: Parts) -> Iterator[Finding]:
    """Yield what the theory says about the budget."""
    chunk, decision = parts.chunk, parts.decision
    case, deployment = decision.case, decision.deployment
    inputs = theory_inputs(case.model, case.gpu(deployment.gpu), deployment)
    threshold = inputs.kv.memory_bound_context_tokens(
        inputs.token_flops, inputs.ridge_flops_per_byte
    )
    told = {
        "context_tokens": chunk.context_tokens,
        "threshold_tokens": threshold,
        "decode_seqs": chunk.decode_seqs,
    }
    if chunk.context_tokens > threshold:
        yield finding("decode_memory_bound", **told)
    else:
        held = decision.candidate.memory.kv_tokens / max(chunk.context_tokens, 1.0)
        most = min(float(deployment.max_num_seqs), held)
        crossing = crossing_seqs(inputs, chunk.context_tokens)
        yield finding("decode_not_memory_bound", **told, crossing_seqs=crossing, most_seqs=most)
    yield from _balance(parts, inputs)
    yield from _whether(parts)
    yield finding(
        "budget_counts_tokens",
        chosen_tokens=chunk.chosen_tokens,
        decode_seqs=chunk.decode_seqs,
        flag_tokens=chunk.chosen_flag_tokens,
    )
    if chunk.low_tokens and chunk.high_tokens and chunk.low_tokens > chunk.high_tokens:
        yield finding(
            "chunk_interval_empty", low_tokens=chunk.low_tokens, high_tokens=chunk.high_tokens
        )
    if chunk.low_tokens is not None and chunk.low_tokens < chunk.balance_chunk_tokens:
        yield finding(
            "best_measured_chunk_below_analytic",
            balance_tokens=chunk.balance_chunk_tokens,
            largest_graph_tokens=max(case.engine.cuda_graph_sizes, default=0),
        )
    low, high, half = worth_testing(chunk)
    yield finding(
        "load_test_decides",
        low_tokens=low,
        chosen_tokens=chunk.chosen_tokens,
        high_tokens=high,
        half_tokens=half,
    )


def _curve_s(chunk: ChunkAnalysis, tokens: float) -> float:
    """Return the step time of the chunk figure's point nearest to a chunk."""
    return min(chunk.curve, key=lambda point: abs(point.chunk_tokens - tokens)).step_s


def _balance(parts: Parts, inputs: TheoryInputs) -> Iterator[Finding]:
    """Yield where the chosen chunk lies beside C*, and C* at the theory's own context."""
    chunk, cost = parts.chunk, parts.decision.cost
    balance = chunk.balance_chunk_tokens
    if balance <= 0:
        yield finding("no_free_chunk", decode_seqs=chunk.decode_seqs, balance_tokens=balance)
    else:
        times = _curve_s(chunk, chunk.chosen_tokens), _curve_s(chunk, balance)
        below = chunk.chosen_tokens < balance
        yield finding(
            "below_balance_point" if below else "above_balance_point",
            chosen_tokens=chunk.chosen_tokens,
            balance_tokens=balance,
            step_ratio=times[0] / times[1],
        )
    at_2048 = theory.balance_chunk_tokens(
        inputs.token_flops,
        inputs.weight_bytes,
        inputs.kv.bytes_per_token(2048.0),
        chunk.decode_seqs,
        2048.0,
        chunk.ridge_flops_per_byte,
        cost.tokens_per_decode - 1,
    )
    yield finding(
        "context_used_vs_2048",
        context_tokens=chunk.context_tokens,
        balance_tokens=balance,
        balance_at_2048_tokens=float(at_2048),
    )


def _whether(parts: Parts) -> Iterator[Finding]:
    """Yield whether cutting prompts matters here, and why."""
    decision, chunk = parts.decision, parts.chunk
    traffic = decision.demand.traffic
    prompts = traffic.prompt_tokens[traffic.served]
    longest = float(prompts.max())
    one_step = float((prompts <= chunk.chosen_tokens).mean())
    if chunk.reason == "no_decodes_to_protect":
        stretch, mixes = parts.binding.stretch, decision.case.mixes
        state = steady(decision.cost, stretch, decision.at(), mixes=mixes)
        yield finding(
            "no_decodes_to_protect",
            decode_seqs=chunk.decode_seqs,
            mixed_share=float(state.mixed_share.mean()),
        )
    elif chunk.reason == "chunking_does_not_matter":
        yield finding(
            "chunking_does_not_matter",
            one_step_share=one_step,
            chosen_tokens=chunk.chosen_tokens,
            longest_prompt_tokens=longest,
        )
    else:
        most = round(longest + chunk.decode_seqs) + 1
        budget = max(most, decision.deployment.max_num_batched_tokens)
        wide, mixes = decision.case.cost(decision.with_budget(budget)), decision.case.mixes
        yield finding(
            "chunking_matters",
            one_step_share=one_step,
            unchunked_gap_s=longest_gap_s(wide, chunk, longest, longest, mixes=mixes),
            chosen_gap_s=longest_gap_s(
                wide, chunk, longest, float(chunk.chosen_tokens), mixes=mixes
            ),
            longest_prompt_tokens=longest,
        )


def longest_gap_s(
    cost: StepCost, chunk: ChunkAnalysis, prompt_tokens: float, chunk_tokens: float, *, mixes: bool
) -> float:
    """Return the longest step that one prompt makes, cut into chunks, beside the plan's decodes.

    A chunk of c tokens after p tokens of the same prompt attends to p + c/2 on average and reads
    back p; the longest step is not always the first, because later chunks look further back.
    """
    past = np.arange(0.0, prompt_tokens, max(1.0, chunk_tokens))
    sizes = np.minimum(prompt_tokens - past, chunk_tokens)
    seqs, context = chunk.decode_seqs, chunk.context_tokens
    attended = past + sizes / 2.0
    if mixes:
        gaps = step(cost, seqs, context, sizes, attended).gap_s
    else:  # a prefill step runs alone and the decodes wait for it
        gaps = step(cost, seqs, context).gap_s + step(cost, 0.0, 0.0, sizes, attended).gap_s
    return float(np.max(gaps + cost.prefix_s * past))


def memory_remarks(parts: Parts) -> Iterator[Finding]:
    """Yield what bounds concurrency and how far preemption is."""
    kv, deployment = parts.concurrency, parts.decision.deployment
    yield from _concurrency(parts)
    yield preemption(kv, parts.decision.factor / parts.decision.load)
    yield finding(
        "utilization_fixes_slots",
        gpu_memory_utilization=deployment.gpu_memory_utilization,
        kv_tokens=kv.memory.kv_tokens,
        resident_at_mean=kv.resident_at_mean,
        max_num_seqs=deployment.max_num_seqs,
    )
    yield from _activation(parts)
    yield from _length(parts)


def _concurrency(parts: Parts) -> Iterator[Finding]:
    """Yield whether KV memory or the slots bound the sequences that run at once."""
    decision, kv = parts.decision, parts.concurrency
    seqs = decision.deployment.max_num_seqs
    state = steady(decision.cost, parts.binding.stretch, decision.at(), mixes=decision.case.mixes)
    wanted = float(state.wanted.max())
    origin = decision.case.requests.origin
    stretch = parts.binding.stretch
    where: dict[str, float | str] = {
        "window": window_label(stretch.start_s, stretch.end_s, origin),
        "block_s": stretch.block_s,
    }
    if kv.resident_at_mean < seqs:
        yield finding(
            "kv_caps_concurrency",
            resident_seqs=kv.resident_at_mean,
            wanted_seqs=wanted,
            max_num_seqs=seqs,
            **where,
        )
    elif wanted > RESIDENT_SHARE * seqs:
        yield finding("slots_cap_concurrency", max_num_seqs=seqs, wanted_seqs=wanted, **where)


def _activation(parts: Parts) -> Iterator[Finding]:
    """Yield which setting decides the activation memory, and what half of it would give back."""
    case, deployment, memory = (
        parts.decision.case,
        parts.decision.deployment,
        parts.concurrency.memory,
    )
    gpu = case.gpu(deployment.gpu)
    if memory.activation_source.startswith("forward"):
        half = replace(deployment, max_num_batched_tokens=deployment.max_num_batched_tokens // 2)
        yield finding(
            "budget_is_memory_knob",
            activation_bytes=memory.activation_bytes,
            kv_tokens=memory.kv_tokens,
            kv_tokens_at_half_budget=memory_budget(case.model, gpu, case.engine, half).kv_tokens,
        )
    elif memory.activation_source.startswith("sampler"):
        half = replace(deployment, max_num_seqs=max(1, deployment.max_num_seqs // 2))
        then = memory_budget(case.model, gpu, case.engine, half)
        yield finding(
            "sampler_sets_activation",
            activation_bytes=memory.activation_bytes,
            max_num_seqs=deployment.max_num_seqs,
            kv_tokens=memory.kv_tokens,
            kv_tokens_at_half_seqs=then.kv_tokens,
            source_at_half_seqs=then.activation_source,
        )
    if not memory.visible_known:
        yield finding("visible_memory_unknown", visible_bytes=memory.visible_bytes)


def _length(parts: Parts) -> Iterator[Finding]:
    """Yield what max_model_len cuts off."""
    case, deployment = parts.decision.case, parts.decision.deployment
    if deployment.max_model_len < case.model.max_model_len:
        yield finding(
            "max_model_len_trimmed",
            model_max_tokens=case.model.max_model_len,
            max_model_len=deployment.max_model_len,
        )
    rejected = int((~parts.decision.demand.traffic.served).sum())
    if rejected:
        yield finding(
            "long_prompts_over_limit",
            requests=rejected,
            max_model_len=deployment.max_model_len,
            longest_tokens=case.longest_tokens,
        )
