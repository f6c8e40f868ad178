"""Compile every kernel before somebody waits for it: `python -m planner.solve.warm`."""

from __future__ import annotations

import numpy as np

from planner.sim.warm import compile_kernels
from planner.solve.kernel.blocks import SUMS, sums_by_block
from planner.solve.kernel.settle import Physics, Settled, Traffic, settle
from planner.solve.kernel.work import unfinished_work


def compile_all() -> None:
    """Call each loop of the equations once, and the simulator's kernels; all are cached."""
    one, row = np.ones(1), np.ones((1, 1))
    two, column, index = np.ones(2), np.ones((2, 1)), np.ones(2, np.int64)
    sums_by_block(one, one, one, np.zeros((SUMS, 2)))
    unfinished_work(row, row, row, 1.0, row.copy(), row.copy())
    cost = Physics(
        compute_s=two,
        memory_s=two,
        decode_padding=index,
        row_s=two,
        kv_s=one,
        pair_s=one,
        window_tokens=np.zeros(1, np.int64),
        seq_s=0.0,
        decode_fixed_s=0.0,
        prefill_fixed_s=0.0,
        launch_s=0.0,
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=False,
        tokens_per_decode=1,
        stages=1,
        slowest_stage_share=1.0,
        send_s_per_token=0.0,
        send_fixed_s=0.0,
    )
    offered = Traffic(
        residents=column,
        held=column,
        log_speeds=np.array([-1.0, 1.0]),
        block_tokens=one,
        block_s=60.0,
        life_tokens=1.0,
        past_tokens=0.0,
        mixes=True,
        factor=one,
        max_num_batched_tokens=two[:1],
        max_num_seqs=one,
        kv_tokens=one,
        lone_chunk=one,
    )
    settle(cost, offered, 1, 1e-3, 0.5, np.empty(2), Settled(*(row.copy() for _ in range(12))))
    compile_kernels()


if __name__ == "__main__":
    compile_all()
