"""Bounds of the chunk that the plan's own comparisons refute: no report may propose those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.solve.plan import Alternative, BatchCell, ChunkAnalysis
from planner.spec.deployment import Deployment


def with_misses(
    chunk: ChunkAnalysis,
    chosen: Deployment,
    gpus: int,
    cells: Sequence[BatchCell],
    alternatives: Sequence[Alternative],
) -> ChunkAnalysis:
    """Return the analysis with the budgets next to the chosen one that do not hold at its count.

    Parameters
    ----------
    chunk
        The equations' bounds.
    chosen
        The plan's configuration.
    gpus
        GPUs of the plan's fleet.
    cells
        The map of budget and slots; what was replayed of it counts.
    alternatives
        The plan's neighbours; one that needs more GPUs misses at the plan's count.
    """
    misses = set(_missed(chosen, gpus, cells, alternatives))
    budget = chosen.max_num_batched_tokens
    return replace(
        chunk,
        missed_below_flag_tokens=max((flag for flag in misses if flag < budget), default=None),
        missed_above_flag_tokens=min((flag for flag in misses if flag > budget), default=None),
    )


def _missed(
    chosen: Deployment, gpus: int, cells: Sequence[BatchCell], alternatives: Sequence[Alternative]
) -> Iterable[int]:
    """Yield budgets that do not hold with the plan's slots and count; replay overrules."""
    asked = {
        cell.max_num_batched_tokens: cell.replay_holds
        for cell in cells
        if cell.max_num_seqs == chosen.max_num_seqs and cell.replay_holds is not None
    }
    yield from (flag for flag, holds in asked.items() if not holds)
    for other in alternatives:
        budget = other.deployment.max_num_batched_tokens
        same = replace(other.deployment, max_num_batched_tokens=chosen.max_num_batched_tokens)
        dearer = other.gpus is None or other.gpus > gpus
        if same == chosen and dearer and not asked.get(budget, False):
            yield budget


def low_refuted(chunk: ChunkAnalysis) -> bool:
    """Whether a budget between the smallest that the equations allow and the chosen one misses."""
    low, missed = chunk.low_tokens, chunk.missed_below_flag_tokens
    return low is not None and missed is not None and low + _reserve(chunk) <= missed


def high_refuted(chunk: ChunkAnalysis) -> bool:
    """Whether a budget between the chosen one and the largest that the equations allow misses."""
    high, missed = chunk.high_tokens, chunk.missed_above_flag_tokens
    return high is not None and missed is not None and high + _reserve(chunk) >= missed


def worth_testing(chunk: ChunkAnalysis) -> tuple[int, int, int]:
    """Return the smallest and largest chunk and half the chosen one; 0: refuted, or no bound."""
    half, missed = chunk.chosen_tokens // 2, chunk.missed_below_flag_tokens
    half_misses = missed is not None and half + _reserve(chunk) <= missed
    return (
        0 if low_refuted(chunk) else chunk.low_tokens or 0,
        0 if high_refuted(chunk) else chunk.high_tokens or 0,
        0 if half_misses else half,
    )


def _reserve(chunk: ChunkAnalysis) -> int:
    """Return the tokens of a budget that decodes take: D·(γ + 1)."""
    return chunk.chosen_flag_tokens - chunk.chosen_tokens
