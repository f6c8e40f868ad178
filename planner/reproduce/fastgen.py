"""What DeepSpeed-FastGen (arXiv:2401.08671) claims of Dynamic SplitFuse against vLLM of 2023.

Both schedulers run here on the same kernels, so only what the schedule gains can show.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.reproduce import replays
from planner.reproduce.claim import DIRECTION, Claim, Inputs, within
from planner.reproduce.closed_loop import closed_loop, plain, throughput_per_s
from planner.reproduce.physics import deployment, kv_tokens, step_cost
from planner.reproduce.replays import Machine
from planner.sim.replay import Replay, replay
from planner.sim.settings import SchedulerSettings
from planner.spec import catalog

PAPER = "arXiv:2401.08671, blog of November 2023"
SETTING = "Llama-2-70B, TP4, 4 A100-80GB, prompts N(2,600, 30 %)"
LONGEST = 8192
SPLIT_FUSE_TOKENS = 768  # the budget of its server's default; the paper states none
REQUESTS, SEED = 512, 1


@cache
def machine(policy: str) -> Machine:
    """Return the replica under "vllm_v0" or, as SplitFuse, "vllm_v1": decodes, then chunks."""
    model, gpu = catalog.model("meta-llama/Llama-2-70b-hf"), catalog.gpu("a100-80gb-sxm")
    budget = LONGEST if policy == "vllm_v0" else SPLIT_FUSE_TOKENS
    made = deployment(
        model,
        gpu,
        tensor_parallel_size=4,
        max_num_batched_tokens=budget,
        max_num_seqs=256,
        max_model_len=LONGEST,
    )
    settings = SchedulerSettings(
        policy=policy,
        max_num_batched_tokens=budget,
        max_num_seqs=256,
        max_model_len=LONGEST,
        num_blocks=kv_tokens(model, gpu, made) // 16,
    )
    return Machine(cost=step_cost(model, gpu, made), settings=settings)


def lengths(outputs: float) -> NDArray[np.int64]:
    """Return (prompt, output) tokens, each normal with a deviation of 30 %."""
    rng = np.random.default_rng(SEED)
    drawn = rng.normal((2600.0, outputs), (780.0, 0.3 * outputs), size=(REQUESTS, 2))
    return np.maximum(np.round(drawn), 1).astype(np.int64)


@cache
def loop(policy: str, outputs: float, clients: int) -> Replay:
    """Return a closed loop under a policy."""
    return closed_loop(machine(policy), plain(lengths(outputs)), REQUESTS, clients)


def throughput_at(policy: str, latency_s: float) -> float:
    """Return requests/s at a mean latency, between the numbers of clients on either side of it."""
    runs = [loop(policy, 60.0, clients) for clients in (12, 16, 20, 24)]
    latencies = [float(done.e2e_s.mean()) for done in runs]
    rates = [throughput_per_s(done) for done in runs]
    return float(np.interp(latency_s, latencies, rates))


def throughput_ratio(_: Inputs) -> float:
    """Return SplitFuse's throughput over vLLM's at a mean latency of 9 s."""
    return throughput_at("vllm_v1", 9.0) / throughput_at("vllm_v0", 9.0)


def token_tail_ratio(_: Inputs) -> float:
    """Return vLLM's P95 time between tokens over SplitFuse's, 16 clients, 128 outputs."""
    theirs, ours = (
        replays.tbt_s(loop(policy, 128.0, 16), 95.0) for policy in ("vllm_v0", "vllm_v1")
    )
    return theirs / ours


def replica_scaling(_: Inputs) -> float:
    """Return the throughput of 16 replicas over that of one, until four fifths are answered.

    By then no replica has run dry.
    """
    here, copies = machine("vllm_v1"), 16
    pairs = np.tile(lengths(60.0), (copies, 1))
    rates = []
    for replicas in (1, copies):
        some = pairs[: REQUESTS * replicas]
        requests = replays.requests_of(np.zeros(len(some)), some[:, 0], some[:, 1])
        done = replay(requests, here.cost, here.settings, replicas=replicas, routing="round_robin")
        rates.append(0.8 * len(some) / float(np.percentile(done.e2e_s, 80.0)))
    return rates[1] / rates[0]


def claims() -> tuple[Claim, ...]:
    """Return every claim of the paper."""
    kernels = (
        "same kernels here on both sides; the published figures imply 0.43 and 0.20 of the peak, so"
        " most of the published ratio is kernels"
    )
    return (
        Claim(
            id="fastgen-throughput",
            claim="throughput over vLLM's at a mean latency of 9 s",
            setting=f"{SETTING}, 60 outputs, 12 to 24 clients",
            source=PAPER,
            published=2.0,
            unit="×",
            replays=True,
            band=DIRECTION,
            ours=throughput_ratio,
            note=kernels,
        ),
        Claim(
            id="fastgen-tail",
            claim="P95 time between tokens, vLLM over SplitFuse",
            setting=f"{SETTING}, 128 outputs, 16 clients",
            source=PAPER,
            published=3.7,
            unit="×",
            replays=True,
            band=DIRECTION,
            ours=token_tail_ratio,
            note=kernels,
        ),
        Claim(
            id="fastgen-replicas",
            claim="throughput of 16 replicas over one",
            setting=f"{SETTING}, 60 outputs",
            source=PAPER,
            published=16.2,
            unit="×",
            replays=True,
            band=within(16.2, 0.03, "3 %: replicas share nothing"),
            ours=replica_scaling,
        ),
        Claim(
            id="fastgen-effective",
            claim="effective throughput at 4 tokens/s over vLLM's peak",
            setting=f"{SETTING}, 60 outputs",
            source=PAPER,
            published=2.25,
            unit="×",
            reason="its limit is a moving average over each request's own gaps; a replay keeps gaps"
            " pooled",
        ),
        Claim(
            id="fastgen-latency",
            claim="vLLM's mean latency over SplitFuse's at 1.2 requests/s",
            setting=f"{SETTING}",
            source=PAPER,
            published=2.0,
            unit="×",
            reason="vLLM's published 0.67 requests/s at 9 s lies below that rate: on its kernels of"
            " 2023 alone",
        ),
    )
