"""Splitwise's clusters: machines that do both phases, or pools of one phase each.

Step times are its simulator's profile of Llama2-70B on DGX-A100: a prompt's time by its tokens,
interpolated and no shorter than that of 128, and a decode step's, linear in the batch. A step that
holds both takes their sum.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.reproduce import replays
from planner.reproduce.claim import Inputs
from planner.sim.disaggregated import Link, Pool, replay_disaggregated
from planner.sim.metrics import percentile_of
from planner.sim.replay import Replay, replay
from planner.sim.settings import SchedulerSettings

LENGTHS = "AzureLLMInferenceTrace_conv.csv"
MACHINES, COUNT, SEEDS = 10, 3000, range(1, 4)
PROMPT_TOKENS, BATCH = 2048, 512  # the paper's caps of a step
PROMPT_MS = {
    128: 65.347,
    256: 66.757,
    512: 92.834,
    1024: 154.46,
    2048: 274.22,
    4096: 661.22,
    8192: 1549.8,
}
TOKEN_MS = {1: 45.0, 8: 46.5, 16: 50.4, 32: 53.0, 64: 71.6}
KV_BYTES_PER_TOKEN = 2 * 80 * 8 * 128 * 2
LINK_BYTES_PER_S = 25e9  # 200 Gbit/s a machine
# Slowdowns against a lone request, at P50, P90 and P99: TTFT, TBT, E2E. All nine must hold.
PERCENTILES = (50.0, 90.0, 99.0)
LIMITS = {"ttft": (2.0, 3.0, 6.0), "tbt": (1.25, 1.5, 5.0), "e2e": (1.25, 1.5, 5.0)}


def decode_line() -> tuple[float, float]:
    """Return seconds of a decode step and of each sequence in it."""
    each, step = np.polyfit(list(TOKEN_MS), list(TOKEN_MS.values()), 1)
    return 1e-3 * float(step), 1e-3 * float(each)


def prompt_s(tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the time of a lone prompt by tokens, in s."""
    found = 1e-3 * np.interp(tokens, list(PROMPT_MS), list(PROMPT_MS.values()))
    return np.asarray(found, dtype=np.float64)


@cache
def cost() -> StepCost:
    """Return the machine's step times.

    What a short prompt costs whatever its length is fixed; tokens beyond 256 cost more, and decodes
    are taken to be too few to get there.
    """
    step, each = decode_line()
    tokens = np.arange(PROMPT_TOKENS + BATCH + 1)
    floor = 1e-3 * PROMPT_MS[128]
    return StepCost(
        max_num_batched_tokens=PROMPT_TOKENS + BATCH,
        max_num_seqs=BATCH,
        tokens_per_decode=1,
        compute_s=np.zeros(len(tokens)),
        memory_s=prompt_s(tokens) - floor,
        decode_padding=tokens,
        row_s=np.zeros(BATCH + 1),
        kv_s=np.zeros(1),
        window_tokens=np.zeros(1, np.int64),
        seq_s=each,
        pair_s=np.zeros(1),
        prefix_s=0.0,
        decode_fixed_s=step,
        prefill_fixed_s=floor,
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=False,
    )


@cache
def scheduler() -> SchedulerSettings:
    """Return continuous batching with prompts beside decodes."""
    return SchedulerSettings(
        max_num_batched_tokens=PROMPT_TOKENS + BATCH,
        max_num_seqs=BATCH,
        max_model_len=16_384,
        num_blocks=int((0.9 * 640e9 - 138e9) / (16 * KV_BYTES_PER_TOKEN)),
    )


def keeps_all(done: Replay, output_tokens: NDArray[np.int64]) -> bool:
    """Return whether all nine limits on slowdowns hold."""
    step, each = decode_line()
    alone_ttft = prompt_s(done.input_tokens)
    alone_tbt = step + each
    alone = {
        "ttft": done.ttft_s / alone_ttft,
        "tbt": done.tpot_s[output_tokens > 1] / alone_tbt,
        "e2e": done.e2e_s / (alone_ttft + (output_tokens - 1) * alone_tbt),
    }
    return all(
        percentile_of(alone[name], p) <= limit
        for name, limits in LIMITS.items()
        for p, limit in zip(PERCENTILES, limits, strict=True)
    )


def cluster_per_s(prefill: int, inputs: Inputs) -> float:
    """Return the requests/s of a cluster with `prefill` machines for prompts alone, 0 for none."""
    pairs = inputs.pairs(LENGTHS)

    def holds(per_s: float, seed: int) -> bool:
        requests = replays.poisson(pairs, COUNT, per_s, seed)
        if prefill == 0:
            done = replay(
                requests,
                cost(),
                scheduler(),
                replicas=MACHINES,
                routing="least_loaded",
                bin_s=1e6,
            )
        else:
            both = [
                Pool(cost=cost(), settings=scheduler(), replicas=n, routing="least_loaded")
                for n in (prefill, MACHINES - prefill)
            ]
            link = Link(
                kv_bytes_per_token=KV_BYTES_PER_TOKEN,
                bytes_per_s=LINK_BYTES_PER_S,
                layerwise=True,
                layers=80,
                fixed_s=8e-3,
            )
            done = replay_disaggregated(
                requests, both[0], both[1], link, first_token="prefill", bin_s=1e6
            ).whole
        return keeps_all(done, requests.output_tokens)

    return replays.median_over(
        SEEDS, lambda seed: replays.capacity(lambda per_s: holds(per_s, seed), 8.0)
    )


@cache
def best_split_per_s(inputs: Inputs) -> float:
    """Return the requests/s of the best division into pools."""
    return max(cluster_per_s(prefill, inputs) for prefill in range(2, MACHINES - 1))


def throughput_ratio(inputs: Inputs) -> float:
    """Return the best pools' throughput over that of as many machines that do both."""
    return best_split_per_s(inputs) / cluster_per_s(0, inputs)
