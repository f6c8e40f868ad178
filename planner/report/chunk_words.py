"""The chunk's equation and table, with this plan's numbers in them."""

from __future__ import annotations

import math

from planner.report import format as fmt
from planner.solve.plan import ChunkAnalysis, ChunkPoint, Plan
from planner.solve.refuted import high_refuted, low_refuted

EQUATION_TOLERANCE = 0.01  # an equation is printed only where it gives the plan's value


def class_prompt(plan: Plan) -> float:
    """Return the mean input of the class that T is of, over the whole trace."""
    binding = next((row.class_name for row in plan.latency if row.binds), None)
    found = next((each for each in plan.profile.classes if each.name == binding), None)
    return (found or plan.profile.total).input_tokens.mean


def chunk_rows(plan: Plan) -> list[tuple[str, ChunkPoint]]:
    """Return the curve's points nearest to the chunks the report speaks of, each once."""
    chunk = plan.chunk
    reserve = chunk.chosen_flag_tokens - chunk.chosen_tokens
    wanted = (
        ("chosen", chunk.chosen_tokens),
        ("C*", chunk.balance_chunk_tokens),
        (f"smallest{', refuted' if low_refuted(chunk) else ' allowed'}", chunk.low_tokens),
        (f"largest{', refuted' if high_refuted(chunk) else ' allowed'}", chunk.high_tokens),
        ("engine default", chunk.default_flag_tokens - reserve),
    )
    rows: dict[int, tuple[str, ChunkPoint]] = {}
    for label, tokens in wanted:
        point = None if tokens is None else _nearest(plan, tokens)
        if point is not None and point.chunk_tokens not in rows:
            near = tokens is not None and abs(point.chunk_tokens - tokens) >= 1
            rows[point.chunk_tokens] = (f"near {label}" if near else label, point)
    return [rows[tokens] for tokens in sorted(rows)]


def balance_equation(plan: Plan) -> str:
    """Return C* with its numbers, in the first form that gives the plan's value.

    R·(1 + D·S·k/(2P)) − D holds for dense 16-bit weights, where weight bytes are 2P and the ratio
    of KV to weight bytes is the ratio of their reading times. Elsewhere (fp8, int4, mixture of
    experts) w and φ are different numbers: R·(w + D·S·k)/φ − D.
    """
    chunk = plan.chunk
    value = chunk.balance_chunk_tokens
    decode_tokens = chunk.balance_flag_tokens - value
    answer = f"= {fmt.count(value)}"
    textbook = (
        chunk.ridge_flops_per_byte * (1 + chunk.floor_kv_s / chunk.floor_weights_s) - decode_tokens
        if chunk.floor_weights_s > 0
        else math.nan
    )
    if _agrees(textbook, value):
        return (
            "C* = R·(1 + D·S·k/(2P)) − D\n"
            f"   = {fmt.significant(chunk.ridge_flops_per_byte, 4)}"
            f"·(1 + {_ms(chunk.floor_kv_s)}/{_ms(chunk.floor_weights_s)})"
            f" − {fmt.significant(decode_tokens)} {answer}"
        )
    general = _general_balance(chunk, decode_tokens)
    return f"{general} {answer}" if general else f"C* {answer}"


def _general_balance(chunk: ChunkAnalysis, decode_tokens: float) -> str:
    """Return R·(w + D·S·k)/φ − D with its numbers in B and FLOP, "" where they are not known."""
    weights, flops, each = chunk.weight_bytes, chunk.token_flops, chunk.kv_read_bytes_per_token
    if not (weights and flops and each):
        return ""
    seqs, context = chunk.decode_seqs, chunk.context_tokens
    found = chunk.ridge_flops_per_byte * (weights + seqs * context * each) / flops - decode_tokens
    if not _agrees(found, chunk.balance_chunk_tokens):
        return ""
    reserve = "D" if math.isclose(decode_tokens, seqs, rel_tol=1e-3) else "D·(γ + 1)"
    return (
        f"C* = R·(w + D·S·k)/φ − {reserve}\n"
        f"   = {fmt.significant(chunk.ridge_flops_per_byte, 4)}"
        f"·({fmt.count(weights)} B + {fmt.significant(seqs, 4)}·{fmt.significant(context, 4)}"
        f"·{fmt.count(each)} B)/{fmt.count(flops)} FLOP − {fmt.significant(decode_tokens, 4)}"
    )


def _nearest(plan: Plan, tokens: float) -> ChunkPoint | None:
    points = [point for point in plan.chunk.curve if point.compute_s > 0]
    return min(points, key=lambda point: abs(point.chunk_tokens - tokens), default=None)


def _agrees(candidate: float, value: float) -> bool:
    return abs(candidate - value) <= EQUATION_TOLERANCE * max(1.0, abs(value))


def _ms(value: float) -> str:
    return f"{fmt.significant(value * 1e3, 4)} ms"
