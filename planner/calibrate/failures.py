"""Where the predictions fail, by name: which rows, and the physical reason where it is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.calibrate.doubtful import compiles_first, may_speculate
from planner.calibrate.measured import Row, number, text
from planner.calibrate.scoring import Scored, comparisons

Matches = Callable[[Row], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A group of measured rows that the model misses, and why. None of them leaves the score."""

    name: str
    matches: Matches
    reason: str


def _is(engine: str, model: str, gpu: str = "") -> Matches:
    def matches(row: Row) -> bool:
        return (
            text(row, "engine") == engine
            and re.search(model, text(row, "model")) is not None
            and gpu in text(row, "gpu")
        )

    return matches


def _over_admitted(row: Row) -> bool:
    return _is("vllm", "gpt-oss")(row) and (number(row, "concurrency") or 0) >= 512


FAILURES = (
    Failure(
        name="SGLang 0.5.9 fp8, dumps of 2026-03-25 and 2026-04-06",
        matches=may_speculate,
        reason="plain and multi-token-prediction runs under the same columns: of P01653 and "
        "P00375, equal in everything stated, one takes 6.7 ms a token and the other 8.8 ms; at 4 "
        "clients these rows are up to 40 % faster than their plain twins, at 256 slower. Their "
        "TTFT is long because the scheduler looks at its inbox every 10 or 30 steps, and a "
        "verifying step lasts as long as the two to three tokens it yields (figures above)",
    ),
    Failure(
        name="SGLang DeepSeek fp4 on B200, no version",
        matches=compiles_first,
        reason="mean TTFT of 5 to 9 s at 4 to 128 clients and at 1 k and 8 k prompts alike, while "
        "TPOT is ordinary: a stall of about 70 s (kernels compiled at first use) that the opening "
        "tenth of the requests waits for; later runs on the same server (8 k prompts at 32 to 128 "
        "clients on 8 GPUs) have 2 to 3 s",
    ),
    Failure(
        name="SGLang Kimi-K2.6 on 8 H200",
        matches=_is("sglang", r"Kimi-K2\.6", "H200"),
        reason="9 ms a token at one client, 365 at 100; a cached token costs 50 to 70 ns a layer "
        "at any batch, over 200 times what its bytes take, where vLLM's runs of the same weights "
        "on the same GPU take 30 to 60 ms at 64 clients: latent attention with 8 heads a rank on "
        "a kernel that neither splits nor batches. The source says that it measured K2.5 in its "
        "place (sgl-cookbook, docs/autoregressive/Moonshotai/Kimi-K2.6.md)",
    ),
    Failure(
        name="SGLang GLM-5 on 8 H200, as checkpoint",
        matches=_is("sglang", r"GLM-5$", "H200"),
        reason="1.49 TB of 16-bit weights do not fit 8 × 141 GB; the source's page says that the "
        "run was GLM-5-FP8 with speculation, 3.48 tokens accepted a step (sgl-cookbook, "
        "docs/autoregressive/GLM/GLM-5.md)",
    ),
    Failure(
        name="SGLang GLM-4.7-Flash on B200",
        matches=_is("sglang", r"GLM-4\.7-Flash"),
        reason="served with the Triton attention backend (the source's command); latent attention "
        "with 20 heads: TPOT at one client goes from 8.8 to 12.6 ms with 3.6 k more context, 23 ns "
        "a token and layer, what one of the 148 multiprocessors reads: no split of a sequence",
    ),
    Failure(
        name="SGLang Qwen3-Next and Qwen3-Coder-Next on B200",
        matches=_is("sglang", r"Qwen3-(Coder-)?Next"),
        reason="512 small experts of width 512 and gated-delta layers: a launch-bound model of 48 "
        "layers with about three times the kernels of a plain one; its decode is not in the tables",
    ),
    Failure(
        name="SGLang DeepSeek-V3.2 and Math-V2",
        matches=_is("sglang", r"DeepSeek-(V3\.2|Math)"),
        reason="prototype sparse-attention kernels (0.5.8), and 16 H800 described as 8: TTFT of "
        "128 s at 1,024 clients is admission queueing",
    ),
    Failure(
        name="vLLM gpt-oss at 512 clients",
        matches=_over_admitted,
        reason="3.6 to 5.6 ms a token at 512 clients, below the same deployment at 16, with TTFT "
        "of 20 to 460 s: the engine ran some tens of requests at a time (an unstated limit) "
        "and the rest waited",
    ),
    Failure(
        name="vLLM gpt-oss on Hopper, 8 k prompts (TTFT)",
        matches=lambda row: (
            _is("vllm", "gpt-oss", "H100")(row)
            and (number(row, "input_tokens") or 0) > 4000
            and not _over_admitted(row)
        ),
        reason="prefill is 30 % longer than the weight-only expert table gives, at every TP: the "
        "table was measured with another kernel than these runs used",
    ),
    Failure(
        name="vLLM gpt-oss on A100",
        matches=_is("vllm", "gpt-oss", "A100"),
        reason="no table of 4-bit experts on Ampere: the mean of Hopper and Ada stands in",
    ),
    Failure(
        name="Nemotron-Nano on B200, from 128 clients",
        matches=_is("vllm", "Nemotron", "B200"),
        reason="the runs sent about as many prompts as clients: no steady state at the stated "
        "concurrency, and throughput contradicts TPOT (512 / 15 ms is not 18.7 k/s)",
    ),
    Failure(
        name="MiniMax-M2 with data and expert parallelism (vLLM)",
        matches=lambda row: _is("vllm", "MiniMax")(row) and (number(row, "dp") or 1) > 1,
        reason="ranks step together: every rank waits for the one with the longest prompt and the "
        "hottest expert; only the first is modelled, as a mean",
    ),
    Failure(
        name="AMD GPUs",
        matches=lambda row: text(row, "gpu").startswith("MI"),
        reason="no operator tables: the generic NVIDIA set with two corrections",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A failure's rows in one file: how many, and how far off, in per cent of the measurement."""

    failure: Failure
    rows: int
    tpot_pct: tuple[float, ...]
    ttft_pct: tuple[float, ...]


def missed(found: Sequence[Scored]) -> list[Missed]:
    """Return every named failure that a file contains, with its signed errors."""
    results = []
    for failure in FAILURES:
        members = [item for item in found if failure.matches(item.row)]
        if not members:
            continue
        errors: dict[str, list[float]] = {"TPOT": [], "TTFT": []}
        for item in members:
            for metric, value, predicted in comparisons(item):
                if metric in errors and predicted is not None:
                    errors[metric].append(100.0 * (predicted / value - 1.0))
        results.append(
            Missed(
                failure=failure,
                rows=len(members),
                tpot_pct=tuple(errors["TPOT"]),
                ttft_pct=tuple(errors["TTFT"]),
            )
        )
    return results
