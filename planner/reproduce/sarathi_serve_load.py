"""What Sarathi-Serve claims of Yi-34B under load: latencies, and capacities inside its limits."""

from __future__ import annotations

from functools import partial

from planner.reproduce import sarathi_serve_runs as runs
from planner.reproduce.claim import DIRECTION, POINTS, Band, Claim, Variant, within
from planner.reproduce.sarathi_serve_fit import LARGE_BATCHES, SMALL_BATCHES
from planner.reproduce.sarathi_serve_runs import (
    ORCA,
    OWN_DRAW,
    SARATHI_512,
    SARATHI_2048,
    VLLM,
)

PAPER = "arXiv:2403.02310v3"
ON_YI = "Yi-34B, TP2, A100-80GB PCIe, NVLink pair"
CHATS = f"{ON_YI}, ShareGPT lengths, Poisson"
OWN = "the artefact's own draw of lengths and gaps"
LOADED = "35 %: 128 requests, one seed"
RATIO = "30 %: a ratio of two capacities, each steep in the time between tokens"
NO_LONG_LENGTHS = "needs the arxiv-summarization lengths up to 16,384 tokens, which are absent"


def loaded_claims() -> tuple[Claim, ...]:
    """Return latencies of 128 chats under load."""
    tails = tuple(
        Claim(
            id=f"ss-tbt-{name}-{per_s}",
            claim=f"P99 time between tokens at {per_s} requests/s, {words}",
            setting=f"{CHATS}, 128 requests",
            source=f"{PAPER} figure 7, artefact",
            published=value,
            unit="s",
            after_fit=True,
            replays=True,
            band=within(value, 0.35, LOADED),
            ours=partial(runs.p99_tbt_s, policy, budget, 256, per_s),
            variants=(
                Variant(
                    setting=OWN,
                    ours=partial(runs.p99_tbt_s, policy, budget, 256, per_s, seeds=OWN_DRAW),
                ),
            ),
        )
        for name, words, policy, budget, points in (
            ("sarathi", "chunks of 1,536", "sarathi_serve", 1536, ((0.55, 0.525), (1.0, 0.54))),
            ("vllm", "vLLM", "vllm_v0", 8192, ((0.55, 1.39), (1.0, 2.05))),
        )
        for per_s, value in points
    )
    ablation = tuple(
        Claim(
            id=f"ss-ablation-{name}-{metric}",
            claim=f"{words}: {what} at 1 request/s",
            setting=f"{CHATS}, 128 requests",
            source=f"{PAPER} table 4; chunk 512 of the script, the caption says 1,024",
            published=value,
            unit="s",
            after_fit=True,
            replays=True,
            band=within(value, 0.35, LOADED)
            if metric == "tbt"
            else Band(
                low=0.5 * value, high=2.0 * value, why="a factor of 2: TTFT hangs on the seed"
            ),
            ours=partial(measure, "sarathi_serve", budget, 128, 1.0),
            note=note,
            cause=POINTS,
            variants=(
                Variant(
                    setting=OWN,
                    ours=partial(measure, "sarathi_serve", budget, 128, 1.0, seeds=OWN_DRAW),
                ),
                *(
                    Variant(
                        setting=f"chunks of {chunk:,} in place of whole prompts",
                        ours=partial(measure, "sarathi_serve", chunk, 128, 1.0),
                    )
                    for chunk in ((4096, 2048) if name == "hybrid" else ())
                ),
            ),
        )
        for name, words, budget, values, note in (
            ("hybrid", "whole prompts with decodes", 8192, (0.53, 0.68), WHOLE_PROMPTS),
            ("both", "chunks with decodes", 512, (0.76, 0.14), ""),
        )
        for metric, what, value, measure in (
            ("ttft", "P50 TTFT", values[0], runs.p50_ttft_s),
            ("tbt", "P99 time between tokens", values[1], runs.p99_tbt_s),
        )
    )
    chunked_only = Claim(
        id="ss-ablation-chunks",
        claim="chunks without decodes beside them: P99 time between tokens",
        setting=f"{CHATS}, 128 requests",
        source=f"{PAPER} table 4",
        published=0.17,
        unit="s",
        reason="its script's policy, chunk and decode steps by turns, is none the replay knows",
    )
    makespan = Claim(
        id="ss-makespan",
        claim="makespan of 128 long prompts, Sarathi over vLLM",
        setting=ON_YI,
        source=f"{PAPER}, artefact",
        published=0.89,
        unit="×",
        reason=NO_LONG_LENGTHS,
    )
    return (*tails, *ablation, chunked_only, makespan)


