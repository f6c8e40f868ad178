"""Compile the simulator's kernels before somebody waits for them."""

from __future__ import annotations

import numpy as np

from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.sim.replay import replay
from planner.sim.routing import ROUTINGS
from planner.sim.settings import SchedulerSettings


def compile_kernels() -> None:
    """Replay three requests with every kind of routing; compiled kernels are cached."""
    tokens = np.arange(9)
    none = np.zeros(1)
    cost = StepCost(
        max_num_batched_tokens=8,
        max_num_seqs=2,
        tokens_per_decode=1,
        compute_s=np.zeros(9),
        memory_s=np.full(9, 1e-3),
        decode_padding=tokens,
        row_s=np.zeros(3),
        kv_s=none,
        window_tokens=np.zeros(1, np.int64),
        seq_s=0.0,
        pair_s=none,
        prefix_s=0.0,
        decode_fixed_s=0.0,
        prefill_fixed_s=0.0,
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=False,
    )
    three = np.ones(3, np.int64)
    trace = Requests(
        arrival_s=np.arange(3.0),
        input_tokens=three,
        output_tokens=three,
        class_id=three - 1,
        class_names=("all",),
        cached_tokens=three - 1,
        session_id=three - 2,
    )
    settings = SchedulerSettings(
        max_num_batched_tokens=8, max_num_seqs=2, max_model_len=16, num_blocks=4
    )
    for routing in ROUTINGS[:3]:  # cache_aware compiles when it is first asked for
        replay(trace, cost, settings, routing=routing)
