"""Runs of Sarathi-Serve (arXiv:2403.02310, OSDI 2024) and its artefact: latencies, capacities."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.reproduce import replays
from planner.reproduce.claim import Inputs
from planner.reproduce.physics import kv_tokens
from planner.reproduce.replays import MANY_SEEDS, SEEDS, Machine
from planner.reproduce.sarathi_serve_fit import ALL_BATCHES, fitted, made, yi
from planner.sim.settings import SchedulerSettings
from planner.spec import catalog
from planner.spec.gpu import Gpu
from planner.spec.model import Model

SHAREGPT = "sharegpt_8k.csv"
# microsoft/sarathi-serve, sarathi/benchmark: seed of every run, and the gap that
# poisson_request_interval_generator.py cuts at, in mean gaps.
ARTEFACT_SEED, LONGEST_GAP = 42, 3.0
OWN_DRAW = (ARTEFACT_SEED,)
Seeds = Sequence[int]
LONGEST_CHAT = 8192
BLOCK = 16


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
    model: Model,
    gpu: Gpu,
    tp: int,
    policy: str,
    *,
    budget: int,
    seqs: int,
    pp: int = 1,
    batches: tuple[int, ...] = ALL_BATCHES,
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
    return Machine(cost=fitted(model, gpu, planned, batches), settings=settings)


@cache
def yi_machine(
    policy: str, budget: int, seqs: int, batches: tuple[int, ...] = ALL_BATCHES
) -> Machine:
    """Return Yi-34B on its pair of A100 under a policy."""
    return machine(*yi(), 2, policy, budget=budget, seqs=seqs, batches=batches)


def drawn(pairs: NDArray[np.int64], count: int, per_s: float, seed: int) -> Requests:
    """Return requests with the artefact's arrivals: Poisson, no gap above three mean ones.

    The seed ARTEFACT_SEED gives its own draw, lengths and gaps alike.
    """
    if seed != ARTEFACT_SEED:
        return replays.poisson(pairs, count, per_s, seed, longest_gap=LONGEST_GAP)
    # pandas' sample(frac=1, random_state=42) and Python's generator, seeded alike.
    order = np.random.RandomState(ARTEFACT_SEED).permutation(len(pairs))
    rows = pairs[order[:count]]
    uniform = random.Random(ARTEFACT_SEED)
    gaps = [min(-math.log(1.0 - uniform.random()), LONGEST_GAP) for _ in range(count)]
    return replays.requests_of(np.cumsum(gaps) / per_s, rows[:, 0], rows[:, 1])


def p99_tbt_s(
    policy: str, budget: int, seqs: int, per_s: float, inputs: Inputs, *, seeds: Seeds = MANY_SEEDS
) -> float:
    """Return the P99 time between tokens of 128 chats on Yi-34B, median of seeds, in s."""
    pairs, here = inputs.pairs(SHAREGPT), yi_machine(policy, budget, seqs)

    def once(seed: int) -> float:
        return replays.tbt_s(replays.run(here, drawn(pairs, 128, per_s, seed)))

    return replays.median_over(seeds, once)


def p50_ttft_s(
    policy: str, budget: int, seqs: int, per_s: float, inputs: Inputs, *, seeds: Seeds = MANY_SEEDS
) -> float:
    """Return the P50 time to the first token of 128 chats on Yi-34B, median of seeds, in s."""
    pairs, here = inputs.pairs(SHAREGPT), yi_machine(policy, budget, seqs)

    def once(seed: int) -> float:
        done = replays.run(here, drawn(pairs, 128, per_s, seed))
        return float(np.median(done.ttft_s))

    return replays.median_over(seeds, once)


def trial_holds(
    here: Machine, pairs: NDArray[np.int64], seed: int, tbt_limit_s: float, per_s: float
) -> bool:
    """Return whether a trial of 2,048 requests, cut at 30 minutes, keeps the paper's two limits."""
    requests = drawn(pairs, 2048, per_s, seed)
    arrived = int(np.searchsorted(requests.arrival_s, 1800.0))
    cut = replays.requests_of(
        requests.arrival_s[:arrived],
        requests.input_tokens[:arrived],
        requests.output_tokens[:arrived],
    )
    done = replays.run(here, cut)
    return replays.queueing_p50_s(done) <= 2.0 and replays.tbt_s(done) <= tbt_limit_s


def capacity_per_s(
    here: Machine, inputs: Inputs, tbt_limit_s: float, seeds: Seeds = SEEDS
) -> float:
    """Return the highest rate inside P99 TBT and 2 s of median queueing, median of seeds."""
    pairs = inputs.pairs(SHAREGPT)

    def once(seed: int) -> float:
        return replays.capacity(partial(trial_holds, here, pairs, seed, tbt_limit_s), 0.5)

    return replays.median_over(seeds, once)


@cache
def yi_capacity(
    policy: str,
    budget: int,
    seqs: int,
    tbt_limit_s: float,
    inputs: Inputs,
    seeds: Seeds = SEEDS,
    batches: tuple[int, ...] = ALL_BATCHES,
) -> float:
    """Return Yi-34B's capacity for chats under a policy, requests/s."""
    here = yi_machine(policy, budget, seqs, batches)
    return capacity_per_s(here, inputs, tbt_limit_s, seeds)


SARATHI_512, SARATHI_2048 = ("sarathi_serve", 512, 128), ("sarathi_serve", 2048, 128)
VLLM = ("vllm_v0", LONGEST_CHAT, 128)
ORCA = ("orca", 16 * LONGEST_CHAT, 16)

Policy = tuple[str, int, int]


def yi_capacity_ratio(
    ours: Policy,
    theirs: Policy,
    tbt_limit_s: float,
    inputs: Inputs,
    *,
    seeds: Seeds = SEEDS,
    batches: tuple[int, ...] = ALL_BATCHES,
) -> float:
    """Return the ratio of two policies' capacities."""
    mine, other = (
        yi_capacity(*policy, tbt_limit_s, inputs, seeds, batches) for policy in (ours, theirs)
    )
    return mine / other


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
