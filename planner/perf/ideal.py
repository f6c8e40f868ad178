"""A deployment seen by the theory: the five numbers its equations take, and their StepCost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.perf import theory
from planner.perf.formats import arithmetic
from planner.perf.kv_reads import KvReads, kv_bytes_per_group, kv_reads
from planner.perf.layers import kv_groups
from planner.perf.memory import stored_weight_bytes
from planner.perf.parameters import parameters
from planner.perf.step_cost import StepCost
from planner.spec.calibration import Calibration
from planner.spec.deployment import Deployment
from planner.spec.gpu import Gpu
from planner.spec.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryInputs:
    """What the theory knows of one replica (one data-parallel rank); all GPUs of it together.

    `token_flops` is 2·P over active parameters, `weight_bytes` the resident ones as stored.
    `kv` counts every copy that tensor parallelism replicates.
    """

    token_flops: float
    weight_bytes: float
    kv: KvReads
    flops_per_s: float
    bandwidth_bytes_per_s: float

    @property
    def ridge_flops_per_byte(self) -> float:
        """R = F/W."""
        return float(theory.ridge_flops_per_byte(self.flops_per_s, self.bandwidth_bytes_per_s))


def theory_inputs(model: Model, gpu: Gpu, deployment: Deployment) -> TheoryInputs:
    """Return the numbers that the theory's equations take for a deployment."""
    counts = parameters(model)
    maths = arithmetic(gpu, deployment.weight_dtype)
    tp = deployment.tensor_parallel_size
    return TheoryInputs(
        token_flops=float(theory.flops_per_token(counts.active)),
        weight_bytes=stored_weight_bytes(model, deployment.weight_dtype),
        kv=kv_reads(model, deployment.kv_cache_dtype, tp),
        flops_per_s=maths.peak_flops_per_s * tp,
        bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s * tp,
    )


def ideal_step_cost(
    inputs: TheoryInputs, model: Model, calibration: Calibration, deployment: Deployment
) -> StepCost:
    """Return the StepCost that is exactly the theory: one fused max, nothing fixed, no padding."""
    budget = deployment.max_num_batched_tokens
    tokens = np.arange(budget + 1, dtype=np.float64)
    groups = kv_groups(model)
    rank_bandwidth = inputs.bandwidth_bytes_per_s / deployment.tensor_parallel_size
    tp = deployment.tensor_parallel_size
    rates = np.array(kv_bytes_per_group(model, deployment.kv_cache_dtype, tp)) / rank_bandwidth
    floor = inputs.weight_bytes / inputs.bandwidth_bytes_per_s
    return StepCost(
        max_num_batched_tokens=budget,
        max_num_seqs=deployment.max_num_seqs,
        tokens_per_decode=1 + deployment.num_speculative_tokens,
        compute_s=np.asarray(
            theory.compute_s(inputs.token_flops, tokens, 0.0, inputs.flops_per_s), dtype=np.float64
        ),
        memory_s=np.full(budget + 1, floor),
        decode_padding=np.arange(budget + 1, dtype=np.int64),
        row_s=np.zeros(deployment.max_num_seqs + 1),
        kv_s=rates,
        window_tokens=np.array([group.window_tokens for group in groups], dtype=np.int64),
        seq_s=0.0,
        pair_s=np.zeros(len(groups)),
        prefix_s=0.0,
        decode_fixed_s=0.0,
        prefill_fixed_s=0.0,
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=True,
        stages=deployment.pipeline_parallel_size,
        slowest_stage_share=1.0 / deployment.pipeline_parallel_size,
        band=calibration.band,
    )
