"""SARATHI's pipelines: GPT-3 on 64 A100 as TP8 × PP8, or as eight replicas of TP8.

The paper simulates them itself, on profiles of one 8-GPU machine: 10,000 requests that are all
there from the start, 1,024 to 4,096 tokens long (Zipf, θ = 0.4), P:D = 10. A pipeline holds a batch
of 27 in each of its stages, a replica one of 11.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from planner.ingest.requests import Requests
from planner.reproduce import replays
from planner.reproduce.claim import DIRECTION, Band, Claim, Inputs, within
from planner.reproduce.physics import deployment, step_cost
from planner.reproduce.shapes import GPT3_175B
from planner.sim.replay import Replay, replay
from planner.sim.settings import SchedulerSettings
from planner.spec import catalog

COUNT, SEED = 10_000, 1
SHORTEST, LONGEST, THETA, RATIO = 1024, 4096, 0.4, 10
STAGES, PIPELINE_BATCH, REPLICA_BATCH = 8, 27, 11
CHUNK = 256


@cache
def requests() -> Requests:
    """Return the paper's requests; the shortest length is the most frequent."""
    lengths = np.arange(SHORTEST, LONGEST + 1)
    weights = (lengths - SHORTEST + 1.0) ** -THETA
    rng = np.random.default_rng(SEED)
    total = rng.choice(lengths, size=COUNT, p=weights / weights.sum())
    outputs = np.maximum(total // (RATIO + 1), 1)
    return replays.requests_of(np.zeros(COUNT), total - outputs, outputs)


@cache
def run(policy: str, stages: int) -> Replay:
    """Return the run of one pipeline, or of eight replicas where `stages` is 1."""
    gpu = catalog.gpu("a100-80gb-sxm")
    batch = PIPELINE_BATCH if stages > 1 else REPLICA_BATCH
    budget = CHUNK if policy == "sarathi" else LONGEST * batch
    made = deployment(
        GPT3_175B,
        gpu,
        tensor_parallel_size=8,
        pipeline_parallel_size=stages,
        max_num_batched_tokens=budget,
        max_num_seqs=batch * stages,
        max_model_len=LONGEST,
    )
    settings = SchedulerSettings(
        policy=policy,
        max_num_batched_tokens=budget,
        max_num_seqs=batch * stages,
        max_model_len=LONGEST,
        block_size=LONGEST,
        num_blocks=batch * stages,
        pp_max_micro_batch_size=batch if stages > 1 else 0,
    )
    return replay(
        requests(),
        step_cost(GPT3_175B, gpu, made),
        settings,
        replicas=1 if stages > 1 else STAGES,
        routing="round_robin",
        bin_s=1e6,
    )


def bubble_ratio(_: Inputs) -> float:
    """Return the median bubble of a request with whole prompts over that with chunks."""
    theirs, ours = run("orca", STAGES), run("sarathi", STAGES)
    return float(np.median(theirs.bubble_s) / np.median(ours.bubble_s))


def completion_s(policy: str, stages: int) -> float:
    """Return the time until the last request is answered, in s."""
    return run(policy, stages).totals.span_s


def over_pipeline(_: Inputs) -> float:
    """Return Orca's completion time on the pipeline over SARATHI's on it."""
    return completion_s("orca", STAGES) / completion_s("sarathi", STAGES)


def over_replicas(_: Inputs) -> float:
    """Return Orca's completion time on eight replicas over SARATHI's on the pipeline."""
    return completion_s("orca", 1) / completion_s("sarathi", STAGES)


def replicas_over_pipeline(_: Inputs) -> float:
    """Return Orca's completion time on the pipeline over that on eight replicas."""
    return completion_s("orca", STAGES) / completion_s("orca", 1)


PAPER = "arXiv:2308.16369"
GPT_3 = "GPT-3 on 64 A100, 10,000 requests of 1,024 to 4,096 tokens, P:D 10"
BUBBLES = (
    "here a prompt holds each of eight stages for 56 ms, a decode batch for 8 ms, and none can pass"
    " it. Fixed micro-batches that take strict turns, which a test simulates apart, give the same"
    " within 10 %: what differs are the profiles of the authors' simulator, which are not at hand"
)


def claims() -> tuple[Claim, ...]:
    """Return the claims about GPT-3's pipelines, which the paper simulates too."""
    return tuple(
        Claim(
            id=f"sarathi-{name}",
            claim=words,
            setting=GPT_3,
            source=f"{PAPER} §5.3",
            published=value,
            unit="×",
            replays=True,
            band=band,
            ours=ours,
            note=note,
        )
        for name, words, value, band, ours, note in (
            (
                "s13",
                "median bubble of a request on TP8 × PP8, Orca over SARATHI",
                6.29,
                Band(low=4.5, high=8.5, why="4.5 to 8.5: the small rest of bubbles is noise"),
                bubble_ratio,
                BUBBLES,
            ),
            (
                "s14-pipeline",
                "completion time on TP8 × PP8, Orca over SARATHI",
                1.91,
                within(1.91, 0.2, "20 %: a simulation against a simulation"),
                over_pipeline,
                BUBBLES,
            ),
            (
                "s14-replicas",
                "completion time, Orca on 8 × TP8 over SARATHI on TP8 × PP8",
                1.48,
                within(1.48, 0.2, "20 %: a simulation against a simulation"),
                over_replicas,
                "",
            ),
            (
                "s14-order",
                "completion time of Orca, TP8 × PP8 over 8 × TP8",
                1.28,
                DIRECTION,
                replicas_over_pipeline,
                BUBBLES,
            ),
        )
    )
