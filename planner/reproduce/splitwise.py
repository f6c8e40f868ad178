"""What Splitwise (arXiv:2311.18677, ISCA 2024) and its simulator's profile claim.

The profile is of vLLM of 2023: its prompts run at half of today's efficiency and its decodes wait
for the host. One efficiency and one host time per machine are fitted; what is left is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from planner.perf.disaggregation import visible_transfer_s
from planner.perf.step_cost import StepCost
from planner.reproduce import splitwise_pools as pools
from planner.reproduce.claim import DIRECTION, HOST, Band, Claim, Inputs, Variant, within
from planner.reproduce.physics import decode_s, deployment, prefill_s, step_cost
from planner.spec import catalog
from planner.spec.gpu import Gpu
from planner.spec.model import Model

PAPER = "arXiv:2311.18677v2"
PROFILE = "Mutinifni/splitwise-sim@8f99e7dc9b, data/perf_model.csv"
CONTEXT = 512.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine's profile: ms of a lone prompt by tokens, of a decode step by batch."""

    name: str
    model: str
    gpu: str
    tp: int
    prompt_ms: Mapping[int, float]
    token_ms: Mapping[int, float]


LLAMA, BLOOM = "meta-llama/Llama-2-70b-hf", "bigscience/bloom"
MACHINES = (
    Machine(
        name="a100-tp8",
        model=LLAMA,
        gpu="a100-80gb-sxm",
        tp=8,
        prompt_ms={1024: 154.5, 2048: 274.2, 4096: 661.0, 8192: 1550.0},
        token_ms={1: 45.0, 8: 46.5, 16: 50.4, 32: 53.0, 64: 71.6},
    ),
    Machine(
        name="a100-tp4",
        model=LLAMA,
        gpu="a100-80gb-sxm",
        tp=4,
        prompt_ms={1024: 227.1, 2048: 403.3, 4096: 965.0, 8192: 2279.0},
        token_ms={1: 44.5, 16: 48.5, 32: 52.3, 64: 72.9},
    ),
    Machine(
        name="h100-tp8",
        model=LLAMA,
        gpu="h100-sxm",
        tp=8,
        prompt_ms={1024: 77.9, 2048: 136.8, 4096: 390.0, 8192: 845.0},
        token_ms={1: 30.6, 8: 32.5, 16: 34.2, 32: 38.6, 64: 50.2},
    ),
    Machine(
        name="h100-tp4",
        model=LLAMA,
        gpu="h100-sxm",
        tp=4,
        prompt_ms={1024: 105.6, 2048: 200.7, 4096: 464.0, 8192: 954.0},
        token_ms={1: 29.4, 16: 32.8, 32: 36.9, 64: 52.4},
    ),
    Machine(
        name="bloom-a100-tp8",
        model=BLOOM,
        gpu="a100-80gb-sxm",
        tp=8,
        prompt_ms={1024: 289.2, 2048: 540.4, 4096: 1348.0, 8192: 3593.0},
        token_ms={1: 49.3, 16: 57.3, 32: 65.4, 64: 96.6},
    ),
    Machine(
        name="bloom-h100-tp8",
        model=BLOOM,
        gpu="h100-sxm",
        tp=8,
        prompt_ms={1024: 132.6, 2048: 253.1, 4096: 689.0, 8192: 1535.0},
        token_ms={1: 36.2, 16: 40.6, 32: 45.8, 64: 63.8},
    ),
)


def parts(machine: Machine) -> tuple[Model, Gpu]:
    """Return the model and the GPU of a machine."""
    return catalog.model(machine.model), catalog.gpu(machine.gpu)


def cost_at(machine: Machine, compute: float, attention: float) -> StepCost:
    """Return a machine's step times at efficiencies of matrices and prefill attention."""
    model, gpu = parts(machine)
    made = deployment(
        model,
        gpu,
        tensor_parallel_size=machine.tp,
        max_num_batched_tokens=8192,
        max_num_seqs=64,
        max_model_len=16_384,
    )
    return step_cost(model, gpu, made, compute=compute, attention=attention)


@cache
def cost(name: str) -> StepCost:
    """Return a machine's step times, matrices and attention fitted to its prompt times."""
    from scipy.optimize import least_squares

    machine = next(each for each in MACHINES if each.name == name)

    def errors(shares: NDArray[np.float64]) -> list[float]:
        here = cost_at(machine, float(shares[0]), float(shares[1]))
        return [1e3 * prefill_s(here, n) / ms - 1.0 for n, ms in machine.prompt_ms.items()]

    found = least_squares(errors, (0.5, 0.3), bounds=((0.05, 0.02), (1.0, 1.0)))
    return cost_at(machine, float(found.x[0]), float(found.x[1]))


def prompt_ms(name: str, tokens: int, _: Inputs) -> float:
    """Return a lone prompt's time after the fit, in ms."""
    return 1e3 * prefill_s(cost(name), tokens)


def host_ms(machine: Machine) -> float:
    """Return what the profile's lone decode exceeds ours by, in ms: the host's time."""
    return machine.token_ms[1] - 1e3 * decode_s(cost(machine.name), 1, CONTEXT)


