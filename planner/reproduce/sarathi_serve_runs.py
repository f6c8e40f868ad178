"""Machines, fits and runs of Sarathi-Serve (arXiv:2403.02310, OSDI 2024) and its artefact.

Its engine launches eagerly, ahead of the GPU: a step takes the longer of GPU and host time. Host
time and two kernel efficiencies are fitted to the artefact's step times; everything beyond those
step times (latencies under load, capacities) follows from the fit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.reproduce import replays
from planner.reproduce.claim import Inputs
from planner.reproduce.physics import (
    PAIRWISE_NVLINK,
    chunked_prefill_s,
    decode_s,
    deployment,
    hybrid_s,
    kv_tokens,
    prefill_s,
    step_cost,
)
from planner.reproduce.replays import Machine
from planner.sim.settings import SchedulerSettings
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

SHAREGPT = "sharegpt_8k.csv"
LONGEST_CHAT = 8192
BLOCK = 16
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
def host() -> tuple[float, float]:
    """Return host seconds of a step and of each sequence, fitted to DECODE_MS."""
    batches = np.array(list(DECODE_MS), dtype=np.float64)
    seconds = 1e-3 * np.array(list(DECODE_MS.values()))
    weighted = np.stack([1.0 / seconds, batches / seconds], axis=1)
    step, each = np.linalg.lstsq(weighted, np.ones(len(seconds)), rcond=None)[0]
    return float(step), float(each)


def fitted(model: Model, gpu: Gpu, planned: Deployment) -> StepCost:
    """Return step times with the kernels and the host that were fitted to Yi-34B's."""
    compute, attention = efficiencies()
    step, each = host()
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
def fitted_yi() -> StepCost:
    """Return Yi-34B's fitted step times."""
    model, gpu = yi()
    return fitted(model, gpu, made(model, gpu, 2))


def prefill_ms(cost: str, tokens: int, _: Inputs) -> float:
    """Return a prompt's time in ms, by "fit" or "zero_shot"."""
    return 1e3 * prefill_s(fitted_yi() if cost == "fit" else zero_shot(), tokens)


def decode_ms(batch: int, _: Inputs) -> float:
    """Return a decode step's time in ms after the fit."""
    return 1e3 * decode_s(fitted_yi(), batch, 1024.0)


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


def scheduler(
    policy: str, kv: int, *, longest: int, budget: int, max_num_seqs: int
) -> SchedulerSettings:
    """Return a scheduler of the paper; Orca reserves the longest sequence for every request."""
    block = longest if policy == "orca" else BLOCK
    blocks = kv // block
    return SchedulerSettings(
        policy=policy,
        max_num_batched_tokens=budget,
        max_num_seqs=max_num_seqs,
        max_model_len=longest,
        block_size=block,
        num_blocks=blocks,
        watermark_blocks=0 if policy == "orca" else int(0.01 * blocks),
    )


def machine(
    model: Model, gpu: Gpu, tp: int, policy: str, *, budget: int, seqs: int, pp: int = 1
) -> Machine:
    """Return one replica under a policy, chats up to 8,192 tokens."""
    planned = made(
        model,
        gpu,
        tp,
        pipeline_parallel_size=pp,
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        max_model_len=LONGEST_CHAT,
    )
    settings = scheduler(
        policy,
        kv_tokens(model, gpu, planned),
        longest=LONGEST_CHAT,
        budget=budget,
        max_num_seqs=seqs,
    )
    return Machine(cost=fitted(model, gpu, planned), settings=settings)


@cache
def yi_machine(policy: str, budget: int, seqs: int) -> Machine:
    """Return Yi-34B on its pair of A100 under a policy."""
    return machine(*yi(), 2, policy, budget=budget, seqs=seqs)