WHOLE_PROMPTS = (
    "27 % of these prompts are longer than 3,500 tokens and take 0.69 s whole, in the fit and by"
    " the paper's step times, and each stalls every decode: 0.68 s is not the P99 of such stalls"
)

ABSOLUTE = (
    "vLLM comes out too low, 0.22 requests/s, where the ratio puts it at 0.31; chunks of 512 come"
    " out right (1.11 of 1.14 to 1.28). At 0.31 here 1.6 % of the gaps exceed the limit, since 63 %"
    " of the prompts take over 0.2 s, as the paper measures them, and stall every decode. On the"
    " artefact's own draw its vLLM has a P99 1.3 and 1.5 times ours at 0.55 and 1.0 requests/s: it"
    " cannot be the slower there and the faster here"
)


def capacity_claims() -> tuple[Claim, ...]:
    """Return capacities inside the paper's limits, Yi-34B."""

    def ratio(
        name: str, words: str, published: float, pair: tuple[runs.Policy, runs.Policy], limit: float
    ) -> Claim:
        return Claim(
            id=f"ss-capacity-{name}",
            claim=f"capacity over {words}",
            setting=f"{CHATS}, P99 time between tokens {limit:g} s, median queueing 2 s",
            source=f"{PAPER} §5.1, §5.2",
            published=published,
            unit="×",
            after_fit=True,
            replays=True,
            band=Band(low=1.3, high=2.1, why=RATIO)
            if limit == 1.0
            else within(published, 0.3, RATIO),
            ours=partial(runs.yi_capacity_ratio, *pair, limit),
            note=ABSOLUTE if name == "strict-vllm" else "",
            cause=POINTS,
            variants=(
                Variant(
                    setting=OWN,
                    ours=partial(runs.yi_capacity_ratio, *pair, limit, seeds=OWN_DRAW),
                ),
                *(
                    Variant(
                        setting=f"the host fitted to decode batches of {batches[0]} to"
                        f" {batches[-1]} alone",
                        ours=partial(runs.yi_capacity_ratio, *pair, limit, batches=batches),
                    )
                    for batches in (SMALL_BATCHES, LARGE_BATCHES)
                ),
            ),
        )

    absolute = Claim(
        id="ss-capacity-strict",
        claim="capacity, chunks of 512",
        setting=f"{CHATS}, P99 time between tokens 0.2 s, median queueing 2 s",
        source=f"{PAPER} figure 12, read off: 1.14 to 1.28",
        published=1.21,
        unit="requests/s",
        after_fit=True,
        replays=True,
        band=within(1.21, 0.35, "35 %: read off a figure"),
        ours=partial(runs.yi_capacity_of, SARATHI_512, 0.2),
    )
    mistral = Claim(
        id="ss-capacity-mistral",
        claim="capacity over vLLM, Mistral-7B",
        setting="Mistral-7B, one A100-80GB PCIe, ShareGPT lengths, P99 time between tokens 0.1 s",
        source=f"{PAPER} abstract",
        published=2.6,
        unit="×",
        after_fit=True,
        replays=True,
        band=DIRECTION,
        ours=runs.mistral_ratio,
        note="kernels and host as fitted to Yi-34B; the abstract's figure is over two length files,"
        " one of them absent",
    )
    return (
        ratio("strict-vllm", "vLLM", 3.7, (SARATHI_512, VLLM), 0.2),
        ratio("strict-orca", "Orca", 4.0, (SARATHI_512, ORCA), 0.2),
        ratio("relaxed-vllm", "vLLM, chunks of 2,048", 1.65, (SARATHI_2048, VLLM), 1.0),
        absolute,
        mistral,
        *(
            Claim(
                id=f"ss-lengths-{name}",
                claim=f"{name} tokens of a chat, median",
                setting="ShareGPT lengths",
                source=f"{PAPER} table 2",
                published=value,
                unit="tokens",
                counted=False,
                ours=partial(runs.median_length, column),
                reason="the file that the capacities are computed from, not a result",
            )
            for name, column, value in (("prompt", 0, 1730), ("output", 1, 415))
        ),
        Claim(
            id="ss-limits",
            claim="strict limit of Yi-34B",
            setting="5 decode steps of batch 32 with a prompt of 4,096",
            source=f"{PAPER} table 3",
            published=0.2,
            unit="s",
            counted=False,
            reason="a setting of the capacity claims, not a result",
        ),
    )


def claims() -> tuple[Claim, ...]:
    """Return the claims under load."""
    return (*loaded_claims(), *capacity_claims())
