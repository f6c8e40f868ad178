"""Sarathi-Serve's claims about pipelines: LLaMA2-70B and Falcon-180B on TP4 × PP2.

Kernels and host are those fitted to Yi-34B, each stage launching its own layers. Azure's machines
join four A100 by NVLink in pairs, so tensor parallelism over four crosses PCIe; the A40 are taken
to do the same. The limit on running requests holds for both stages together, as in the artefact.
"""

from __future__ import annotations

from functools import cache, partial

from planner.reproduce.claim import POINTS, UNPUBLISHED, Claim, Inputs, within
from planner.reproduce.physics import decode_s, prefill_s
from planner.reproduce.replays import Machine
from planner.reproduce.sarathi_serve_runs import (
    LONGEST_CHAT,
    SARATHI_512,
    SARATHI_2048,
    VLLM,
    Policy,
    capacity_per_s,
    machine,
)
from planner.spec import catalog

PAPER = "arXiv:2403.02310v3"
RATIO = "30 %: a ratio of two capacities, each steep in the time between tokens"
READ_OFF = "35 %: read off a figure"
ON_A40 = "LLaMA2-70B, TP4 × PP2, 8 A40, ShareGPT lengths"
ON_A100 = "Falcon-180B, TP4 × PP2, 8 A100-80GB PCIe in two machines, ShareGPT lengths"

SARATHI_1536 = ("sarathi_serve", 1536, 128)
ORCA_8 = ("orca", 8 * LONGEST_CHAT, 8)


