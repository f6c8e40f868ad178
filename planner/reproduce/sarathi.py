"""What SARATHI (arXiv:2308.16369) claims: a prompt chunk and the decodes that ride with it."""

from __future__ import annotations

from functools import partial

from planner.reproduce import sarathi_gains, sarathi_pipeline
from planner.reproduce.claim import KERNELS, UNPUBLISHED, Band, Claim, Variant, within
from planner.reproduce.sarathi_gains import BARE, ON_A6000, PAPER, bare_a6000
from planner.reproduce.sarathi_steps import (
    a6000,
    chunking_loss,
    decode_over_prefill,
    decode_token_ms,
    largest_batch,
    layer_tokens_per_ms,
    piggyback_ratio,
    prefill_ms,
)
from planner.reproduce.shapes import GPT3_175B
from planner.spec import catalog

STEP = "15 %: kernels of another library on the calibration's mean over other GPUs"


def step_claims() -> tuple[Claim, ...]:
    """Return the claims about single steps."""
    tile = "25 %: the tile is the paper's, its library's smaller tiles are not known"
    return (
        *(
            Claim(
                id=f"sarathi-{name}",
                claim=f"prefill step of {tokens} tokens",
                setting=ON_A6000,
                source=f"{PAPER} §4.4, figure 7",
                published=value,
                unit="ms",
                band=within(value, share, why),
                ours=partial(prefill_ms, a6000, tokens),
                cause=KERNELS,
                variants=(Variant(setting=BARE, ours=partial(prefill_ms, bare_a6000, tokens)),),
            )
            for name, tokens, value, share, why in (
                ("s1", 128, 55.0, 0.15, STEP),
                ("s2", 256, 69.8, 0.15, STEP),
                ("s3", 257, 92.33, 0.25, tile),
            )
        ),
        Claim(
            id="sarathi-s4",
            claim="decode-only time per token, batch 4, context 1,024",
            setting=ON_A6000,
            source=f"{PAPER} table 2",
            published=12.49,
            unit="ms",
            band=within(12.49, 0.2, "20 %: reads at the bandwidth other libraries reach"),
            ours=partial(decode_token_ms, a6000),
            variants=(Variant(setting=BARE, ours=partial(decode_token_ms, bare_a6000)),),
        ),
        Claim(
            id="sarathi-s5",
            claim="decode alone over decode beside a prompt of 1,021",
            setting=ON_A6000,
            source=f"{PAPER} table 2: 12.49 and 1.2 ms",
            published=10.4,
            unit="×",
            band=Band(low=6.0, high=14.0, why="the small difference of two steps: its order"),
            ours=partial(piggyback_ratio, a6000),
            variants=(Variant(setting=BARE, ours=partial(piggyback_ratio, bare_a6000)),),
        ),
        *(
            Claim(
                id=f"sarathi-s6-b{batch}",
                claim=f"decode over prefill time per token, batch {batch}",
                setting=f"{ON_A6000}, 1,024 tokens",
                source=f"{PAPER} §3.1, figure 3",
                published=value,
                unit="×",
                band=within(value, 0.25, "25 %: a ratio of two step times"),
                ours=partial(decode_over_prefill, batch),
            )
            for batch, value in ((1, 200.0), (2, 100.0), (18, 16.7))
        ),
        Claim(
            id="sarathi-s7",
            claim="prefill throughput of one layer at saturation",
            setting=ON_A6000,
            source=f"{PAPER} §4; read per layer: for the whole model it would exceed the peak",
            published=180.0,
            unit="tokens/ms",
            band=within(180.0, 0.15, STEP),
            ours=layer_tokens_per_ms,
        ),
        *(
            Claim(
                id=f"sarathi-s12-c{chunk}",
                claim=f"prefill in chunks of {chunk} over whole",
                setting=f"{ON_A6000}, 1,024 tokens",
                source=f"{PAPER} §5, chunked-prefill ablation",
                published=value,
                unit="×",
                band=Band(low=low, high=high, why=why),
                ours=partial(chunking_loss, chunk),
                note=note,
            )
            for chunk, value, low, high, why, note in (
                (256, 1.2, 1.08, 1.25, "'at most 20 %', read off bars", ""),
                (512, 1.1, 1.0, 1.15, "'at most 10 %', read off bars", ""),
            )
        ),
        *(
            Claim(
                id=f"sarathi-s12-c{chunk}",
                claim=f"prefill in chunks of {chunk} over whole",
                setting=f"{ON_A6000}, 1,024 tokens",
                source=f"{PAPER} §5, chunked-prefill ablation",
                published=value,
                unit="×",
                reason="a chunk below one tile costs launches of its library, which it does not"
                " state",
            )
            for chunk, value in ((64, 5.0), (128, 2.0))
        ),
    )


KEPT_FREE = 0.9  # of the memory is used
BATCHES = (
    # (suffix, model, GPUs, bytes of one, length, published, where, which batch)
    ("", "13b", 1, 48e9, 1024, 18, "§5.2, figure 11", "largest batch at 1,024 tokens"),
    ("-2k", "13b", 1, 48e9, 2048, 10, "§5.2, figure 11", "largest batch at 2,048 tokens"),
    ("-3k", "13b", 1, 48e9, 3072, 6, "§5.2, figure 11", "largest batch at 3,072 tokens"),
    ("-pipeline", "gpt3", 64, 80e9, 8 * 4096, 27, "§5.3", "largest batch of a stage of TP8 × PP8"),
    ("-replica", "gpt3", 8, 80e9, 4096, 11, "§5.3", "largest batch of TP8"),
)
OF_MEMORY = (
    "the paper's formula with a tenth of the memory kept free, which meets its other four largest"
    " batches and gives 20 here, where its figures end at 18"
)


def memory_claims() -> tuple[Claim, ...]:
    """Return the largest batches, by the paper's formula: floor((M − weights)/(L·k))."""
    models = {"13b": catalog.model("meta-llama/Llama-2-13b-hf"), "gpt3": GPT3_175B}
    return tuple(
        Claim(
            id=f"sarathi-s8{suffix}",
            claim=words,
            setting=ON_A6000 if model == "13b" else f"GPT-3 on {gpus} A100, up to 4,096 tokens",
            source=f"{PAPER} §4.3.1, {where}",
            published=published,
            unit="sequences",
            after_fit=True,
            band=Band(low=published - 1, high=published + 1, why="one either way: rounding"),
            ours=partial(largest_batch, models[model], memory, gpus, length, KEPT_FREE),
            note=OF_MEMORY if not suffix else "",
            cause=UNPUBLISHED,
            variants=(
                Variant(
                    setting="all of the memory",
                    ours=partial(largest_batch, models[model], memory, gpus, length, 1.0),
                ),
            ),
        )
        for suffix, model, gpus, memory, length, published, where, words in BATCHES
    )


def claims() -> tuple[Claim, ...]:
    """Return every claim of the paper, figures first."""
    return (
        *step_claims(),
        *memory_claims(),
        *sarathi_gains.claims(),
        *sarathi_pipeline.claims(),
    )
