"""The part of docs/accuracy.md on errors that are the measurement's, and on named failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.calibrate import limits
from planner.calibrate.failures import Missed
from planner.calibrate.markdown import markdown_table
from planner.calibrate.measured import Row, dataset, number, text
from planner.calibrate.scoring import DERIVED, MEASURED, Scored, comparisons

GROUPS = (
    ("TPOT", "all", ("vllm", "trtllm", "sglang"), "8 / 22"),
    ("TPOT", "vLLM", ("vllm",), "7 / 18"),
    ("TTFT", "vLLM and TensorRT-LLM", ("vllm", "trtllm"), "13 / 40"),
    ("TTFT", "SGLang", ("sglang",), "25 / 60"),
    (MEASURED, "all", ("vllm", "trtllm", "sglang"), "10 / 30"),
    (DERIVED, "all", ("vllm", "trtllm", "sglang"), "8 / 25"),
)


def measurement_limits(found: Sequence[Scored]) -> str:
    """Return what repeats and contradicted columns take from each target."""
    rows = [item.row for item in found]
    return (
        "\n## Targets, and what is beyond the rows\n\n"
        "Median and P90 in %, every row of the main set first. *Consistent* rows leave out those "
        "whose own figures contradict their columns (the first four known failures and 16 H800 "
        "described as 8: "
        f"{sum(map(limits.contradicts, rows))} rows), *on tables* GPUs without operator tables "
        "of their make too. [accuracy-rows.md](accuracy-rows.md) answers every row beyond a P90 "
        "that is missed or barely met: what a check by code finds in it, or that it finds "
        "nothing.\n\n"
        + markdown_table(
            ["metric", "engine", "target", "every row", "consistent", "consistent, on tables"],
            [_line(found, *group) for group in GROUPS],
        )
        + _noise(rows)
        + _waits(rows)
    )


def _line(
    found: Sequence[Scored], metric: str, name: str, engines: tuple[str, ...], target: str
) -> list[str]:
    def stated(row: Row) -> bool:
        return text(row, "engine") in engines

    def consistent(row: Row) -> bool:
        return stated(row) and not limits.contradicts(row)

    def on_tables(row: Row) -> bool:
        return consistent(row) and not text(row, "gpu").startswith("MI")

    return [
        metric,
        name,
        target,
        *(_kept(found, metric, k) for k in (stated, consistent, on_tables)),
    ]


def _kept(found: Sequence[Scored], metric: str, keep: Callable[[Row], bool]) -> str:
    kept = limits.errors_of(found, metric, keep)
    return f"{kept.median_pct:.1f} / {kept.p90_pct:.1f} ({kept.rows})"


def _noise(rows: Sequence[Row]) -> str:
    body = [
        [s.engine, s.metric, str(s.pairs), f"{s.median_pct:.1f}", f"{s.p90_pct:.1f}"]
        for s in limits.repeat_noise(rows)
    ]
    return (
        "\nPairs of InferenceX runs that agree in every stated column differ by this much: the "
        "floor of any model of those columns.\n\n"
        + markdown_table(["engine", "metric", "pairs", "median %", "P90 %"], body)
    )


def _waits(rows: Sequence[Row]) -> str:
    plain = limits.plain_waits(rows)
    found = limits.speculative_waits(rows, limits.TOKENS_PER_VERIFYING_STEP)
    tokens = f"{limits.TOKENS_PER_VERIFYING_STEP:g}"
    return (
        "\nSGLang's long TTFTs are waits between two looks at the inbox (every 10 or 30 steps). In "
        f"the {plain.rows} rows that may speculate, taking a step as {tokens} tokens of the "
        f"measured TPOT brings the median error from {plain.median_pct:.1f} to "
        f"{found.median_pct:.1f} %; they are scored as plain runs all the same.\n"
    )


def static_batches(found: Sequence[Scored]) -> str:
    """Return why TTFT of the old static batches is low: by prompt tokens, beside today's engines.

    A TTFT of the static set is the time of a whole batch's prompts.
    """
    sizes = (("up to 512", 0, 512), ("513 to 2,048", 512, 2048), ("more", 2048, 1 << 30))
    body = [
        [name, *(_bias(found, kind, low, high) for kind in ("static", "main"))]
        for name, low, high in sizes
    ]
    return (
        "\n## Long prefills: old engines and today's\n\n"
        "Median signed error of TTFT, % (rows). The static set is almost all vLLM of 2023 "
        "(Splitwise), whose prefill gets slower with the tensor-parallel size: at 4,096 tokens on "
        "8 H100 it took 372 ms where 2,048 took 133. Launches that the GPU hides behind long "
        "kernels cannot be where that time goes: today's engines, at the same sizes, have no such "
        "error.\n\n"
        + markdown_table(["prompt tokens", "static batches", "main set, vLLM and TRT-LLM"], body)
    )


def _bias(found: Sequence[Scored], kind: str, low: int, high: int) -> str:
    errors = [
        100.0 * (predicted / value - 1.0)
        for item in found
        if dataset(item.row) == kind and (kind == "static" or _mixing(item.row))
        for metric, value, predicted in comparisons(item)
        if metric == "TTFT" and predicted is not None and low < _prefilled(item.row, kind) <= high
    ]
    return f"{float(np.median(errors)):+.0f} ({len(errors)})" if errors else "—"


def _mixing(row: Row) -> bool:
    return text(row, "engine") in ("vllm", "trtllm")


def _prefilled(row: Row, kind: str) -> float:
    """Prompt tokens until the first token: of the whole batch where it starts together."""
    batch = number(row, "concurrency") if kind == "static" else 1.0
    return (number(row, "input_tokens") or 0.0) * (batch or 1.0)


def known_failures(found: Sequence[Missed]) -> str:
    """Return every named failure with its rows, errors and reason."""
    head = "\n## Known failures\n\nRows of the main set that the model misses, by name. "
    lines = [head + "They stay in every table above.\n"]
    for item in found:
        spans = ", ".join(
            f"{metric} {min(errors):+.0f} to {max(errors):+.0f} %"
            for metric, errors in (("TPOT", item.tpot_pct), ("TTFT", item.ttft_pct))
            if errors
        )
        lines.append(
            f"- **{item.failure.name}** ({item.rows} rows; {spans}): {item.failure.reason}."
        )
    return "\n".join(lines) + "\n"