def p99_tbt_s(policy: str, budget: int, seqs: int, per_s: float, inputs: Inputs) -> float:
    """Return the P99 time between tokens of 128 chats on Yi-34B, median of many seeds, in s."""
    pairs, here = inputs.pairs(SHAREGPT), yi_machine(policy, budget, seqs)

    def once(seed: int) -> float:
        return replays.tbt_s(replays.run(here, replays.poisson(pairs, 128, per_s, seed)))

    return replays.median_over(replays.MANY_SEEDS, once)


def p50_ttft_s(policy: str, budget: int, seqs: int, per_s: float, inputs: Inputs) -> float:
    """Return the P50 time to the first token of 128 chats on Yi-34B, median of many seeds, in s."""
    pairs, here = inputs.pairs(SHAREGPT), yi_machine(policy, budget, seqs)

    def once(seed: int) -> float:
        done = replays.run(here, replays.poisson(pairs, 128, per_s, seed))
        return float(np.median(done.ttft_s))

    return replays.median_over(replays.MANY_SEEDS, once)


def trial_holds(
    here: Machine, pairs: NDArray[np.int64], seed: int, tbt_limit_s: float, per_s: float
) -> bool:
    """Return whether a trial of 2,048 requests, cut at 30 minutes, keeps the paper's two limits."""
    requests = replays.poisson(pairs, 2048, per_s, seed)
    arrived = int(np.searchsorted(requests.arrival_s, 1800.0))
    cut = replays.requests_of(
        requests.arrival_s[:arrived],
        requests.input_tokens[:arrived],
        requests.output_tokens[:arrived],
    )
    done = replays.run(here, cut)
    return replays.queueing_p50_s(done) <= 2.0 and replays.tbt_s(done) <= tbt_limit_s


def capacity_per_s(here: Machine, inputs: Inputs, tbt_limit_s: float) -> float:
    """Return the highest rate inside P99 TBT and 2 s of median queueing, median of seeds."""
    pairs = inputs.pairs(SHAREGPT)

    def once(seed: int) -> float:
        return replays.capacity(partial(trial_holds, here, pairs, seed, tbt_limit_s), 0.5)

    return replays.median_over(replays.SEEDS, once)


@cache
def yi_capacity(policy: str, budget: int, seqs: int, tbt_limit_s: float, inputs: Inputs) -> float:
    """Return Yi-34B's capacity for chats under a policy, requests/s."""
    return capacity_per_s(yi_machine(policy, budget, seqs), inputs, tbt_limit_s)


SARATHI_512, SARATHI_2048 = ("sarathi_serve", 512, 128), ("sarathi_serve", 2048, 128)
VLLM = ("vllm_v0", LONGEST_CHAT, 128)
ORCA = ("orca", 16 * LONGEST_CHAT, 16)

Policy = tuple[str, int, int]


def yi_capacity_ratio(ours: Policy, theirs: Policy, tbt_limit_s: float, inputs: Inputs) -> float:
    """Return the ratio of two policies' capacities."""
    return yi_capacity(*ours, tbt_limit_s, inputs) / yi_capacity(*theirs, tbt_limit_s, inputs)


def yi_capacity_of(ours: Policy, tbt_limit_s: float, inputs: Inputs) -> float:
    """Return a policy's capacity in requests/s."""
    return yi_capacity(*ours, tbt_limit_s, inputs)


def median_length(column: int, inputs: Inputs) -> float:
    """Return the median prompt (0) or output (1) of the chats, in tokens."""
    return float(np.median(inputs.pairs(SHAREGPT)[:, column]))


def mistral_ratio(inputs: Inputs) -> float:
    """Return the ratio of capacities of Mistral-7B with chunks of 512 and in vLLM, strict limit."""
    model, gpu = catalog.model("mistralai/Mistral-7B-Instruct-v0.3"), catalog.gpu("a100-80gb-pcie")
    ours, theirs = (
        capacity_per_s(machine(model, gpu, 1, policy, budget=budget, seqs=seqs), inputs, 0.1)
        for policy, budget, seqs in (SARATHI_512, VLLM)
    )
    return ours / theirs
