"""`planner explain`: an equation with the numbers of a case in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from planner.errors import InputError, Problem
from planner.perf.equations import SECTIONS, SYMBOLS, find
from planner.perf.explain import (
    ChunkRow,
    Explanation,
    chunk_table,
    explain,
    fitting,
    gpu_values,
    model_values,
    plain,
    related,
)

EPILOG = """\b
Example:
  planner explain
  planner explain chunk --model llama-3.1-8b-instruct --gpu h100 --decodes 32 --context 2048
\b
  # the worked example of the theory: 7 B parameters, 300 TFLOP/s, 2 TB/s
  planner explain chunk-table --parameters 7e9 --flops 300e12 --bandwidth 2e12 \\
      --kv-bytes-per-token 524288 --decodes 32 --context 2048 --prompt 4096 \\
      --chunks 128,486,2048,4096
"""

# Option -> the equations' parameter.
NUMBERS = {
    "parameters": ("parameters", "parameters of the model"),
    "bytes-per-parameter": ("bytes_per_parameter", "bytes of one stored parameter"),
    "flops": ("flops_per_s", "peak dense FLOP/s of the replica"),
    "bandwidth": ("bandwidth_bytes_per_s", "memory bandwidth of the replica in B/s"),
    "kv-bytes-per-token": ("kv_per_token", "KV-cache bytes of one token"),
    "kv-memory": ("kv_memory_bytes", "bytes of the KV cache"),
    "decodes": ("decode_seqs", "decodes in a step"),
    "context": ("context_tokens", "tokens a decode reads"),
    "prompt": ("prompt_tokens", "tokens of a prompt"),
    "chunk": ("chunk_tokens", "prefill tokens in a step"),
    "drafts": ("draft_tokens", "draft tokens verified beside each decode"),
    "hit-rate": ("hit_rate", "share of a prompt found in the prefix cache"),
    "limit": ("limit_s", "latency limit of a step in s"),
}


def _number_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add one option for each number of a case."""
    for option, (_, text) in reversed(NUMBERS.items()):
        help_text = f"{text[0].upper()}{text[1:]}."
        add = click.option(f"--{option}", option.replace("-", "_"), type=float, help=help_text)
        function = add(function)
    return function


@click.command(epilog=EPILOG)
@click.argument("equation", required=False)
@click.option("--model", help="Catalogue id of a model, or a path to its config.json.")
@click.option("--gpu", help="Catalogue id or alias of a GPU.")
@click.option("--weight-dtype", default="", help="Format of the weights; default as published.")
@click.option("--kv-cache-dtype", default="bf16", show_default=True, help="Format of the KV cache.")
@click.option(
    "--tp", type=click.IntRange(1), default=1, show_default=True, help="Tensor-parallel size."
)
@_number_options
@click.option("--chunks", default="", help="Chunks of `chunk-table`, separated by commas.")
@click.option("--set", "extra", multiple=True, metavar="NAME=VALUE", help="Any other number.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(
    equation: str | None,
    model: str | None,
    gpu: str | None,
    weight_dtype: str,
    kv_cache_dtype: str,
    tp: int,
    chunks: str,
    extra: tuple[str, ...],
    as_json: bool,
    **numbers: float | None,
) -> None:
    """Print EQUATION with the numbers of a case substituted; without EQUATION, list them all.

    Numbers come from a model and a GPU of the catalogue, from options, and from --set; what
    follows from others is derived. Without any number the equation's worked example is shown.
    """
    if equation is None:
        click.echo(_listing_json() if as_json else _listing(), nl=False)
        return
    given = _catalogue_values(model, gpu, weight_dtype, kv_cache_dtype, tp)
    given |= {
        NUMBERS[name.replace("_", "-")][0]: value
        for name, value in numbers.items()
        if value is not None
    }
    if "parameters" in given and numbers.get("parameters") is not None:
        given = {k: v for k, v in given.items() if k not in ("token_flops", "weights")}
    given |= _extra_values(extra)
    if equation.replace("_", "-") == "chunk-table":
        rows = chunk_table(given, _chunk_list(chunks))
        click.echo(_table_json(rows) if as_json else _table(rows), nl=False)
        return
    shown = explain(fitting(find(equation), given), given)
    beside = related(shown.equation, given, shown.result)
    click.echo(_json(shown, beside) if as_json else _text(shown, beside), nl=False)


def _catalogue_values(
    model: str | None, gpu: str | None, weight_dtype: str, kv_cache_dtype: str, tp: int
) -> dict[str, float]:
    from planner.perf.formats import BYTES_PER_PARAMETER, KV_BYTES
    from planner.spec import catalog
    from planner.spec.layout import refuse_layout

    found: dict[str, float] = {}
    entry = catalog.model(model) if model else None
    dtype = weight_dtype or (entry.weight_dtype if entry else "bf16")
    for name, known in ((dtype, BYTES_PER_PARAMETER), (kv_cache_dtype, KV_BYTES)):
        if name not in known:
            raise InputError(
                Problem(message=f"unknown format {name!r}", hint=f"known: {', '.join(known)}")
            )
    if weight_dtype:
        found["bytes_per_parameter"] = BYTES_PER_PARAMETER[weight_dtype]
    if kv_cache_dtype != "bf16":
        found["kv_element_bytes"] = KV_BYTES[kv_cache_dtype]
    if entry:
        refuse_layout(entry, tp)
        found |= model_values(entry, dtype, kv_cache_dtype, tp)
    if gpu:
        found |= gpu_values(catalog.gpu(gpu), dtype, tp)
    return found


