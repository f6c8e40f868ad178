"""Compile a deployment into the tables of a StepCost: every operator, once per token count."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.perf.attention_terms import (
    attention_fixed_s,
    attention_rates,
    prefill_token_s,
    sequence_s,
)
from planner.perf.case import Case
from planner.perf.ideal import ideal_step_cost, theory_inputs
from planner.perf.layers import kv_groups
from planner.perf.step_cost import StepCost
from planner.perf.token_terms import draft_table, row_table, token_table
from planner.spec.calibration import Calibration
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model

FloatArray = NDArray[np.float64]

MANY_KERNELS = 2.5
SEND_FIXED_S = 15e-6  # NCCL point-to-point start-up (own figure, NCCL's usual 10 to 20 µs)


def compile_step_cost(
    model: Model, gpu: Gpu, engine: Engine, calibration: Calibration, deployment: Deployment
) -> StepCost:
    """Return the physics of `deployment` as tables that closed forms and the simulator share.

    Operators are evaluated on a grid of token counts (every count to 256, then at most 6 % apart)
    and interpolated: between grid points they are smooth.

    Parameters
    ----------
    model, gpu, engine
        Catalogue entries the deployment names.
    calibration
        Efficiencies; with `fused_max` the result is the theory's step time, exactly.
    deployment
        The candidate. Its `max_num_batched_tokens` and `max_num_seqs` size the tables.
    """
    if calibration.fused_max:
        inputs = theory_inputs(model, gpu, deployment)
        return ideal_step_cost(inputs, model, calibration, deployment)
    case = Case(model=model, gpu=gpu, engine=engine, calibration=calibration, deployment=deployment)
    return with_host(_kernels(case), model, engine)


def _kernels(case: Case) -> StepCost:
    """Return what the kernels take, no host beside them."""
    model, gpu, engine = case.model, case.gpu, case.engine
    deployment, calibration = case.deployment, case.calibration
    budget = deployment.max_num_batched_tokens
    grid = token_grid(budget)
    per_token = prefill_token_s(case)
    kv_s, pair_s = attention_rates(case)
    drafts = deployment.num_speculative_tokens
    memory_s = np.interp(np.arange(budget + 1), grid, token_table(case, grid, per_token))
    stages = deployment.pipeline_parallel_size
    return StepCost(
        max_num_batched_tokens=budget,
        max_num_seqs=deployment.max_num_seqs,
        tokens_per_decode=1 + drafts,
        compute_s=np.zeros(budget + 1),
        memory_s=memory_s,
        decode_padding=decode_padding(engine.cuda_graph_sizes, budget),
        row_s=row_table(case) + draft_table(case, memory_s) if drafts else row_table(case),
        # Each draft's one layer reads the context once more.
        kv_s=kv_s * (1.0 + drafts / model.num_layers),
        window_tokens=np.array([g.window_tokens for g in kv_groups(model)], dtype=np.int64),
        seq_s=max(0.0, sequence_s(case) - per_token * (1 + drafts)),
        pair_s=pair_s,
        prefix_s=float(kv_s[0]) if kv_groups(model)[0].window_tokens == 0 else 0.0,
        decode_fixed_s=attention_fixed_s(case, decode=True),
        prefill_fixed_s=attention_fixed_s(case, decode=False),
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=deployment.async_scheduling,
        stages=stages,
        slowest_stage_share=math.ceil(model.num_layers / stages) / model.num_layers,
        send_s_per_token=2.0 * model.hidden_size / link_bytes_per_s(gpu, deployment.gpus),
        send_fixed_s=SEND_FIXED_S if stages > 1 else 0.0,
        band=calibration.family_band(engine.id, model.moe is not None),
    )


def with_host(cost: StepCost, model: Model, engine: Engine) -> StepCost:
    """Return the cost of bare kernels with an engine's host overheads beside them."""
    return replace(
        cost,
        memory_s=cost.memory_s + engine.layer_overhead_s * model.num_layers,
        seq_s=cost.seq_s + engine.seq_overhead_s,
        launch_s=engine.prefill_layer_overhead_s * launched_layers(model),
        host_step_s=engine.step_overhead_s,
        frontend_s=engine.frontend_s,
        frontend_client_s=engine.frontend_client_s,
        frontend_token_s=engine.frontend_token_s,
    )


def launched_layers(model: Model) -> float:
    """Return layers by the kernels a prefill launches outside graphs: plain ones count 1.

    Latent attention (down and up projections, absorption) and gated-delta or Mamba mixers
    (convolution, gates, chunked scan) launch several times as many; the factor is the one that
    public TTFTs of both kinds agree on.
    """
    linear = model.linear_attention.layers if model.linear_attention else 0
    latent = model.attention_layers if model.mla else 0
    return model.num_layers + (MANY_KERNELS - 1.0) * (linear + latent)


def token_grid(budget: int) -> FloatArray:
    """Return token counts at which operators are evaluated: 0 to 256, then 6 % apart."""
    dense = np.arange(0, min(budget, 256) + 1, dtype=np.float64)
    if budget <= 256:
        return dense
    steps = max(2, math.ceil(math.log(budget / 256) / math.log(1.06)))
    sparse = np.unique(np.round(np.geomspace(256, budget, steps + 1)))
    return np.concatenate([dense, sparse[1:]])


def decode_padding(graph_sizes: tuple[int, ...], budget: int) -> NDArray[np.int64]:
    """Return tokens → tokens padded up to the next captured graph; beyond the last, unpadded.

    >>> decode_padding((1, 2, 4, 8), 10).tolist()
    [0, 1, 2, 4, 4, 8, 8, 8, 8, 9, 10]
    """
    tokens = np.arange(budget + 1, dtype=np.int64)
    sizes = np.array(sorted(size for size in graph_sizes if size <= budget), dtype=np.int64)
    if not len(sizes):
        return tokens
    position = np.searchsorted(sizes, tokens)
    padded = np.where(position < len(sizes), sizes[np.minimum(position, len(sizes) - 1)], tokens)
    padded[0] = 0
    return np.asarray(padded, dtype=np.int64)


def link_bytes_per_s(gpu: Gpu, world_size: int) -> float:
    """Return bytes/s of one direction between GPUs of a group: the fast link if it reaches all."""
    if gpu.scaleup_bytes_per_s > 0 and world_size <= gpu.scaleup_domain_gpus:
        return gpu.scaleup_bytes_per_s
    return gpu.pcie_bytes_per_s
