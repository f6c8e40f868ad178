"""KV bytes a decode really reads: full-attention layers all of its context, windows their last."""

from __future__ import annotations

from dataclasses import dataclass

from planner.perf import theory
from planner.perf.formats import KV_BYTES
from planner.perf.layers import index_bytes_per_token, kv_elements_per_token, kv_groups
from planner.spec.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class KvReads:
    """Cached bytes of one token over a replica, every copy counted, by what layers read of it.

    Sparse attention counts as a window as long as the tokens it picks; its indexer reads all.
    """

    full_bytes_per_token: float
    window_bytes_per_token: float
    window_tokens: int  # 0: no layer has a window

    @property
    def held_bytes_per_token(self) -> float:
        """Bytes of one token in all layers, as if none forgot it."""
        return self.full_bytes_per_token + self.window_bytes_per_token

    def bytes_per_token(self, context_tokens: float) -> float:
        """Return k: bytes read by a decode for one token of a context of S tokens."""
        if not self.window_tokens or context_tokens <= 0:
            return self.held_bytes_per_token
        return float(
            theory.kv_bytes_read_per_token(
                self.full_bytes_per_token,
                self.window_bytes_per_token,
                context_tokens,
                self.window_tokens,
            )
        )

    def memory_bound_context_tokens(self, token_flops: float, ridge: float) -> float:
        """Return the context above which decode is memory bound at any batch size."""
        if not self.window_tokens:
            held = self.held_bytes_per_token
            return float(theory.memory_bound_context_tokens(token_flops, held, ridge))
        return theory.windowed_memory_bound_context_tokens(
            token_flops,
            self.full_bytes_per_token,
            self.window_bytes_per_token,
            self.window_tokens,
            ridge,
        )


def kv_reads(model: Model, kv_cache_dtype: str, tensor_parallel_size: int) -> KvReads:
    """Return what a decode reads of the KV cache; all GPUs of the replica together.

    Examples
    --------
    Gemma 3 27B: 10 layers see everything, 52 a window of 1,024.

    >>> from planner.spec.catalog import model
    >>> kv_reads(model("google/gemma-3-27b-it"), "bf16", 1)
    KvReads(full_bytes_per_token=81920.0, window_bytes_per_token=425984.0, window_tokens=1024)
    """
    groups = kv_groups(model)
    each = kv_bytes_per_group(model, kv_cache_dtype, tensor_parallel_size)
    copies = tensor_parallel_size
    sizes = list(zip(groups, each, strict=True))
    return KvReads(
        full_bytes_per_token=copies * sum(size for g, size in sizes if not g.window_tokens),
        window_bytes_per_token=copies * sum(size for g, size in sizes if g.window_tokens),
        window_tokens=max(group.window_tokens for group in groups),
    )


def kv_bytes_per_group(
    model: Model, kv_cache_dtype: str, tensor_parallel_size: int
) -> tuple[float, ...]:
    """Return KV bytes of one token by layer group on one rank, over all pipeline stages."""
    each = kv_elements_per_token(model, tensor_parallel_size) * KV_BYTES[kv_cache_dtype]
    index = index_bytes_per_token(model)
    return tuple(group.layers * (index if group.index else each) for group in kv_groups(model))
