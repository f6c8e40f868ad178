"""Why this token budget: C*, the interval that both kinds of target allow, the curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.perf import theory
from planner.perf.ideal import TheoryInputs, theory_inputs
from planner.perf.step_cost import StepCost
from planner.solve.candidates import BUDGETS, default_deployment, sized
from planner.solve.capacity import Judged
from planner.solve.case import Decision
from planner.solve.estimate import estimate
from planner.solve.fleet import fleet_load
from planner.solve.plan import ChunkAnalysis, ChunkPoint
from planner.solve.search import configs_of
from planner.solve.steady import State, lanes, steady
from planner.solve.steps import step
from planner.solve.stretch import BLOCK_S, LEAD_S
from planner.spec.slo import Target

Floats = NDArray[np.float64]

FIRST_TOKEN = ("ttft_s",)
NEXT_TOKEN = ("tpot_s", "itl_s")
INTERVAL_BUDGETS = 33  # budgets tried for the interval, evenly spaced in logarithm
CURVE_POINTS = 28
FEW_DECODES = 1.0


def chunk_analysis(decision: Decision, binding: Judged, prompt_tokens: float) -> ChunkAnalysis:
    """Return the analysis of the budget at the plan's load in the binding stretch.

    Parameters
    ----------
    decision
        The plan.
    binding
        The stretch whose decodes and context are used.
    prompt_tokens
        Mean prompt of the binding class, for the curve's TTFT.
    """
    case, deployment = decision.case, decision.deployment
    gpu = case.gpu(deployment.gpu)
    inputs = theory_inputs(case.model, gpu, deployment)
    state = steady(decision.cost, binding.stretch, decision.at(), mixes=case.mixes)
    seqs, context = decodes_and_context(state, binding)
    per = decision.cost.tokens_per_decode
    read = inputs.kv.bytes_per_token(context)
    balance = float(
        theory.balance_chunk_tokens(
            inputs.token_flops,
            inputs.weight_bytes,
            read,
            seqs,
            context,
            inputs.ridge_flops_per_byte,
            per - 1,
        )
    )
    floor = theory.memory_floor_s(
        inputs.weight_bytes, seqs, context, read, inputs.bandwidth_bytes_per_s
    )
    weights = inputs.weight_bytes / inputs.bandwidth_bytes_per_s
    low, low_from, high, high_from = interval(decision, binding)
    chosen = max(0, round(deployment.max_num_batched_tokens - seqs * per))
    default = default_deployment(case.model, gpu, case.engine, deployment)
    reserve = seqs * per
    matters, reason = whether_it_matters(binding, state)
    low_chunk = None if low is None else max(1, round(low - reserve))
    high_chunk = None if high is None else max(1, round(high - reserve))
    chunks = _points(
        balance, chosen, default.max_num_batched_tokens - reserve, low_chunk, high_chunk
    )
    return ChunkAnalysis(
        decode_seqs=seqs,
        context_tokens=context,
        ridge_flops_per_byte=inputs.ridge_flops_per_byte,
        balance_chunk_tokens=balance,
        balance_flag_tokens=balance + reserve,
        memory_floor_s=float(floor),
        floor_weights_s=weights,
        floor_kv_s=float(floor) - weights,
        token_flops=inputs.token_flops,
        weight_bytes=inputs.weight_bytes,
        kv_read_bytes_per_token=read,
        low_tokens=low_chunk,
        high_tokens=high_chunk,
        low_from=low_from,
        high_from=high_from,
        chosen_tokens=chosen,
        chosen_flag_tokens=deployment.max_num_batched_tokens,
        default_flag_tokens=default.max_num_batched_tokens,
        matters=matters,
        reason=reason,
        prompt_tokens=prompt_tokens,
        curve=_curve(decision, inputs, seqs, context, state.past, prompt_tokens, chunks),
        missed_below_flag_tokens=None,
        missed_above_flag_tokens=None,
    )


def decodes_and_context(state: State, judged: Judged) -> tuple[float, float]:
    """Return D and S of a stretch: means over its blocks, S weighted by the sequences."""
    lead = int(min(judged.stretch.start_s, LEAD_S) // BLOCK_S)
    decodes, context = state.decodes[0, lead:], state.context[0, lead:]
    total = float(decodes.sum())
    return float(decodes.mean()), float((decodes * context).sum() / max(total, 1e-12))


def _points(*wanted: float | None) -> list[int]:
    """Return chunk sizes for the curve: evenly spaced in logarithm, and those spoken of."""
    grid = np.geomspace(32, BUDGETS[-1], CURVE_POINTS).round().astype(int).tolist()
    extra = [round(w) for w in wanted if w is not None and w >= 1]
    return sorted({int(x) for x in (*grid, *extra)})


def _curve(
    decision: Decision,
    inputs: TheoryInputs,
    seqs: float,
    context: float,
    past: float,
    prompt_tokens: float,
    chunks: Sequence[int],
) -> tuple[ChunkPoint, ...]:
    """Return calibrated step, theory's two terms and the TTFT they give a mean prompt."""
    case = decision.case
    most = max(chunks) + round(seqs) + 1
    cost = case.cost(decision.with_budget(max(most, decision.deployment.max_num_batched_tokens)))
    sizes = np.asarray(chunks, dtype=np.float64)
    times = _step_with(cost, seqs, context, sizes, past, case.mixes)
    draft = cost.tokens_per_decode - 1
    compute = theory.compute_s(inputs.token_flops, sizes, seqs, inputs.flops_per_s, draft)
    floor = float(
        theory.memory_floor_s(
            inputs.weight_bytes,
            seqs,
            context,
            inputs.kv.bytes_per_token(context),
            inputs.bandwidth_bytes_per_s,
        )
    )
    rest = np.where(prompt_tokens % sizes > 0.0, prompt_tokens % sizes, sizes)
    last = _step_with(cost, seqs, context, rest, past, case.mixes)
    return tuple(
        ChunkPoint(
            chunk_tokens=int(size),
            step_s=float(time),
            compute_s=float(flops),
            floor_s=floor,
            ttft_s=float(theory.ttft_s(prompt_tokens, size, time) - time + ending),
        )
        for size, time, flops, ending in zip(sizes, times, np.asarray(compute), last, strict=True)
    )


