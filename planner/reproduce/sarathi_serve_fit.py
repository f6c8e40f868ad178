"""Step times of Yi-34B on Sarathi-Serve's machine (arXiv:2403.02310, OSDI 2024), and their fit.

Its engine launches eagerly, ahead of the GPU: a step takes the longer of GPU and host time. Host
time and two kernel efficiencies are fitted to the artefact's step times; everything beyond those
step times (latencies under load, capacities) follows from the fit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.reproduce.claim import Inputs
from planner.reproduce.physics import (
    PAIRWISE_NVLINK,
    chunked_prefill_s,
    decode_s,
    deployment,
    hybrid_s,
    prefill_s,
    step_cost,
)
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# Prompt tokens -> ms, artefact figure of prefill times; 256 tokens was a warm-up outlier (121 ms).
PREFILL_MS = {
    128: 48.09,
    512: 105.58,
    1024: 214.3,
    2048: 366.03,
    4096: 757.6,
    8192: 1863.26,
    16_384: 4407.5,
}
# Batch -> ms, contexts of about 1,024.
DECODE_MS = {1: 46.8, 2: 47.5, 4: 48.85, 8: 69.68, 16: 77.25, 32: 87.9, 64: 127.81, 128: 189.33}

ALL_BATCHES = tuple(DECODE_MS)
SMALL_BATCHES, LARGE_BATCHES = (1, 2, 4), (8, 16, 32, 64, 128)  # either side of the jump

MEMORY_SHARE = 0.85


def yi() -> tuple[Model, Gpu]:
    """Return Yi-34B and the A100 of its machine."""
    return catalog.model("01-ai/Yi-34B"), catalog.gpu("a100-80gb-pcie")


def made(model: Model, gpu: Gpu, tp: int, **chosen: Any) -> Deployment:  # noqa: ANN401 - fields
    """Return a deployment with the artefact's memory share."""
    fields = {
        "tensor_parallel_size": tp,
        "gpu_memory_utilization": MEMORY_SHARE,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 16_384,
        "async_scheduling": True,
        **chosen,
    }
    return deployment(model, gpu, **fields)


@cache
def zero_shot() -> StepCost:
    """Return Yi-34B's step times from the planner's own calibration."""
    model, gpu = yi()
    return step_cost(model, gpu, made(model, gpu, 2), all_reduce=PAIRWISE_NVLINK)


@cache
def efficiencies() -> tuple[float, float]:
    """Return shares of the peak of matrices and prefill attention, fitted to PREFILL_MS.

    Least squares of relative errors; 128 tokens are left to the host.
    """
    from scipy.optimize import least_squares

    model, gpu = yi()
    points = [tokens for tokens in PREFILL_MS if tokens > 128]

    def errors(shares: NDArray[np.float64]) -> list[float]:
        cost = step_cost(
            model,
            gpu,
            made(model, gpu, 2),
            compute=float(shares[0]),
            attention=float(shares[1]),
            all_reduce=PAIRWISE_NVLINK,
        )
        return [1e3 * prefill_s(cost, n) / PREFILL_MS[n] - 1.0 for n in points]

    found = least_squares(errors, (0.65, 0.4), bounds=((0.1, 0.05), (1.0, 1.0)))
    return float(found.x[0]), float(found.x[1])


@cache
def host(batches: tuple[int, ...] = ALL_BATCHES) -> tuple[float, float]:
    """Return host seconds of a step and of each sequence, fitted to DECODE_MS at `batches`."""
    sizes = np.array(batches, dtype=np.float64)
    seconds = 1e-3 * np.array([DECODE_MS[batch] for batch in batches])
    weighted = np.stack([1.0 / seconds, sizes / seconds], axis=1)
    step, each = np.linalg.lstsq(weighted, np.ones(len(seconds)), rcond=None)[0]
    return float(step), float(each)


def fitted(
    model: Model, gpu: Gpu, planned: Deployment, batches: tuple[int, ...] = ALL_BATCHES
) -> StepCost:
    """Return step times with the kernels and the host that were fitted to Yi-34B's."""
    compute, attention = efficiencies()
    step, each = host(batches)
    cost = step_cost(
        model,
        gpu,
        planned,
        compute=compute,
        attention=attention,
        all_reduce=PAIRWISE_NVLINK,
    )
    # Launches go by layers, and each pipeline stage launches its own.
    layers = model.num_layers / yi()[0].num_layers / planned.pipeline_parallel_size
    return replace(cost, host_step_s=step * layers, host_seq_s=each)


@cache
def fitted_yi(batches: tuple[int, ...] = ALL_BATCHES) -> StepCost:
    """Return Yi-34B's fitted step times."""
    model, gpu = yi()
    return fitted(model, gpu, made(model, gpu, 2), batches)


def prefill_ms(cost: str, tokens: int, _: Inputs) -> float:
    """Return a prompt's time in ms, by "fit" or "zero_shot"."""
    return 1e3 * prefill_s(fitted_yi() if cost == "fit" else zero_shot(), tokens)


def prefill_old_attention_ms(tokens: int, _: Inputs) -> float:
    """Return a prompt's time in ms, of the fit prefill attention alone."""
    model, gpu = yi()
    _compute, attention = efficiencies()
    cost = step_cost(
        model, gpu, made(model, gpu, 2), attention=attention, all_reduce=PAIRWISE_NVLINK
    )
    return 1e3 * prefill_s(cost, tokens)


def decode_ms(batch: int, _: Inputs, *, batches: tuple[int, ...] = ALL_BATCHES) -> float:
    """Return a decode step's time in ms after the fit."""
    return 1e3 * decode_s(fitted_yi(batches), batch, 1024.0)


def hybrid_over_prefill(_: Inputs) -> float:
    """Return 1,021 prompt tokens with three decodes over a prompt of 1,024."""
    return hybrid_s(fitted_yi(), 1021, 0.0, 3, 1024.0) / prefill_s(fitted_yi(), 1024)


def chunk_overhead(prompt: int, chunk: int, _: Inputs) -> float:
    """Return a chunked prompt's time over the whole one's."""
    cost = fitted_yi()
    return chunked_prefill_s(cost, prompt, chunk) / prefill_s(cost, prompt)


def worst_stall(_: Inputs) -> float:
    """Return a decode's step beside a whole prompt of 4,096 over a step of its own, Llama-2-70B."""
    model, gpu = catalog.model("meta-llama/Llama-2-70b-hf"), catalog.gpu("a100-80gb-sxm")
    cost = step_cost(model, gpu, made(model, gpu, 4))
    return hybrid_s(cost, 4096, 0.0, 1, 4096.0) / decode_s(cost, 1, 4096.0)
