"""DistServe's pools against vLLM, on step times that the authors fitted to their own profiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.reproduce import replays
from planner.reproduce.claim import Inputs
from planner.reproduce.distserve_steps import a100, opt
from planner.reproduce.physics import deployment, kv_tokens
from planner.sim.disaggregated import Link, Pool, replay_disaggregated
from planner.sim.replay import Replay
from planner.sim.settings import SchedulerSettings

LONGEST = 2048
COUNT = 300  # the artefact's prompts per rate
LENGTHS = "sharegpt_8k.csv"
NVLINK_BYTES_PER_S = 300e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Prefill ms = a + b·tokens + c·Σ length², decode ms = a + k·context + s·batch."""

    prefill: tuple[float, float, float]
    decode: tuple[float, float, float]
    tp: int
    stages: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of the replica."""
        return self.tp * self.stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A model with its limits, and where each engine runs it."""

    model: str
    ttft_s: float
    tpot_s: float
    colocated: Profile
    prefill: Profile
    decode: Profile


NONE = (0.0, 0.0, 0.0)
CHATS = {
    "opt-13b": Chat(
        model="opt-13b",
        ttft_s=0.25,
        tpot_s=0.1,
        colocated=Profile(
            prefill=(22.052, 0.14051, 8.077e-6), decode=(23.475, 5.929e-4, 0.06073), tp=1
        ),
        prefill=Profile(prefill=(14.743, 0.06858, 2.45e-6), decode=NONE, tp=2),
        decode=Profile(prefill=NONE, decode=(19.935, 6.269e-4, 0.03851), tp=1),
    ),
    "opt-66b": Chat(
        model="opt-66b",
        ttft_s=2.5,
        tpot_s=0.15,
        colocated=Profile(
            prefill=(42.965, 0.21287, 4.601e-5), decode=(39.582, 6.946e-4, 0.13581), tp=4
        ),
        prefill=Profile(prefill=(29.442, 0.15135, 8.317e-6), decode=NONE, tp=4),
        decode=Profile(prefill=NONE, decode=(48.288, 9.424e-4, 0.12755), tp=2, stages=2),
    ),
}


def cost(profile: Profile, budget: int, seqs: int) -> StepCost:
    """Return a profile as step times of batches that hold prompts or decodes, never both.

    Tokens cost b whatever they are, so a decode takes back b and pays s. A prompt of q tokens
    attends q²/2 pairs.
    """
    start, token, square = (1e-3 * x for x in profile.prefill)
    decode, context, each = (1e-3 * x for x in profile.decode)
    tokens = np.arange(budget + 1)
    tokens_s = np.asarray(token * tokens, dtype=np.float64)
    return StepCost(
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        tokens_per_decode=1,
        compute_s=np.zeros(budget + 1),
        memory_s=tokens_s,
        decode_padding=tokens,
        row_s=np.zeros(seqs + 1),
        kv_s=np.array([context]),
        window_tokens=np.zeros(1, np.int64),
        seq_s=each - token,
        pair_s=np.array([2.0 * square]),
        prefix_s=0.0,
        decode_fixed_s=decode,
        prefill_fixed_s=start,
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=False,
        stages=profile.stages,
        slowest_stage_share=1.0 / profile.stages,
    )


def settings(
    model: str, profile: Profile, policy: str, budget: int, seqs: int
) -> SchedulerSettings:
    """Return a scheduler with the KV that 0.95 of the memory holds."""
    made = deployment(
        opt(model),
        a100(),
        tensor_parallel_size=profile.tp,
        pipeline_parallel_size=profile.stages,
        gpu_memory_utilization=0.95,
    )
    return SchedulerSettings(
        policy=policy,
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        max_model_len=LONGEST,
        num_blocks=kv_tokens(opt(model), a100(), made) // 16,
    )


def colocated(chat: Chat, requests: Requests) -> Replay:
    """Return vLLM's run: prompts first, up to 16,384 tokens a step."""
    here = replays.Machine(
        cost=cost(chat.colocated, 16_384, 1024),
        settings=settings(chat.model, chat.colocated, "vllm_v0", 16_384, 1024),
    )
    return replays.run(here, requests)


def separate(chat: Chat, requests: Requests) -> Replay:
    """Return DistServe's run: one prefill and one decode replica, KV over NVLink."""
    model = opt(chat.model)
    pools = [
        Pool(
            cost=cost(profile, 8192, seqs),
            settings=settings(chat.model, profile, "vllm_v1", 8192, seqs),
        )
        for profile, seqs in ((chat.prefill, 128), (chat.decode, 1024))
    ]
    link = Link(
        kv_bytes_per_token=4.0 * model.num_layers * model.hidden_size / chat.prefill.tp,
        bytes_per_s=NVLINK_BYTES_PER_S,
    )
    return replay_disaggregated(
        requests, pools[0], pools[1], link, first_token="prefill", bin_s=1e6
    ).whole


def attained(done: Replay, chat: Chat) -> float:
    """Return the share of requests inside both limits."""
    inside = (done.ttft_s <= chat.ttft_s) & ~(done.tpot_s > chat.tpot_s)
    return float(inside.mean())


def short_pairs(inputs: Inputs, mean_output: float | None = None) -> NDArray[np.int64]:
    """Return lengths of chats below 2,048 tokens, as the paper filters them.

    Its own file counts another tokenizer's tokens and has half as long outputs; `mean_output`
    scales them to a mean.
    """
    pairs = inputs.pairs(LENGTHS)
    kept: NDArray[np.int64] = pairs[pairs.sum(axis=1) < LONGEST]
    if mean_output is None:
        return kept
    outputs = kept[:, 1] * (mean_output / kept[:, 1].mean())
    return np.stack([kept[:, 0], np.maximum(np.rint(outputs), 1).astype(np.int64)], axis=1)


@cache
def rate_per_gpu(name: str, engine: str, mean_output: float | None, inputs: Inputs) -> float:
    """Return the highest rate per GPU at which 90 % of the requests keep both limits."""
    chat, pairs = CHATS[name], short_pairs(inputs, mean_output)
    run = colocated if engine == "vllm" else separate
    gpus = chat.colocated.gpus if engine == "vllm" else chat.prefill.gpus + chat.decode.gpus

    def once(seed: int) -> float:
        def holds(per_s: float) -> bool:
            return attained(run(chat, replays.poisson(pairs, COUNT, per_s, seed)), chat) >= 0.9

        return replays.capacity(holds, 1.0)

    return replays.median_over(replays.SEEDS, once) / gpus


def rate_ratio(name: str, inputs: Inputs, *, mean_output: float | None = None) -> float:
    """Return DistServe's rate per GPU over vLLM's."""
    ours, theirs = (
        rate_per_gpu(name, engine, mean_output, inputs) for engine in ("distserve", "vllm")
    )
    return ours / theirs


def tail_transfer_ms(inputs: Inputs) -> float:
    """Return the P95 time of OPT-175B's KV over NVLink between equal stages, in ms.

    Prefill on TP3 × PP3: nine ranks hold a ninth of it each and send at once.
    """
    model = opt("opt-175b")
    tokens = float(np.percentile(short_pairs(inputs)[:, 0], 95.0))
    return 1e3 * tokens * 4.0 * model.num_layers * model.hidden_size / 9 / NVLINK_BYTES_PER_S