@cache
def llama(policy: Policy, stages: int) -> Machine:
    """Return LLaMA2-70B on eight A40."""
    name, budget, seqs = policy
    model, gpu = catalog.model("meta-llama/Llama-2-70b-hf"), catalog.gpu("a40")
    return machine(model, gpu, 8 // stages, name, budget=budget, seqs=seqs, pp=stages)


@cache
def falcon(policy: Policy, stages: int) -> Machine:
    """Return Falcon-180B on eight A100, as two stages or one."""
    name, budget, seqs = policy
    model, gpu = catalog.model("tiiuae/falcon-180B"), catalog.gpu("a100-80gb-pcie")
    return machine(model, gpu, 8 // stages, name, budget=budget, seqs=seqs, pp=stages)


Run = tuple[str, Policy, int, float]  # model, policy, stages, limit in s
MACHINES = {"llama": llama, "falcon": falcon}


@cache
def capacity(run: Run, inputs: Inputs) -> float:
    """Return the capacity of a machine under a policy inside a P99 time between tokens, 1/s."""
    model, policy, stages, limit_s = run
    return capacity_per_s(MACHINES[model](policy, stages), inputs, limit_s)


def capacity_ratio(ours: Run, theirs: Run, inputs: Inputs) -> float:
    """Return the ratio of two capacities."""
    return capacity(ours, inputs) / capacity(theirs, inputs)


def prefill_stage_ms(_: Inputs) -> float:
    """Return Falcon's time of a prompt of 4,096 in one of two stages, in ms."""
    return 1e3 * prefill_s(falcon(VLLM, 2).cost, 4096) / 2


def decode_pipeline_ms(batch: int, _: Inputs) -> float:
    """Return Falcon's time of a decode batch through both stages, in ms."""
    return 1e3 * decode_s(falcon(VLLM, 2).cost, batch, 1024.0)


def decode_stage_ms(_: Inputs) -> float:
    """Return Falcon's time of a decode batch of 32 in one of two stages, in ms."""
    return 1e3 * decode_s(falcon(VLLM, 2).cost, 32, 1024.0) / 2


OWN_MEDIAN = (
    "the paper's own median time between tokens, through both stages, is 85 to 150 ms for batches"
    " of 8 to 128, as ours is; 200 ms in one stage does not go with it"
)


def step_claims() -> tuple[Claim, ...]:
    """Return what a stage takes, and both stages."""
    stages = tuple(
        Claim(
            id=f"ss-stage-{name}",
            claim=words,
            setting=ON_A100,
            source=f"{PAPER} §3.3, figure on pipeline bubbles",
            published=value,
            unit="ms",
            after_fit=True,
            band=within(value, 0.25, "25 %: fitted to another model's kernels"),
            ours=ours,
            note=note,
            cause=POINTS,
        )
        for name, words, value, ours, note in (
            ("prefill", "prompt of 4,096 in one stage", 1150.0, prefill_stage_ms, ""),
            (
                "decode",
                "decode batch of 32 in one stage",
                200.0,
                decode_stage_ms,
                OWN_MEDIAN,
            ),
        )
    )
    medians = tuple(
        Claim(
            id=f"ss-stages-decode-{batch}",
            claim=f"median time between tokens, decodes alone, batch {batch}, both stages",
            setting=ON_A100,
            source=f"{PAPER} figure 13, read off",
            published=value,
            unit="ms",
            after_fit=True,
            band=within(value, 0.35, READ_OFF),
            ours=partial(decode_pipeline_ms, batch),
        )
        for batch, value in ((8, 85.0), (128, 150.0))
    )
    return (*stages, *medians)


def ratio_claims() -> tuple[Claim, ...]:
    """Return ratios of capacities."""

    def claim(
        name: str,
        words: str,
        published: float,
        ours: Run,
        theirs: Run,
        source: str = "§5.3, figure 13",
        note: str = "",
    ) -> Claim:
        where = ON_A40 if ours[0] == "llama" else ON_A100
        return Claim(
            id=f"ss-pipeline-{name}",
            claim=f"capacity over {words}",
            setting=f"{where}, P99 between tokens {ours[3]:g} s",
            source=f"{PAPER} {source}",
            published=published,
            unit="×",
            after_fit=True,
            replays=True,
            band=within(published, 0.3, RATIO),
            ours=partial(capacity_ratio, ours, theirs),
            note=note,
            cause=UNPUBLISHED,
        )

    ethernet = (
        "the all-reduce between two machines is the planner's for PCIe: none over 100 Gb Ethernet"
        " is measured"
    )
    return (
        claim(
            "llama-vllm",
            "vLLM",
            4.3,
            ("llama", SARATHI_512, 2, 1.0),
            ("llama", VLLM, 2, 1.0),
            note="the text does not say at which limit; taken as the strict one",
            source="§5.1",
        ),
        claim(
            "llama-orca",
            "Orca",
            6.31,
            ("llama", SARATHI_1536, 2, 5.0),
            ("llama", ORCA_8, 2, 5.0),
            source="§5.1",
        ),
        claim(
            "falcon-vllm",
            "vLLM on the same pipeline",
            3.6,
            ("falcon", SARATHI_512, 2, 1.0),
            ("falcon", VLLM, 2, 1.0),
        ),
        claim(
            "falcon-vllm-tp8",
            "vLLM on TP8",
            4.3,
            ("falcon", SARATHI_512, 2, 1.0),
            ("falcon", VLLM, 1, 1.0),
            note=ethernet,
        ),
        claim(
            "falcon-relaxed",
            "vLLM on the same pipeline, relaxed",
            1.48,
            ("falcon", SARATHI_2048, 2, 5.0),
            ("falcon", VLLM, 2, 5.0),
        ),
    )


CLOSE_LIMIT = (
    "the 2 s of median queueing bind, not the time between tokens (0.45 s): where prompts begin to"
    " queue hangs on the step of 512 tokens alone, which was fitted on another model"
)


def absolute_claims() -> tuple[Claim, ...]:
    """Return capacities that figures show."""
    points: tuple[tuple[str, str, float, Run], ...] = (
        ("llama-sarathi", "chunks of 1,536", 0.83, ("llama", SARATHI_1536, 2, 5.0)),
        ("llama-orca", "Orca", 0.13, ("llama", ORCA_8, 2, 5.0)),
        ("falcon-sarathi", "chunks of 512", 0.62, ("falcon", SARATHI_512, 2, 1.0)),
        ("falcon-vllm", "vLLM", 0.18, ("falcon", VLLM, 2, 1.0)),
        ("falcon-relaxed-sarathi", "chunks of 2,048", 0.75, ("falcon", SARATHI_2048, 2, 5.0)),
        ("falcon-relaxed-vllm", "vLLM", 0.50, ("falcon", VLLM, 2, 5.0)),
    )
    return tuple(
        Claim(
            id=f"ss-qps-{name}",
            claim=f"capacity, {words}",
            setting=f"{ON_A40 if run[0] == 'llama' else ON_A100}, P99 between tokens {run[3]:g} s",
            source=f"{PAPER} figures 11 and 13, read off",
            published=value,
            unit="1/s",
            after_fit=True,
            replays=True,
            band=within(value, 0.35, READ_OFF),
            ours=partial(capacity, run),
            note="" if run[1] != SARATHI_512 else CLOSE_LIMIT,
            cause=UNPUBLISHED,
        )
        for name, words, value, run in points
    )


def claims() -> tuple[Claim, ...]:
    """Return the claims about pipelines."""
    median = Claim(
        id="ss-pipeline-median",
        claim="median time between tokens on TP8 over TP4 × PP2",
        setting=ON_A100,
        source=f"{PAPER} figure 13",
        published=2.2,
        unit="×",
        reason="an all-reduce over 100 Gb Ethernet between two machines is measured nowhere",
    )
    return (*step_claims(), *ratio_claims(), *absolute_claims(), median)
