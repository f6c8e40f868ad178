"""How the hybrid KV cache manager divides the pool: by hand, and against the memory account."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import perf_cases as cases
import pytest

from planner.perf.kv_layout import KvLayout, WindowTables, kv_layout, layers_in_group
from planner.perf.memory import memory_budget
from planner.spec import catalog
from planner.spec.model import LinearAttention


def budget(model, engine=cases.VLLM, **changes):
    return memory_budget(model, cases.H100, engine, cases.deployment(model, cases.H100, **changes))


def test_gemma_3_27b_by_hand():
    """10 layers of full attention make the group; 52 with a window fill 6, 8 layers padded.

    A block is 16 tokens of 10 layers with 16 KV heads of 128, keys and values at 2 bytes: 2.5 MiB.
    """
    got = budget(catalog.model("google/gemma-3-27b-it"), max_num_batched_tokens=2048)
    layout = got.layout
    assert layout.full_tables == 1
    assert layout.windows == (WindowTables(window_tokens=1024, tables=6),)
    assert layout.num_blocks == got.kv_bytes // (16 * 10 * 2 * 16 * 128 * 2)
    # A request of 8,192 tokens: 512 blocks, and in six tables at most those of 1,023 tokens and
    # all that is in flight, and one more.
    in_flight = 2048 * (1 + cases.deployment(cases.GEMMA_LIKE, cases.H100).async_scheduling)
    cap = -(-(1023 + in_flight) // 16) + 1
    assert layout.peak_blocks(np.array([8192])).tolist() == [512 + 6 * min(512, cap)]


def test_equal_kinds_share_one_size():
    layout = budget(catalog.model("openai/gpt-oss-20b"), weight_dtype="mxfp4").layout
    assert (layout.full_tables, layout.windows[0].tables) == (1, 1)  # 12 and 12 layers
    assert layers_in_group([12, 13]) == 13  # a draft layer more: both are padded to 13
    assert layers_in_group([10, 15]) == 10  # half as many again: one of 10, and two of 10


def test_recurrent_layers_make_blocks_as_large_as_their_state():
    linear = LinearAttention(
        layers=24, key_heads=16, key_head_dim=128, value_heads=32, value_head_dim=128
    )
    model = replace(cases.LLAMA_8B, linear_attention=linear)
    layout = budget(model, max_model_len=4096, enable_prefix_caching=False).layout
    state = 32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2
    # 8 layers of attention, 4,096 B a token each: blocks hold 528 tokens, three more the states.
    assert layout.block_tokens == 16 * -(-state // (16 * 4096)) == 528
    assert (layout.full_tables, layout.windows, layout.state_blocks) == (1, (), 3)
    assert layout.peak_blocks(np.array([1, 528, 529])).tolist() == [4, 4, 5]
    cached = budget(model, max_model_len=4096, enable_prefix_caching=True).layout
    assert cached.state_blocks == 6


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (cases.LLAMA_8B, {}),  # every layer keeps everything
        (cases.GEMMA_LIKE, {"pipeline_parallel_size": 2}),
        (catalog.model("meta-llama/Llama-4-Scout-17B-16E-Instruct"), {"tensor_parallel_size": 8}),
    ],
)
def test_no_layout_where_blocks_are_alike_or_not_followed(model, changes):
    assert budget(model, **changes).layout is None


def test_other_engines_have_pools_of_their_own():
    model = cases.GEMMA_LIKE
    deployment = cases.deployment(model, cases.H100)
    layout = kv_layout(model, catalog.engine("sglang"), deployment, 1e10, 4096.0, 0.0)
    assert layout is None


@pytest.mark.parametrize("length", [1024, 16_384, 131_072])
def test_the_account_counts_requests_of_the_longest_length(length):
    """Blocks of the account: as many requests of max_model_len fit as in the engine's own pool."""
    got = budget(cases.GEMMA_LIKE, max_model_len=length, max_num_batched_tokens=2048)
    requests = got.layout.num_blocks / got.layout.peak_blocks(np.array([length]))[0]
    assert got.num_blocks == int(requests * length / 16)


def test_more_tokens_never_take_fewer_blocks():
    layout = KvLayout(
        num_blocks=1,
        full_tables=0,
        windows=(WindowTables(window_tokens=7, tables=2),),
        in_flight_tokens=5,
        block_tokens=4,
    )
    held = layout.peak_blocks(np.arange(1, 60))
    assert (np.diff(held) >= 0).all()
    assert held.max() == 2 * (3 + 1)  # ⌈(6 + 5)/4⌉ + 1 blocks in each table
