"""What SGLang (arXiv:2312.07104) claims of reusing prefixes.

Its chats through a replica that keeps a least-recently-used prefix cache, and through one that does
not. Nothing of its language, its grammar engine or its schedule by longest prefix is modelled.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.reproduce.claim import DIRECTION, Band, Claim, Inputs
from planner.reproduce.closed_loop import closed_loop, throughput_per_s
from planner.reproduce.physics import deployment, kv_tokens, step_cost
from planner.reproduce.replays import Machine
from planner.sim.replay import Replay
from planner.sim.settings import SchedulerSettings
from planner.spec import catalog

PAPER = "arXiv:2312.07104v2"
TURNS, CHATS, AT_ONCE, SEED = 4, 32, 8, 1
BLOCK = 16
SETTING = (
    "Llama-2-7B, one A10G, 4-turn chats with inputs of 256 to 512 and outputs of 4 to 8;"
    " 32 chats, 8 at a time"
)


@cache
def machine(*, caching: bool) -> Machine:
    """Return the replica with or without a prefix cache."""
    model, gpu = catalog.model("meta-llama/Llama-2-7b-hf"), catalog.gpu("a10g")
    made = deployment(model, gpu, max_num_batched_tokens=2048, max_num_seqs=256)
    settings = SchedulerSettings(
        max_num_batched_tokens=2048,
        max_num_seqs=256,
        max_model_len=4096,
        num_blocks=kv_tokens(model, gpu, made) // BLOCK,
        block_size=BLOCK,
        enable_prefix_caching=caching,
    )
    return Machine(cost=step_cost(model, gpu, made), settings=settings)


def chats() -> NDArray[np.int64]:
    """Return (prompt, output) tokens of every turn of every chat, [chats, turns, 2].

    A turn's prompt is everything said before and the new input.
    """
    rng = np.random.default_rng(SEED)
    said = rng.integers(256, 513, size=(CHATS, TURNS))
    answered = rng.integers(4, 9, size=(CHATS, TURNS))
    prompts = np.cumsum(said, axis=1) + np.cumsum(answered, axis=1) - answered
    return np.stack([prompts, answered], axis=2)


def in_order_of_turns(turns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the chat of request i so that request i − `AT_ONCE` is the turn before it, [n].

    Waves of `AT_ONCE` chats: all first turns, all second turns, and so on.
    """
    waves = np.arange(len(turns)).reshape(-1, 1, AT_ONCE)
    return np.repeat(waves, TURNS, axis=1).ravel()


def requests_of(arrival_s: NDArray[np.float64], order: NDArray[np.int64]) -> Requests:
    """Return the turns as requests whose block ids name their chat's text so far."""
    turns = chats()
    chat = in_order_of_turns(turns)[order]
    turn = order // AT_ONCE % TURNS
    prompt, output = turns[chat, turn].T
    blocks = prompt // BLOCK
    offset = np.array([0, *accumulate(int(n) for n in blocks)], np.int64)
    names = np.concatenate([c * 1000 + np.arange(n) for c, n in zip(chat, blocks, strict=True)])
    _, ids = np.unique(names, return_inverse=True)
    n = len(order)
    return Requests(
        arrival_s=arrival_s - arrival_s[0],
        input_tokens=prompt,
        output_tokens=output,
        class_id=np.zeros(n, np.int64),
        class_names=("all",),
        cached_tokens=np.zeros(n, np.int64),
        session_id=chat,
        block_tokens=BLOCK,
        block_offset=offset,
        block_ids=ids.astype(np.int64),
    )


@cache
def run(*, caching: bool) -> Replay:
    """Return the run of all chats."""
    return closed_loop(machine(caching=caching), requests_of, CHATS * TURNS, AT_ONCE)


def hit_rate(_: Inputs) -> float:
    """Return the share of prompt tokens that the cache held, in percent."""
    return 100.0 * run(caching=True).hit_share


def throughput_gain(_: Inputs) -> float:
    """Return chats per second with a prefix cache over without."""
    return throughput_per_s(run(caching=True)) / throughput_per_s(run(caching=False))


def latency_gain(_: Inputs) -> float:
    """Return the mean time to the first token without a prefix cache over with one."""
    return float(run(caching=False).ttft_s.mean() / run(caching=True).ttft_s.mean())


def claims() -> tuple[Claim, ...]:
    """Return every claim of the paper."""
    parts = (
        "the published figures are the best of nine workloads, several of which gain from the"
        " language's parallelism and its grammar engine"
    )
    gains = tuple(
        Claim(
            id=f"sglang-{name}",
            claim=words,
            setting=SETTING,
            source=f"{PAPER} §6.2",
            published=value,
            unit="×",
            replays=True,
            band=DIRECTION,
            ours=ours,
            note=parts,
        )
        for name, words, value, ours in (
            ("throughput", "throughput with reuse over without, at most", 6.4, throughput_gain),
            ("latency", "latency without reuse over with, at most", 3.7, latency_gain),
        )
    )
    hits = Claim(
        id="sglang-hits",
        claim="cache hit rate, 50 to 99 % over the workloads",
        setting=SETTING,
        source=f"{PAPER} §6.2",
        published=50.0,
        unit="%",
        replays=True,
        band=Band(low=50.0, high=99.0, why="the published range over its workloads"),
        ours=hit_rate,
    )
    absent = tuple(
        Claim(
            id=f"sglang-{name}",
            claim=words,
            setting="-",
            source=f"{PAPER} §6.2, §6.3",
            published=value,
            unit=unit,
            reason=reason,
        )
        for name, words, value, unit, reason in (
            (
                "optimal",
                "hit rate over the optimal one",
                96.0,
                "%",
                "its schedule by longest prefix is not replayed",
            ),
            (
                "production-llava",
                "production hit rate, LLaVA-Next-34B",
                52.4,
                "%",
                "the trace is private",
            ),
            (
                "production-vicuna",
                "production hit rate, Vicuna-33B",
                74.1,
                "%",
                "the trace is private",
            ),
            (
                "overhead",
                "cost of the radix tree",
                0.27,
                "%",
                "the replay charges nothing for its cache: there is no cost to compare",
            ),
        )
    )
    return (*gains, hits, *absent)
