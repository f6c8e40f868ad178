"""How the KV cache of a model with several kinds of layers is divided into blocks.

vLLM V1's hybrid KV cache manager puts layers of one kind into groups of equal size. Each group has
a block table for every request, and all tables take blocks from one pool: a block holds
`block_tokens` tokens of the layers of one group. What lies outside the window of a group's layers
is given back to the pool while the request runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.memory_equations import state_block_tokens, window_cap
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.model import Model

LIKE_SIZES = 1.5  # kinds of layers this close in number are padded to the larger
ALIGNED_STATES = 2  # with prefix caching: the state at the last block's end, and the running one


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTables:
    """Block tables of a request for groups of layers that attend the same window."""

    window_tokens: int
    tables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLayout:
    """The pool of blocks and what a request takes from it.

    The pool has `num_blocks` blocks of `block_tokens` tokens. A request has `full_tables` tables
    that keep everything, those of `windows`, and `state_blocks` blocks whatever its length (the
    state of recurrent layers). `in_flight_tokens` can be scheduled before the oldest are done.
    """

    num_blocks: int
    block_tokens: int = 16
    full_tables: int
    windows: tuple[WindowTables, ...]
    in_flight_tokens: int
    state_blocks: int = 0

    @property
    def tables(self) -> int:
        """Block tables of a request that grow with it."""
        return self.full_tables + sum(each.tables for each in self.windows)

    def peak_blocks(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the most blocks that requests of `tokens` tokens are counted with.

        F·⌈n/b⌉ + C + Σ_g K_g·min(⌈n/b⌉, cap_g), with cap_g = ⌈(w_g − 1 + in-flight)/b⌉ + 1.

        Parameters
        ----------
        tokens
            Tokens of each request that are cached.

        Examples
        --------
        gpt-oss: one group of full attention, one of windows of 128 tokens.

        >>> layout = KvLayout(num_blocks=1000, full_tables=1, in_flight_tokens=8192,
        ...     windows=(WindowTables(window_tokens=128, tables=1),))
        >>> layout.peak_blocks(np.array([100, 10_000])).tolist()
        [14, 1146]
        """
        whole = -(-tokens // self.block_tokens)
        total = self.full_tables * whole + self.state_blocks
        for each in self.windows:
            cap = window_cap(each.window_tokens, self.in_flight_tokens, self.block_tokens)
            total = total + each.tables * np.minimum(whole, cap)
        return np.asarray(total, np.int64)


def layers_in_group(kinds: list[int]) -> int:
    """Return layers of one KV cache group, given how many layers there are of each kind.

    The smallest kind's, unless the largest has less than 1.5 times as many: then the largest's.
    Source: vLLM V1, KV cache groups of uniform page size.

    >>> layers_in_group([10, 52]), layers_in_group([12, 12]), layers_in_group([13, 12])
    (10, 12, 13)
    """
    return max(kinds) if max(kinds) < LIKE_SIZES * min(kinds) else min(kinds)


def kv_layout(
    model: Model,
    engine: Engine,
    deployment: Deployment,
    kv_bytes: float,
    layer_bytes_per_token: float,
    state_bytes: float,
) -> KvLayout | None:
    """Return how vLLM's hybrid KV cache manager divides the KV cache of one rank.

    None where every layer keeps everything, for engines that are not vLLM, for chunked attention
    (Llama 4), whose blocks are given back chunk by chunk, and for pipelines.

    Parameters
    ----------
    model, engine, deployment
        What runs how.
    kv_bytes
        Memory of the pool.
    layer_bytes_per_token, state_bytes
        What a token takes in one layer of attention, and a sequence in one recurrent layer.
    """
    recurrent = model.linear_attention.layers if model.linear_attention else 0
    plain = not model.sliding_layers and not recurrent
    if plain or engine.policy != "vllm_v1" or model.architecture.startswith("Llama4"):
        return None
    if deployment.pipeline_parallel_size > 1 or kv_bytes <= 0.0:
        return None
    full = model.attention_layers - model.sliding_layers
    group = layers_in_group([n for n in (full, model.sliding_layers, recurrent) if n])
    tokens = deployment.block_size
    if recurrent:
        tokens = state_block_tokens(state_bytes, layer_bytes_per_token, tokens)
    windows: tuple[WindowTables, ...] = ()
    if model.sliding_layers:
        tables = math.ceil(model.sliding_layers / group)
        windows = (WindowTables(window_tokens=model.sliding_window, tables=tables),)
    states = ALIGNED_STATES if deployment.enable_prefix_caching else 1
    return KvLayout(
        num_blocks=int(kv_bytes // (tokens * layer_bytes_per_token * group)),
        block_tokens=tokens,
        full_tables=math.ceil(full / group),
        windows=windows,
        in_flight_tokens=deployment.max_num_batched_tokens * (1 + deployment.async_scheduling),
        state_blocks=states * math.ceil(recurrent / group),
    )