def _step_with(
    cost: StepCost, seqs: float, context: float, chunk: Floats, past: float, mixes: bool
) -> Floats:
    """Return the gap that a step with this chunk puts between a decode's tokens."""
    if mixes:
        return step(cost, seqs, context, chunk, past).gap_s
    return step(cost, seqs, context).gap_s + step(cost, 0.0, 0.0, chunk, past).gap_s


def interval(decision: Decision, judged: Judged) -> tuple[int | None, str, int | None, str]:
    """Return the budgets (flags) that TTFT and TPOT/ITL targets allow, and what sets each end.

    Evaluated like the map of budgets and slots, queueing included, at the load that each replica
    must carry with headroom: the smallest budget with every TTFT target met, the largest with every
    TPOT and ITL target met. None: no budget does.
    """
    budgets = np.unique(np.geomspace(64, BUDGETS[-1], INTERVAL_BUDGETS).round()).astype(int)
    budgets = budgets[budgets >= min(decision.deployment.max_num_seqs, 256)]
    case, gpu = decision.case, decision.case.gpu(decision.deployment.gpu)
    members = [sized(case.model, gpu, case.engine, decision.with_budget(int(b))) for b in budgets]
    fitting = [m for m in members if m.memory.fits]
    configs = configs_of(fitting)
    flags = [m.deployment.max_num_batched_tokens for m in fitting]
    cost = case.cost(decision.with_budget(max(flags)))
    at = lanes(
        np.full(len(configs), fleet_load(case.screen_needs) / decision.replicas),
        configs.max_num_batched_tokens,
        configs.max_num_seqs,
        configs.kv_tokens,
    )
    found = estimate(cost, judged.stretch, at, judged.checks, mixes=case.mixes)
    required = np.array([check.required for check in judged.checks])
    short = found.attainment < required - 1e-9
    names = [_name(decision, judged, i) for i in range(len(judged.checks))]
    first = [i for i, c in enumerate(judged.checks) if c.target.metric in FIRST_TOKEN]
    after = [i for i, c in enumerate(judged.checks) if c.target.metric in NEXT_TOKEN]
    low, low_from = _end(short[:, first], flags, [names[i] for i in first], smallest=True)
    high, high_from = _end(short[:, after], flags, [names[i] for i in after], smallest=False)
    return low, low_from, high, high_from


def _name(decision: Decision, judged: Judged, index: int) -> str:
    check = judged.checks[index]
    window = judged.stretch.windows[check.window]
    return target_name(decision.demand.traffic.class_names[window.class_id], check.target)


def target_name(class_name: str, target: Target) -> str:
    """Name a target as reports do.

    >>> target_name("chat", Target(metric="ttft_s", percentile=99.0, limit_s=2.0))
    'chat ttft_s p99 ≤ 2 s'
    """
    return f"{class_name} {target.metric} p{target.percentile:g} ≤ {target.limit_s:g} s"


def _end(
    short: NDArray[np.bool_], flags: Sequence[int], names: Sequence[str], *, smallest: bool
) -> tuple[int | None, str]:
    """Return one end of the interval and what sets it."""
    if not names:
        return (flags[0] if smallest else flags[-1]), "no such target"
    good = ~short.any(axis=1)
    order = np.flatnonzero(good)
    if not len(order):
        worst = int(short.sum(axis=0).argmax())
        return None, names[worst]
    end = int(order[0] if smallest else order[-1])
    beyond = end - 1 if smallest else end + 1
    if not 0 <= beyond < len(flags):
        return flags[end], "the smallest budget tried" if smallest else "the largest budget tried"
    return flags[end], names[int(np.argmax(short[beyond]))]


def whether_it_matters(judged: Judged, state: State) -> tuple[bool, str]:
    """Return whether cutting prompts changes anything for this traffic, and the finding's id.

    It protects decodes from long steps, so it needs decodes that run beside prefill; it changes
    nothing when prompts fit in one step anyway.
    """
    prompts = judged.stretch.mix_prompt
    cut = float((prompts > state.full_chunk[0].mean()).mean())
    decodes = float(state.decodes.mean())
    if decodes < FEW_DECODES:
        return False, "no_decodes_to_protect"
    return (True, "chunking_matters") if cut > 0.01 else (False, "chunking_does_not_matter")