def token_ms(name: str, batch: int, _: Inputs) -> float:
    """Return a decode step's time with the host's time of the lone decode, in ms."""
    machine = next(each for each in MACHINES if each.name == name)
    return host_ms(machine) + 1e3 * decode_s(cost(name), batch, CONTEXT)


def token_ms_by_two(name: str, batch: int, _: Inputs) -> float:
    """Return a decode step's time where host time grows with the batch, in ms.

    Its start and its slope are those of the profile's batches of 1 and 32.
    """
    machine = next(each for each in MACHINES if each.name == name)
    lone, many = (
        machine.token_ms[size] - 1e3 * decode_s(cost(name), size, CONTEXT) for size in (1, 32)
    )
    host = lone + (many - lone) * (batch - 1) / (32 - 1)
    return host + 1e3 * decode_s(cost(name), batch, CONTEXT)


def visible_transfer_ms(_: Inputs) -> float:
    """Return what of a KV transfer layer by layer a prompt of 2,048 waits for on A100, in ms.

    Eight ranks over one 200 Gbit/s link each; the constant is not part of it.
    """
    model, _gpu = parts(MACHINES[0])
    kv_bytes = 2 * model.num_layers * model.num_kv_heads * model.head_dim * 2 / 8
    transfer = 2048 * kv_bytes / 25e9
    return 1e3 * visible_transfer_s(transfer, prefill_s(cost("a100-tp8"), 2048), model.num_layers)


def profile_claims() -> tuple[Claim, ...]:
    """Return the profile's points after the fit."""
    found = []
    for machine in MACHINES:
        setting = f"{machine.model.split('/')[1]}, TP{machine.tp}, {machine.gpu}"
        for tokens, value in machine.prompt_ms.items():
            found.append(
                Claim(
                    id=f"splitwise-prompt-{machine.name}-{tokens}",
                    claim=f"prompt of {tokens:,} tokens",
                    setting=setting,
                    source=PROFILE,
                    published=value,
                    unit="ms",
                    after_fit=True,
                    band=within(value, 0.2, "20 %: two efficiencies fitted to four points"),
                    ours=partial(prompt_ms, machine.name, tokens),
                )
            )
        for batch, value in machine.token_ms.items():
            lone = batch == 1
            found.append(
                Claim(
                    id=f"splitwise-token-{machine.name}-{batch}",
                    claim=f"decode step, batch {batch}",
                    setting=setting,
                    source=PROFILE,
                    published=value,
                    unit="ms",
                    after_fit=True,
                    counted=not lone,
                    band=within(value, 0.2, "20 %: one host time fitted to the lone decode"),
                    ours=partial(token_ms, machine.name, batch),
                    reason="the host's time is fitted to it" if lone else "",
                    note="" if batch < 64 else HOST_PER_SEQUENCE,
                    cause=HOST,
                    variants=(
                        Variant(
                            setting="host time that grows with the batch, by 1 and 32 sequences",
                            ours=partial(token_ms_by_two, machine.name, batch),
                        ),
                    )
                    if batch == 64
                    else (),
                )
            )
    return tuple(found)


HOST_PER_SEQUENCE = "the host of 2023 costs more with each sequence; only the lone decode is fitted"


def claims() -> tuple[Claim, ...]:
    """Return every claim of the paper."""
    transfer = Claim(
        id="splitwise-transfer",
        claim="KV transfer that stays visible, layer by layer, without its constant",
        setting="Llama2-70B, TP8, A100, 200 Gbit/s, prompt of 2,048",
        source=f"{PAPER} §6.1: 8 ms, constant",
        published=8.0,
        unit="ms",
        after_fit=True,
        band=Band(low=0.0, high=8.0, why="the published constant holds what else there is"),
        ours=visible_transfer_ms,
    )
    pools_claim = Claim(
        id="splitwise-aa",
        claim="throughput of pools over machines that do both, equal power",
        setting="Llama2-70B, Azure conversations, DGX-A100; 10 machines here, best division",
        source=f"{PAPER} §6.2",
        published=2.15,
        unit="×",
        after_fit=True,
        replays=True,
        band=DIRECTION,
        ours=pools.throughput_ratio,
        note="step times are the profile's own; how the paper's simulator shares a step between"
        " prompts and decodes, on which the machines that do both depend, is not in the paper",
    )
    return (*profile_claims(), transfer, pools_claim, *absent_claims())


def absent_claims() -> tuple[Claim, ...]:
    """Return what is not computed."""
    mixed = "clusters of two kinds of machine are not replayed"
    return tuple(
        Claim(
            id=f"splitwise-{name}",
            claim=words,
            setting="Llama2-70B and BLOOM-176B, Azure traces",
            source=f"{PAPER} {where}",
            published=value,
            unit="×",
            reason=reason,
        )
        for name, words, where, value, reason in (
            ("ha", "throughput of H100 prompts with A100 decodes over A100", "§6.2", 1.18, mixed),
            (
                "aa-h100",
                "throughput of A100 pools over H100 machines, equal cost",
                "§6.3",
                1.4,
                mixed,
            ),
            ("hh-cap", "power of capped H100 decodes, equal throughput", "§6.3", 0.75, CAPPED),
            ("batch", "batch requests per dollar, A100 over H100", "§6.5", 1.19, mixed),
        )
    )


CAPPED = "the profile of power-capped H100 is the uncapped one times 1.3: not measured"
