"""Step times of the papers' machines, from the catalogue and this planner's own calibration.

No engine of 2023 is in the catalogue. `LAUNCHES` is a bare forward pass: kernels are launched layer
by layer as the oldest engine known does it, and there is no scheduler, graph or frontend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from planner.perf.calibrations import calibration
from planner.perf.compile import compile_step_cost
from planner.perf.formats import KV_BYTES
from planner.perf.layers import kv_elements_per_token
from planner.perf.memory import visible_bytes, weight_bytes_per_gpu
from planner.perf.step_cost import StepCost, mixed_step_s
from planner.spec import catalog
from planner.spec.calibration import AllReduceEfficiency
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# Azure NC96ads v4: NVLink joins GPUs in pairs, four of them cross PCIe. Fitted by eye to the
# all-reduce table of microsoft/vidur@7d47513363 (a100_pairwise_nvlink, 2 KB to 452 MB).
PAIRWISE_NVLINK = {
    2: AllReduceEfficiency(latency_s=50e-6, bandwidth_bytes_per_s=200e9, sharpness=1.0),
    4: AllReduceEfficiency(latency_s=60e-6, bandwidth_bytes_per_s=15.7e9, sharpness=1.0),
}

# NCCL on A100 SXM: the fit of `planner.calibrate` to the nccl 2.27.3 rows, 512 B to 512 MB, of
# ai-dynamo/aiconfigurator_core 0.12.0 (Apache-2.0). The calibration's all-reduce is the faster
# kernel that engines have used since.
NCCL_A100_SXM = {
    2: AllReduceEfficiency(
        latency_s=36.8e-6,
        bandwidth_bytes_per_s=188.6e9,
        sharpness=1.0,
        large_latency_s=10.5e-6,
        large_bandwidth_bytes_per_s=42.25e9,
    ),
    4: AllReduceEfficiency(
        latency_s=55.9e-6,
        bandwidth_bytes_per_s=142.4e9,
        sharpness=1.0,
        large_latency_s=15.1e-6,
        large_bandwidth_bytes_per_s=72.0e9,
    ),
    8: AllReduceEfficiency(
        latency_s=181.9e-6,
        bandwidth_bytes_per_s=19.64e9,
        sharpness=2.97,
        large_latency_s=24.1e-6,
        large_bandwidth_bytes_per_s=104.2e9,
    ),
}


@cache
def launches() -> Engine:
    """Return a forward pass that someone else schedules: launches per layer, nothing else."""
    return replace(
        catalog.engine("vllm", "0.11"),
        cuda_graph_sizes=(),
        seq_overhead_s=0.0,
        step_overhead_s=0.0,
        prefill_layer_overhead_s=0.0,
        frontend_s=0.0,
        frontend_client_s=0.0,
        frontend_token_s=0.0,
    )


@cache
def no_launches() -> Engine:
    """Return a forward pass whose kernels launch themselves."""
    return replace(launches(), layer_overhead_s=0.0)


def deployment(model: Model, gpu: Gpu, **chosen: Any) -> Deployment:  # noqa: ANN401 - fields
    """Return a 16-bit deployment with the `chosen` fields of Deployment."""
    fields: dict[str, Any] = {
        "gpu": gpu.id,
        "model": model.id,
        "engine": "vllm",
        "engine_version": "0.11",
        "max_num_batched_tokens": 4096,
        "max_num_seqs": 32,
        "max_model_len": model.max_model_len,
        "gpu_memory_utilization": 0.9,
        "async_scheduling": False,
        "enable_prefix_caching": False,
    }
    return Deployment(**{**fields, **chosen})


def step_cost(
    model: Model,
    gpu: Gpu,
    made: Deployment,
    *,
    compute: float | None = None,
    attention: float | None = None,
    all_reduce: Mapping[int, AllReduceEfficiency] | None = None,
    engine: Engine | None = None,
) -> StepCost:
    """Return the step times of a deployment, zero-shot or with efficiencies given.

    Parameters
    ----------
    model, gpu, made
        What runs where.
    compute, attention
        Shares of the peak that matrices and prefill attention reach, instead of the calibration's.
    all_reduce
        Measured all-reduces of the machine, by group size.
    engine
        The overheads, instead of those of `launches`.
    """
    known = calibration(gpu)
    gemm, heads = known.gemm["bf16"], known.attention["bf16"]
    changed = replace(
        known,
        gemm={"bf16": replace(gemm, compute=gemm.compute if compute is None else compute)},
        attention={
            "bf16": replace(
                heads, prefill_compute=heads.prefill_compute if attention is None else attention
            )
        },
        all_reduce={**known.all_reduce, **(all_reduce or {})},
    )
    return compile_step_cost(model, gpu, engine or launches(), changed, made)


def prefill_s(cost: StepCost, tokens: int, past_tokens: int = 0) -> float:
    """Return the time of a step that carries one prompt chunk alone, in s."""
    return float(
        mixed_step_s(
            cost,
            decode_seqs=0,
            context_tokens=0.0,
            chunk_tokens=tokens,
            past_tokens=float(past_tokens),
        )
    )


def decode_s(cost: StepCost, sequences: int, context_tokens: float) -> float:
    """Return the time of a step that carries decodes alone, in s."""
    return float(mixed_step_s(cost, decode_seqs=sequences, context_tokens=context_tokens))


def hybrid_s(
    cost: StepCost, chunk_tokens: int, past_tokens: float, sequences: int, context_tokens: float
) -> float:
    """Return the time of a step that carries a prompt chunk and decodes, in s."""
    return float(
        mixed_step_s(
            cost,
            decode_seqs=sequences,
            context_tokens=context_tokens,
            chunk_tokens=chunk_tokens,
            past_tokens=past_tokens,
        )
    )


def chunked_prefill_s(cost: StepCost, prompt_tokens: int, chunk_tokens: int) -> float:
    """Return the time of a prompt in chunks, each a step of its own, in s."""
    starts = range(0, prompt_tokens, chunk_tokens)
    return sum(prefill_s(cost, min(chunk_tokens, prompt_tokens - start), start) for start in starts)


def kv_tokens(model: Model, gpu: Gpu, made: Deployment) -> int:
    """Return tokens of KV that memory leaves beside the weights, activations neglected.

    (u·M − weights)/k on the fullest GPU; k = 2·H_kv·d·b·⌈L/stages⌉.
    """
    stages = made.pipeline_parallel_size
    layers = int(np.ceil(model.num_layers / stages))
    each = kv_elements_per_token(model, made.tensor_parallel_size) * KV_BYTES[made.kv_cache_dtype]
    free = made.gpu_memory_utilization * visible_bytes(gpu) - weight_bytes_per_gpu(model, made)
    return int(free / (layers * each))
