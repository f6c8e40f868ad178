"""SARATHI's gains over whole requests (arXiv:2308.16369): table 4, and Orca beside it."""

from __future__ import annotations

from functools import partial

from planner.reproduce.claim import UNPUBLISHED, Claim, Variant, gain_within, within
from planner.reproduce.sarathi_steps import (
    a100,
    a6000,
    decode_gain,
    end_to_end_gain,
    orca_best_gain,
)

PAPER = "arXiv:2308.16369"
ON_A6000 = "LLaMA-13B, fp16, one RTX A6000"
# The paper does not say which A100, and its 156 FLOPs a byte lie between the two parts (153 and
# 161). The same authors' next paper (Sarathi-Serve) names PCIe machines, and their kernel tables
# (microsoft/vidur, 70B shapes, 256 tokens over 2,048: 0.143) fit that part (0.136) better than the
# SXM one (0.163).
ON_A100 = "LLaMA-33B, fp16, one A100-80GB (PCIe)"
GAIN = "40 % of the gain: a difference of two step times that are each 15 % uncertain"

BARE = "no launches of the engine's layers"
SXM = "the SXM part"
bare_a6000 = partial(a6000, bare=True)
bare_a100 = partial(a100, bare=True)
sxm_a100 = partial(a100, part="sxm")

TABLE_4 = (
    # (id, model, sequence, batch, decode speed-up, throughput gain)
    ("1", "13b", 1024, 6, 5.45, 1.33),
    ("2", "13b", 2048, 6, 3.26, 1.26),
    ("3", "13b", 3072, 6, 2.51, 1.22),
    ("4", "33b", 1024, 10, 3.83, 1.25),
    ("5", "33b", 2048, 5, 4.25, 1.22),
    ("6", "33b", 3072, 3, 3.51, 1.14),
)
WHICH_A100 = (
    "three decodes cost so little beside a chunk that a few per cent of its step decide; the paper"
    " does not say which A100 it is"
)


def table_4_claims() -> list[Claim]:
    """Return decode speed-ups and throughput gains of table 4."""
    found = []
    for name, size, seq, batch, decode, gain in TABLE_4:
        small = size == "13b"
        machine = a6000 if small else a100
        others = ((BARE, bare_a6000 if small else bare_a100), (SXM, sxm_a100))[: 1 if small else 2]
        setting = (
            f"{ON_A6000 if small else ON_A100}, sequences of {seq:,}, batch {batch}, chunk 256"
        )
        common = {"setting": setting, "source": f"{PAPER} table 4", "unit": "×"}
        found += [
            Claim(
                id=f"sarathi-s10-{name}-decode",
                claim="decode speed-up",
                published=decode,
                band=within(decode, 0.4, "40 %: over the small difference of two steps"),
                ours=partial(decode_gain, machine, seq, batch, 256),
                note="" if small else WHICH_A100,
                cause=UNPUBLISHED,
                variants=tuple(
                    Variant(setting=words, ours=partial(decode_gain, other, seq, batch, 256))
                    for words, other in others
                ),
                **common,  # type: ignore[arg-type]
            ),
            Claim(
                id=f"sarathi-s10-{name}-gain",
                claim="throughput gain, P:D = C/(B − 1)",
                published=gain,
                band=gain_within(gain, 0.4, GAIN),
                ours=partial(end_to_end_gain, machine, seq, batch, 256, 256 / (batch - 1)),
                cause=UNPUBLISHED,
                variants=tuple(
                    Variant(
                        setting=words,
                        ours=partial(end_to_end_gain, other, seq, batch, 256, 256 / (batch - 1)),
                    )
                    for words, other in others
                ),
                **common,  # type: ignore[arg-type]
            ),
        ]
    return found


def claims() -> tuple[Claim, ...]:
    """Return the gains over separate batches of prompts and decodes."""
    chunks = tuple(
        Claim(
            id=f"sarathi-s11-c{chunk}",
            claim=f"throughput gain, chunk {chunk}, P:D {ratio:g}",
            setting=f"{ON_A6000}, sequences of 1,024, batch 18",
            source=f"{PAPER} §5.1.3",
            published=gain,
            unit="×",
            band=gain_within(gain, 0.4, GAIN),
            ours=partial(end_to_end_gain, a6000, 1024, 18, chunk, ratio),
        )
        for chunk, ratio, gain in ((256, 14.0, 1.27), (512, 28.0, 1.23))
    )
    orca = Claim(
        id="sarathi-s11-orca",
        claim="throughput gain of Orca's best case",
        setting=f"{ON_A6000}, sequences of 1,024, batch 18, P:D 14",
        source=f"{PAPER} §5.2",
        published=1.11,
        unit="×",
        band=gain_within(1.11, 0.4, GAIN),
        ours=orca_best_gain,
    )
    chunk_128 = Claim(
        id="sarathi-s11-c128",
        claim="throughput gain, chunk 128",
        setting=ON_A6000,
        source=f"{PAPER} §5.4",
        published=1.16,
        unit="×",
        reason="its sequence length and P:D ratio are not stated",
    )
    return (*table_4_claims(), *chunks, orca, chunk_128)
