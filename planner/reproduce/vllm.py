"""vLLM V1's own advice on its settings, by replay of the current version's scheduler.

Source: the project's page "Optimization and Tuning".
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from planner.reproduce import replays
from planner.reproduce.claim import DIRECTION, MODEL, Band, Claim, Inputs, Variant
from planner.reproduce.replays import Machine
from planner.sim.replay import Replay
from planner.sim.setup import deployment_of, ready
from planner.spec import catalog

PAGE = "vLLM documentation, Optimization and Tuning"
USUAL, SMALL_MODEL = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
SETTING = "Llama-3.1-8B, one H100, vLLM 0.33, 2,048 requests of ShareGPT lengths"
LENGTHS = "sharegpt_8k.csv"
COUNT, SEED = 2048, 1
STEADY_PER_S = 6.0  # a load that every budget compared here carries
ALL_AT_ONCE_PER_S = 1000.0
SMALL, DEFAULT, LARGE = 2048, 8192, 16_384


@cache
def machine(name: str = USUAL, **chosen: Any) -> Machine:  # noqa: ANN401 - fields of Deployment
    """Return one replica of a model with the `chosen` settings."""
    model, gpu = catalog.model(name), catalog.gpu("h100-sxm")
    engine = catalog.engine("vllm", "0.33")
    fields = {"max_num_seqs": 256, "max_model_len": 16_384, "enable_prefix_caching": False}
    made = ready(model, gpu, engine, deployment_of(model, gpu, engine, {**fields, **chosen}))
    return Machine(cost=made.cost, settings=made.settings)


def run(inputs: Inputs, per_s: float, **chosen: Any) -> Replay:  # noqa: ANN401 - fields
    """Return the replay of the requests at a rate, with a model and the `chosen` settings."""
    requests = replays.poisson(inputs.pairs(LENGTHS), COUNT, per_s, SEED)
    return replays.run(machine(**chosen), requests)


def small_over_large_itl(inputs: Inputs) -> float:
    """Return the P99 time between tokens with a large budget over that with a small one."""
    large, small = (
        replays.tbt_s(run(inputs, STEADY_PER_S, max_num_batched_tokens=budget))
        for budget in (DEFAULT, SMALL)
    )
    return large / small


def small_over_large_ttft(inputs: Inputs) -> float:
    """Return the mean TTFT with a small budget over that with a large one."""
    small, large = (
        float(np.mean(run(inputs, STEADY_PER_S, max_num_batched_tokens=budget).ttft_s))
        for budget in (SMALL, DEFAULT)
    )
    return small / large


def throughput_gain(name: str, inputs: Inputs, **chosen: Any) -> float:  # noqa: ANN401 - fields
    """Return the makespan with a small budget over that with one above 8,192."""
    small, large = (
        run(
            inputs, ALL_AT_ONCE_PER_S, name=name, max_num_batched_tokens=budget, **chosen
        ).totals.span_s
        for budget in (SMALL, LARGE)
    )
    return small / large


def preemptions_avoided(flag: str, value: float, inputs: Inputs) -> float:
    """Return the share of preemptions that one changed setting avoids, all requests at once."""
    base = run(inputs, ALL_AT_ONCE_PER_S, max_num_batched_tokens=DEFAULT)
    changed = run(inputs, ALL_AT_ONCE_PER_S, **{"max_num_batched_tokens": DEFAULT, flag: value})
    return 1.0 - changed.totals.preemptions / base.totals.preemptions


SMALL_HELPS = "a small budget helps ITL: P99 with 8,192 over 2,048"
LARGE_HELPS = "a large budget helps TTFT: mean with 2,048 over 8,192"
THROUGHPUT = "a budget above 8,192 helps throughput: makespan with 2,048 over 16,384"
PREEMPTED = (
    "with all requests at once this model fills the KV cache of the GPU; a large budget admits more"
    " prompts, which preempt each other twice as often and are computed again. Where nothing is"
    " preempted the advice holds, by half a per cent: this model fills the GPU with 2,048 tokens"
)
UNPREEMPTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("128 running requests, none preempted", {"max_num_seqs": 128}),
    ("two GPUs, none preempted", {"tensor_parallel_size": 2}),
)


def claims() -> tuple[Claim, ...]:
    """Return the advice, each as a ratio whose direction is claimed."""
    budget = tuple(
        Claim(
            id=f"vllm-{name}",
            claim=words,
            setting=SETTING if model == USUAL else SETTING.replace("Llama-3.1-8B", "Qwen2.5-0.5B"),
            source=PAGE,
            published=1.0,
            unit="×",
            replays=True,
            band=DIRECTION,
            ours=ours,
            note=note,
            cause=MODEL,
            variants=tuple(
                Variant(setting=words, ours=partial(throughput_gain, model, **chosen))
                for words, chosen in UNPREEMPTED
            )
            if name.startswith("large-throughput")
            else (),
        )
        for name, model, words, ours, note in (
            ("small-itl", USUAL, SMALL_HELPS, small_over_large_itl, ""),
            ("large-ttft", USUAL, LARGE_HELPS, small_over_large_ttft, ""),
            (
                "large-throughput",
                SMALL_MODEL,
                THROUGHPUT,
                partial(throughput_gain, SMALL_MODEL),
                "a small model on a large GPU, as the page has it",
            ),
            (
                "large-throughput-8b",
                USUAL,
                THROUGHPUT,
                partial(throughput_gain, USUAL),
                PREEMPTED,
            ),
        )
    )
    preemption = tuple(
        Claim(
            id=f"vllm-preempt-{flag}",
            claim=f"preempted less with {flag} {value:g}",
            setting=f"{SETTING}, all at once",
            source=PAGE,
            published=0.0,
            unit="share avoided",
            replays=True,
            band=Band(low=1e-9, high=1.0, why="direction alone: any share avoided"),
            ours=partial(preemptions_avoided, flag, value),
        )
        for flag, value in (
            ("gpu_memory_utilization", 0.95),
            ("max_num_seqs", 128),
            ("max_num_batched_tokens", SMALL),
            ("tensor_parallel_size", 2),
        )
    )
    return (*budget, *preemption)
