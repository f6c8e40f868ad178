"""What keeps a deployment's settings from being replayed."""

from __future__ import annotations

from planner.errors import Problem
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine

POLICIES = (
    "vllm_v1",
    "vllm_v0",
    "sglang",
    "orca",
    "sarathi",
    "sarathi_serve",
    "dynamic_splitfuse",
)
MAX_SLOTS = 1 << 14  # what the kernel's packed heap entries can address


def unknown(
    deployment: Deployment, engine: Engine, acceptance_rates: tuple[float, ...]
) -> list[Problem]:
    """Return what keeps this deployment from being replayed."""
    found = []
    if engine.policy not in POLICIES:
        hint = f"replay knows {', '.join(POLICIES)}; for this engine the closed forms apply"
        found.append(
            Problem(message=f"{engine.id} schedules by the policy {engine.policy}", hint=hint)
        )
    drafts = deployment.num_speculative_tokens
    if engine.policy == "sglang" and (drafts or deployment.pipeline_parallel_size > 1):
        hint = "set num_speculative_tokens to 0 and pipeline_parallel_size to 1, or take vllm"
        found.append(
            Problem(message="replay covers pipelines and speculation for vllm alone", hint=hint)
        )
    found += size_problems(deployment.max_num_batched_tokens, deployment.max_num_seqs)
    return found + rate_problems(drafts, acceptance_rates)


def size_problems(budget: int, seqs: int) -> list[Problem]:
    """Return what keeps `seqs` sequences from being replayed with a budget of tokens."""
    found = []
    if budget < seqs:
        found.append(
            Problem(
                message=f"max_num_batched_tokens must be at least max_num_seqs: {budget} < {seqs}",
                hint=f"take --max-num-seqs {budget} or less, or a larger --max-num-batched-tokens",
            )
        )
    if not 1 <= seqs <= MAX_SLOTS:
        message = f"max_num_seqs must lie between 1 and {MAX_SLOTS}, not {seqs}"
        found.append(Problem(message=message, hint="take another --max-num-seqs"))
    return found


def rate_problems(drafts: int, rates: tuple[float, ...]) -> list[Problem]:
    """Return what is wrong with the acceptance rates of `drafts` drafts."""
    hint = (
        "give --acceptance-rates one share for each draft, never rising, as vLLM logs them"
        " (Per-position acceptance rate)"
    )
    if len(rates) != drafts:
        message = f"num_speculative_tokens is {drafts}, but there are {len(rates)} acceptance rates"
        return [Problem(message=message, hint=hint)]
    if any(not 0.0 <= rate <= 1.0 for rate in rates) or list(rates) != sorted(rates)[::-1]:
        shown = ", ".join(f"{rate:g}" for rate in rates)
        return [Problem(message=f"the acceptance rates {shown} are no falling shares", hint=hint)]
    return []
