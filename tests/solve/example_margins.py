"""Plain parts for the tests of margins."""

from __future__ import annotations

from planner.solve.plan import Alternative, BatchCell
from planner.spec.deployment import Deployment


def deployment(budget: int) -> Deployment:
    return Deployment(
        gpu="h100-sxm",
        model="meta-llama/Llama-3.1-8B-Instruct",
        engine="vllm",
        engine_version="0.33",
        max_num_batched_tokens=budget,
        max_num_seqs=256,
        max_model_len=131_072,
        gpu_memory_utilization=0.92,
    )


def cell(budget: int, margin: float | None, missed: float | None) -> BatchCell:
    return BatchCell(
        max_num_batched_tokens=budget,
        max_num_seqs=256,
        holds=True,
        stable=True,
        ttft_s=1.0,
        gap_s=0.02,
        limit="all tpot_s p99 ≤ 0.05 s",
        replicas=2,
        replay_holds=None,
        replay_margin=margin,
        replay_missed=missed,
    )


def alternative(other: Deployment) -> Alternative:
    return Alternative(
        deployment=other,
        replicas=2,
        gpus=2,
        usd_per_hour=5.9,
        reason="smaller_margin",
        detail="same cost",
        label="larger max_num_batched_tokens",
    )
