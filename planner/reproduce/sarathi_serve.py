"""What Sarathi-Serve (arXiv:2403.02310, OSDI 2024) and its artefact claim."""

from __future__ import annotations

from functools import partial

from planner.reproduce import sarathi_serve_runs as runs
from planner.reproduce.claim import DIRECTION, Band, Claim, within
from planner.reproduce.sarathi_serve_runs import (
    DECODE_MS,
    ORCA,
    PREFILL_MS,
    SARATHI_512,
    SARATHI_2048,
    VLLM,
)

PAPER = "arXiv:2403.02310v3"
ON_YI = "Yi-34B, TP2, A100-80GB PCIe, NVLink pair"
CHATS = f"{ON_YI}, ShareGPT lengths, Poisson"
ZERO_SHOT = "25 %: no calibration of this part, kernels of 2023"
AFTER_FIT = "12 %: two efficiencies fitted to seven points that scatter by 10 %"
HOST_FIT = "15 %: a line through eight points; the paper's own repeat at batch 4 is 40 % off"
LOADED = "35 %: 128 requests, one seed"
RATIO = "30 %: a ratio of two capacities, each steep in the time between tokens"

NO_LONG_LENGTHS = "needs the arxiv-summarization lengths up to 16,384 tokens, which are absent"


def prefill_claims() -> tuple[Claim, ...]:
    """Return prefill step times, zero-shot and after the fit."""
    found = []
    for tokens, value in PREFILL_MS.items():
        common = {
            "claim": f"prefill step of {tokens:,} tokens",
            "setting": ON_YI,
            "source": f"{PAPER}, artefact",
            "published": value,
            "unit": "ms",
        }
        found.append(
            Claim(
                id=f"ss-prefill-{tokens}",
                band=within(value, 0.25, ZERO_SHOT),
                ours=partial(runs.prefill_ms, "zero_shot", tokens),
                note="attention of the old kernels: past 8,192 tokens it decides, and the fit finds"
                " 0.25 of the peak for it against 0.61 in the calibration"
                if tokens > 8192
                else "",
                **common,  # type: ignore[arg-type]
            )
        )
        found.append(
            Claim(
                id=f"ss-prefill-{tokens}-fit",
                after_fit=True,
                band=within(value, 0.12, AFTER_FIT),
                ours=partial(runs.prefill_ms, "fit", tokens),
                **common,  # type: ignore[arg-type]
            )
        )
    warm = Claim(
        id="ss-prefill-256",
        claim="prefill step of 256 tokens",
        setting=ON_YI,
        source=f"{PAPER}, artefact",
        published=121.35,
        unit="ms",
        reason="slower than 512 tokens in the same table: a warm-up outlier of the authors",
    )
    return (*found, warm)


def decode_claims() -> tuple[Claim, ...]:
    """Return decode step times after the fit, and the hybrid step."""
    decodes = tuple(
        Claim(
            id=f"ss-decode-{batch}",
            claim=f"decode step, batch {batch}, context 1,024",
            setting=ON_YI,
            source=f"{PAPER}, artefact",
            published=value,
            unit="ms",
            after_fit=True,
            band=within(value, 0.15, HOST_FIT),
            ours=partial(runs.decode_ms, batch),
            note="the points jump by 43 % between batch 4 and 8, where no cost of a step jumps; the"
            " paper's table 2 has 68.1 ms at batch 4"
            if batch == 8
            else "",
        )
        for batch, value in DECODE_MS.items()
    )
    hybrid = Claim(
        id="ss-hybrid",
        claim="1,021 prompt tokens with 3 decodes over 1,024 prompt tokens",
        setting=ON_YI,
        source=f"{PAPER} table 2",
        published=217.65 / 217.24,
        unit="×",
        after_fit=True,
        band=Band(low=0.97, high=1.03, why="3 %: decodes ride along for nothing"),
        ours=runs.hybrid_over_prefill,
    )
    stall = Claim(
        id="ss-stall",
        claim="decode beside a whole prompt of 4,096 over decode alone",
        setting="LLaMA2-70B, TP4, 4 A100, context 4,096",
        source=f"{PAPER} §1",
        published=28.3,
        unit="×",
        band=Band(low=20.0, high=40.0, why="a ratio of two zero-shot steps, machine not stated"),
        ours=runs.worst_stall,
    )
    return (*decodes, hybrid, stall)


# Prompt -> overhead by chunk, artefact.
CHUNK_OVERHEAD = {
    2047: {512: 1.152, 1024: 1.175, 2048: 0.999},
    4095: {512: 1.189, 1024: 1.202, 2048: 1.024},
    8191: {512: 1.117, 1024: 1.109, 2048: 0.937},
    16_383: {512: 0.995, 1024: 0.961, 2048: 0.805},
}
CHUNK_BANDS = {512: (1.0, 1.25), 1024: (1.0, 1.25), 2048: (0.8, 1.05)}


def chunk_claims() -> tuple[Claim, ...]:
    """Return the price of chunking one prompt."""
    return tuple(
        Claim(
            id=f"ss-chunk-{prompt}-{chunk}",
            claim=f"prompt of {prompt:,} in chunks of {chunk:,} over whole",
            setting=ON_YI,
            source=f"{PAPER}, artefact",
            published=value,
            unit="×",
            after_fit=True,
            band=Band(
                low=CHUNK_BANDS[chunk][0],
                high=CHUNK_BANDS[chunk][1],
                why="chunk overhead of 0 to 25 %, 2,048 tokens none: the range of the points",
            ),
            ours=partial(runs.chunk_overhead, prompt, chunk),
        )
        for prompt, row in CHUNK_OVERHEAD.items()
        for chunk, value in row.items()
    )


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
    "vLLM comes out too low, 0.23 requests/s, where the ratio puts it at 0.31; chunks of 512 come"
    " out right (1.16 of 1.14 to 1.28). At 0.31 here 1.6 % of the gaps exceed the limit, since 63 %"
    " of the prompts take over 0.2 s and a decode step 50 ms or more, as the paper measures both"
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
    """Return every claim of the paper, step times first."""
    from planner.reproduce import sarathi_serve_pipelines as pipelines

    return (
        *prefill_claims(),
        *decode_claims(),
        *chunk_claims(),
        *loaded_claims(),
        *capacity_claims(),
        *pipelines.claims(),
    )