def _extra_values(pairs: tuple[str, ...]) -> dict[str, float]:
    found, problems = {}, []
    for pair in pairs:
        name, _, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        try:
            found[name] = float(text)
        except ValueError:
            problems.append(Problem(path=f"--set {pair}", message="is not NAME=NUMBER"))
        if name not in SYMBOLS:
            problems.append(Problem(path=f"--set {pair}", message=f"no equation takes {name!r}"))
    if problems:
        raise InputError(problems)
    return found


def _chunk_list(text: str) -> list[float]:
    try:
        chunks = [float(part) for part in (text or "128,486,2048,4096").split(",")]
    except ValueError:
        chunks = []
    if not chunks or min(chunks) <= 0:
        raise InputError(
            Problem(path="--chunks", message="needs positive numbers separated by commas")
        )
    return chunks


def _listing() -> str:
    lines = []
    for section, items in SECTIONS.items():
        lines.append(f"{section}\n")
        for item in items:
            name = ", ".join((item.id, *item.aliases))
            lines.append(f"  {name}\n      {item.formula}\n")
    lines.append("\nchunk-table prints the step time of several chunks side by side.\n")
    return "".join(lines)


def _listing_json() -> str:
    data = [
        {
            "id": item.id,
            "aliases": list(item.aliases),
            "section": section,
            "title": item.title,
            "formula": item.formula,
            "unit": item.unit,
            "function": item.module,
            "source": item.source,
        }
        for section, items in SECTIONS.items()
        for item in items
    ]
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def _text(shown: Explanation, beside: list[Explanation]) -> str:
    item = shown.equation
    width = max(len(symbol.symbol) for symbol in item.symbols)
    numbers = [f"{plain(v.value)} {SYMBOLS[v.parameter].unit}" for v in shown.values]
    column = max(len(number) for number in numbers)
    lines = [f"{item.id}: {item.title}\n", f"  {item.formula}\n"]
    for value, number in zip(shown.values, numbers, strict=True):
        symbol = SYMBOLS[value.parameter]
        origin = "" if value.origin == "given" else f" [{value.origin}]"
        lines.append(
            f"    {symbol.symbol:<{width}} = {number:<{column}}  {symbol.meaning}{origin}\n"
        )
    lines.append(f"  {item.symbol} = {shown.substituted}\n")
    lines.append(f"  {item.symbol} = {_result(shown)}\n")
    lines.append(f"  source: {item.source}\n  function: {item.module}\n")
    for other in beside:
        it = other.equation
        lines.append(
            f"  beside it: {it.symbol} = {other.substituted} = {_result(other)}  ({it.id})\n"
        )
    return "".join(lines)


def _result(shown: Explanation) -> str:
    if shown.result is None:
        return "none: no value meets the limit"
    return f"{plain(shown.result)} {shown.equation.unit}"


def _json(shown: Explanation, beside: list[Explanation]) -> str:
    data = _as_data(shown) | {"related": [_as_data(other) for other in beside]}
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def _as_data(shown: Explanation) -> dict[str, Any]:
    item = shown.equation
    return {
        "id": item.id,
        "title": item.title,
        "formula": item.formula,
        "values": [
            {
                "parameter": value.parameter,
                "symbol": SYMBOLS[value.parameter].symbol,
                "unit": SYMBOLS[value.parameter].unit,
                "value": value.value,
                "origin": value.origin,
            }
            for value in shown.values
        ],
        "substituted": f"{item.symbol} = {shown.substituted}",
        "result": {"symbol": item.symbol, "unit": item.unit, "value": shown.result},
        "source": item.source,
        "function": item.module,
    }


def _table(rows: list[ChunkRow]) -> str:
    lines = ["chunk  step ms  compute ms  bound by  TPOT ms  TTFT ms  steps\n"]
    lines += [
        f"{plain(row.chunk_tokens):>5}  {1e3 * row.step_s:7.1f}  {1e3 * row.compute_s:10.1f}"
        f"  {row.bound:<8}  {1e3 * row.tpot_s:7.1f}  {1e3 * row.ttft_s:7.1f}  {row.steps:5d}\n"
        for row in rows
    ]
    return "".join(lines)


def _table_json(rows: list[ChunkRow]) -> str:
    data = [{name: getattr(row, name) for name in ChunkRow.__dataclass_fields__} for row in rows]
    return json.dumps(data, indent=2) + "\n"
