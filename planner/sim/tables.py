"""Settings and physics as the kernel's records: step times, window groups, idle replicas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from planner.perf.memory_equations import window_cap
from planner.perf.step_cost import StepCost
from planner.sim.kernel import sglang, world
from planner.sim.kernel.world import records
from planner.sim.settings import SchedulerSettings

HIGH_USE = 0.9  # share of the KV blocks from which operators are told


def step_table(cost: StepCost) -> Any:  # noqa: ANN401 - records
    """Return the kernel's table: step times by tokens, by rows, by decoding sequences."""
    seqs = np.arange(cost.max_num_seqs + 1)
    table = records(max(len(cost.memory_s), len(seqs)), world.TABLE)
    tokens = len(cost.memory_s)
    table.compute_s[:tokens] = cost.compute_s
    table.memory_s[:tokens] = cost.memory_s
    table.row_s[: len(seqs)] = cost.row_s
    padded = cost.decode_padding[np.minimum(seqs, tokens - 1)]
    beside = cost.row_s + cost.decode_fixed_s
    host = cost.host_step_s + cost.host_seq_s * seqs
    floor = cost.compute_s[padded] + beside
    first = cost.memory_s[padded] + cost.seq_s * seqs + beside
    if cost.async_scheduling:
        floor = np.maximum(floor, host)
    else:
        floor, first = floor + host, first + host
    table.floor_s[: len(seqs)] = floor
    table.first_s[: len(seqs)] = first
    return table


def group_table(cost: StepCost, settings: SchedulerSettings, replicas: int) -> Any:  # noqa: ANN401
    """Return the window groups; full-attention groups are summed into the state instead."""
    windowed = np.flatnonzero(cost.window_tokens > 0)
    layout = settings.kv_layout
    tables = {each.window_tokens: each.tables for each in layout.windows} if layout else {}
    timed = [int(window) for window in cost.window_tokens[windowed]]
    silent = [window for window in tables if window not in timed]
    groups = records((replicas, len(timed) + len(silent)), world.GROUP)
    groups.window = timed + silent
    groups.kv_s[:, : len(timed)] = cost.kv_s[windowed]
    groups.pair_s[:, : len(timed)] = cost.pair_s[windowed]
    for g, window in enumerate(timed + silent):
        if layout and window in tables:  # a window that is read twice gives back once
            groups.tables[:, g] = tables.pop(window)
            groups.cap[:, g] = window_cap(window, layout.in_flight_tokens, settings.block_size)
    return groups


def idle_states(settings: SchedulerSettings, cost: StepCost, replicas: int) -> Any:  # noqa: ANN401
    """Return the records of replicas that have seen nothing yet."""
    st = records(replicas, world.STATE)
    st.max_num_batched_tokens = settings.max_num_batched_tokens
    st.max_num_seqs = st.free_slots = settings.max_num_seqs
    st.block_size = settings.block_size
    st.num_blocks = st.free_blocks = settings.num_blocks
    st.full_sequence = st.threshold_needs_company = settings.admission == "full_sequence"
    st.prefill_first = settings.policy == "vllm_v0"
    st.whole_prompts = settings.policy == "orca"
    st.one_prefill = settings.policy == "sarathi"
    st.prompt_blocks = st.admits_always = settings.policy == "sarathi_serve"
    st.high_blocks = math.ceil(HIGH_USE * settings.num_blocks)
    st.watermark_blocks = settings.watermark_blocks
    st.threshold = settings.long_prefill_token_threshold
    st.by_priority = settings.scheduling_policy == "priority"
    # Of a pipeline every batch is scheduled when an earlier one is back: nothing is noticed late.
    st.asynchronous = cost.async_scheduling and cost.stages == 1
    full = cost.window_tokens == 0
    st.kv_s = cost.kv_s[full].sum()
    st.pair_s = cost.pair_s[full].sum()
    for name in ("seq_s", "prefix_s", "decode_fixed_s", "prefill_fixed_s", "launch_s"):
        st[name] = getattr(cost, name)
    for name in ("host_step_s", "host_seq_s", "host_prefill_s"):
        st[name] = getattr(cost, name)
    for name in ("frontend_s", "frontend_token_s"):
        st[name] = getattr(cost, name)
    st.now = st.visible = st.resume = st.bin_end = -np.inf
    st.bin = st.head = st.front = st.back = st.partial = st.line = st.arrived = -1
    st.blank_blocks = settings.num_blocks
    layout = settings.kv_layout
    st.windowed = layout is not None
    st.tables = layout.tables if layout else 1
    st.full_tables = layout.full_tables if layout else 1
    st.state_blocks = layout.state_blocks if layout else 0
    st.max_prefill_tokens = settings.max_prefill_tokens
    if settings.policy == "sglang":
        sglang.begin(st, settings.schedule_conservativeness)
    st.lru_front = st.lru_back = st.spare_node = st.hit_version = -1
    return st
