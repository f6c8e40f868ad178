"""What DistServe (arXiv:2401.09670, OSDI 2024) and its repository claim."""

from __future__ import annotations

from functools import partial

from planner.reproduce import distserve_pools as pools
from planner.reproduce import distserve_steps as steps
from planner.reproduce.claim import DIRECTION, Band, Claim, within

PAPER = "arXiv:2401.09670v3"
REPOSITORY = "LLMServe/DistServe"
SLOPE = "25 %: fitted by the authors to kernels of 2023"

# (model, TP) -> tokens, memory share 0.95.
KV_TOKENS = {
    ("opt-13b", 1): 66_144,
    ("opt-13b", 2): 163_008,
    ("opt-13b", 4): 356_736,
    ("opt-66b", 4): 78_496,
    ("opt-66b", 8): 212_304,
    ("opt-175b", 8): 59_520,
}

# (model, TP) -> prefill b in ms, c in 1e-6 ms, decode a in ms, k in µs; SwiftTransformer.
COEFFICIENTS = {
    ("opt-13b", 1): (0.10191, 7.122, 19.935, 0.6269),
    ("opt-13b", 2): (0.06858, 2.45, 13.295, 0.3411),
    ("opt-13b", 4): (0.03808, 0.5226, 10.256, 0.1879),
    ("opt-66b", 2): (0.27423, 22.48, 48.288, 0.9424),
    ("opt-66b", 4): (0.15135, 8.317, 30.76, 0.4519),
    ("opt-66b", 8): (0.10659, 3.391, 23.155, 0.2269),
}
# The same of vLLM in the same repository.
COEFFICIENTS_VLLM = {
    ("opt-13b", 1): (0.14051, 8.077, 23.475, 0.5929),
    ("opt-66b", 4): (0.21287, 46.01, 39.582, 0.6946),
    ("opt-66b", 8): (0.15737, 4.532, 31.176, 0.2756),
}

SQUARES = (
    "the authors' c does not scale as attention must: four times the GPUs divide it by 14 for"
    " OPT-13B; it takes up what b, fitted beside it, leaves"
)
OLD_VLLM = (
    "vLLM of 2023 is 38 to 48 % slower per prompt token than the same authors' engine on the same"
    " GPU, which is its kernels and not the hardware"
)


OLD_VLLM_READS = (
    "at TP4 and TP8 its decode attention is 21 to 54 % slower than the same authors' engine on the"
    " same GPU: kernels of 2023"
)
HOST = (
    "the host time of its engine is in the intercept and in no zero-shot step: 1 to 7 ms, which"
    " weigh most where many GPUs share the weights"
)


def named(model: str, tp: int) -> str:
    """Return a claim's place: opt-13b-tp2."""
    return f"{model}-tp{tp}"


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


def coefficient_claims() -> tuple[Claim, ...]:
    """Return the coefficients of the authors' latency model."""
    found = []
    for engine, table in (("", COEFFICIENTS), ("-vllm", COEFFICIENTS_VLLM)):
        for key, (token_ms, square, start_ms, context) in table.items():
            where = f"{key[0].upper()}, TP{key[1]}, A100-80GB SXM"
            by = " of vLLM" if engine else ""
            common = {"setting": where, "source": f"{REPOSITORY}, fitted profiles"}
            found += [
                Claim(
                    id=f"distserve-b-{named(*key)}{engine}",
                    claim=f"prefill time per token{by}",
                    published=token_ms,
                    unit="ms",
                    band=within(token_ms, 0.25, SLOPE),
                    ours=partial(steps.token_ms, *key),
                    note=OLD_VLLM if engine else "",
                    **common,  # type: ignore[arg-type]
                ),
                Claim(
                    id=f"distserve-k-{named(*key)}{engine}",
                    claim=f"decode time per cached token{by}",
                    published=context,
                    unit="µs",
                    band=within(context, 0.25, SLOPE),
                    ours=partial(steps.context_us, *key),
                    note=OLD_VLLM_READS if engine else "",
                    **common,  # type: ignore[arg-type]
                ),
                Claim(
                    id=f"distserve-c-{named(*key)}{engine}",
                    claim=f"prefill time per squared token{by}",
                    published=1e-6 * square,
                    unit="ms",
                    band=within(1e-6 * square, 0.25, SLOPE),
                    ours=partial(steps.square_ms, *key),
                    note=SQUARES,
                    **common,  # type: ignore[arg-type]
                ),
            ]
            if not engine:
                found.append(
                    Claim(
                        id=f"distserve-a-{named(*key)}",
                        claim="decode step without context",
                        published=start_ms,
                        unit="ms",
                        band=within(start_ms, 0.25, SLOPE),
                        ours=partial(steps.decode_intercept_ms, *key),
                        note=HOST,
                        **common,  # type: ignore[arg-type]
                    )
                )
    rest = Claim(
        id="distserve-a-prefill",
        claim="prefill intercept of OPT-13B, TP1",
        setting="A100-80GB SXM",
        source=f"{REPOSITORY}, fitted profiles",
        published=18.103,
        unit="ms",
        reason="its engine's host time and the range of its fit; so are the decode times per"
        " sequence",
    )
    return (*found, rest)


OUTPUTS = (
    "the chats at hand have outputs of 395 tokens on average, the paper's 200; with outputs scaled"
    " to that the ratio is 1.19: the decode replica decides"
)


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
    return (*memory_claims(), *coefficient_claims(), *pool_claims(), *absent_claims())
