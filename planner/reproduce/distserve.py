"""What DistServe (arXiv:2401.09670, OSDI 2024) and its repository claim."""

from __future__ import annotations

from functools import partial

from planner.reproduce import distserve_coefficients as coefficients
from planner.reproduce import distserve_pools as pools
from planner.reproduce import distserve_steps as steps
from planner.reproduce.claim import DIRECTION, UNPUBLISHED, Band, Claim, Variant, within
from planner.reproduce.distserve_coefficients import named

PAPER = "arXiv:2401.09670v3"
REPOSITORY = "LLMServe/DistServe"

# (model, TP) -> tokens, memory share 0.95.
KV_TOKENS = {
    ("opt-13b", 1): 66_144,
    ("opt-13b", 2): 163_008,
    ("opt-13b", 4): 356_736,
    ("opt-66b", 4): 78_496,
    ("opt-66b", 8): 212_304,
    ("opt-175b", 8): 59_520,
}


def memory_claims() -> tuple[Claim, ...]:
    """Return the KV tokens that fit."""
    return tuple(
        Claim(
            id=f"distserve-kv-{named(*key)}",
            claim=f"KV tokens, {key[0].upper()} on {key[1]} GPU",
            setting="A100-80GB, memory share 0.95, blocks of 16",
            source=f"{REPOSITORY}, max_num_tokens.csv",
            published=float(tokens),
            unit="tokens",
            band=within(tokens, 0.06, "6 %: activations and the driver's share are not stated"),
            ours=partial(steps.tokens_that_fit, *key),
        )
        for key, tokens in KV_TOKENS.items()
    )


OUTPUTS = (
    "the chats at hand have outputs of 395 tokens on average, the paper's 200: the decode replica"
    " decides"
)
PAPER_OUTPUT = 200.3  # tokens, mean of the paper's chats (figure 7)


def pool_claims() -> tuple[Claim, ...]:
    """Return rates of separate pools against vLLM."""
    chats = "chats below 2,048 tokens, 90 % inside the limits, rate per GPU"
    rates = tuple(
        Claim(
            id=f"distserve-rate-{model}",
            claim="rate over vLLM's",
            setting=f"{model.upper()}, {chats}, {placement}",
            source=f"{PAPER} §6.2: 2.0 to 4.6 over three models",
            published=2.0,
            unit="×",
            after_fit=True,
            replays=True,
            band=DIRECTION,
            ours=partial(pools.rate_ratio, model),
            note=note,
            cause=UNPUBLISHED if note else "",
            variants=(
                Variant(
                    setting=f"outputs scaled to the paper's mean of {PAPER_OUTPUT:.0f} tokens",
                    ours=partial(pools.rate_ratio, model, mean_output=PAPER_OUTPUT),
                ),
            ),
        )
        for model, placement, note in (
            ("opt-13b", "TP1 against prefill TP2 and decode TP1", ""),
            ("opt-66b", "TP4 against prefill TP4 and decode TP2 × PP2", OUTPUTS),
        )
    )
    transfer = Claim(
        id="distserve-transfer",
        claim="P95 time of a KV transfer, at most",
        setting="OPT-175B, NVLink between equal stages",
        source=f"{PAPER} §6.3",
        published=30.0,
        unit="ms",
        replays=True,
        band=Band(low=0.0, high=30.0, why="the full rate of the link is a lower bound"),
        ours=pools.tail_transfer_ms,
    )
    return (*rates, transfer)


def absent_claims() -> tuple[Claim, ...]:
    """Return what is not computed."""
    return tuple(
        Claim(
            id=f"distserve-{name}",
            claim=words,
            setting=setting,
            source=f"{PAPER} {where}",
            published=value,
            unit=unit,
            reason=reason,
        )
        for name, words, setting, where, value, unit, reason in (
            (
                "phases",
                "goodput per GPU of 2 prefill and 1 decode over colocated",
                "OPT-13B, 512 and 64 tokens",
                "figure 1",
                2.1,
                "×",
                "its limits are in the figure alone, which was not recovered",
            ),
            (
                "attainment",
                "vLLM's attainment at 1 request/s",
                "OPT-66B, ablation",
                "table 2",
                97.0,
                "%",
                "the table does not say at which limits",
            ),
            (
                "opt-175b",
                "rate over vLLM's",
                "OPT-175B, prefill TP3 × PP3, decode TP4 × PP3",
                "§6.2",
                4.6,
                "×",
                "no profile of that model is at hand",
            ),
            (
                "humaneval",
                "rate over vLLM's, code",
                "OPT-66B, HumanEval",
                "§6.2",
                5.7,
                "×",
                "its HumanEval lengths are absent",
            ),
            (
                "longbench",
                "rate over vLLM's, summaries",
                "OPT-66B, LongBench",
                "§6.2",
                4.3,
                "×",
                "its LongBench lengths are absent",
            ),
            (
                "mii",
                "rate over DeepSpeed-MII's, chats, at most",
                "OPT-13B and 66B",
                "§6.2",
                7.4,
                "×",
                "no profile of that engine is at hand",
            ),
        )
    )


def claims() -> tuple[Claim, ...]:
    """Return every claim of the paper."""
    return (*memory_claims(), *coefficients.claims(), *pool_claims(), *absent_claims())
