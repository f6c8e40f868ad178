"""The memory account of one GPU of a replica."""

from __future__ import annotations

from dataclasses import dataclass

from planner.perf.kv_layout import KvLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Bytes of one GPU, as the engine divides them, and the KV cache that remains.

    kv_bytes = visible_bytes · gpu_memory_utilization − weights − activation − non_torch
               (− graphs where the engine counts them inside the budget).
    `kv_tokens` is the capacity of the whole replica in tokens of full-length context (blocks ×
    block_tokens, the fewest over ranks); `num_blocks` blocks of `block_tokens`. Where layers differ
    in what they keep, `layout` has the engine's own pool.
    """

    visible_bytes: float
    visible_known: bool  # False: a stated fraction of the marketing figure
    gpu_memory_utilization: float
    weights_bytes: float
    activation_bytes: float
    activation_source: str  # "forward pass at max_num_batched_tokens" or "sampler at max_num_seqs"
    non_torch_bytes: float
    graphs_bytes: float
    graphs_in_budget: bool
    kv_bytes: float  # negative: the model does not fit
    kv_bytes_per_token: float  # one rank, full-attention equivalent at max_model_len
    block_tokens: int
    num_blocks: int
    kv_tokens: int
    layout: KvLayout | None = None

    @property
    def fits(self) -> bool:
        """Whether at least one block is left for the KV cache."""
        return self.num_blocks > 0
