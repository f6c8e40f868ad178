"""Catalogue listings as plain text tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from planner.spec.engine import Engine
from planner.spec.gpu import Gpu, Price
from planner.spec.model import Model
from planner.units import GB, GIB, MICRO, TERA

Item = TypeVar("Item")
NONE = "—"


def gpu_table(gpus: Sequence[Gpu]) -> str:
    """Return the GPUs: memory as the driver reports it, dense rates, price, evidence."""
    columns: dict[str, Callable[[Gpu], str]] = {
        "id": lambda gpu: gpu.id,
        "GB": lambda gpu: f"{gpu.memory_bytes_marketing / GB:g}",
        "visible GiB": lambda gpu: _gib(gpu.memory_bytes_visible),
        "GB/s": lambda gpu: f"{gpu.memory_bandwidth_bytes_per_s / GB:g}",
        "bf16 TFLOP/s": lambda gpu: _rate(gpu, "bf16"),
        "fp8": lambda gpu: _rate(gpu, "fp8"),
        "link": lambda gpu: gpu.scaleup_link,
        "USD/h": lambda gpu: _price(gpu.prices),
        "confidence": lambda gpu: gpu.confidence,
        "measured": lambda gpu: gpu.calibration or NONE,
        "date": lambda gpu: gpu.date,
        "source": lambda gpu: gpu.source,
    }
    return _table(columns, gpus)


def model_table(models: Sequence[Model], sisters: Callable[[str], Sequence[str]]) -> str:
    """Return the models; `sisters` names the repositories with the same shapes."""
    columns: dict[str, Callable[[Model], str]] = {
        "id": lambda model: model.id,
        "parameters": lambda model: _billions(model.published_parameters),
        "active": lambda model: _billions(model.published_active_parameters),
        "layers": lambda model: str(model.num_layers),
        "attention": attention_kind,
        "context": lambda model: f"{model.max_model_len:,}",
        "dtype": lambda model: model.weight_dtype,
        "date": lambda model: model.date,
        "source": lambda model: model.source,
        "same shapes": lambda model: ", ".join(sisters(model.id)) or NONE,
    }
    return _table(columns, models)


def engine_table(engines: Sequence[Engine]) -> str:
    """Return the engine profiles with what distinguishes versions."""
    columns: dict[str, Callable[[Engine], str]] = {
        "id": lambda engine: f"{engine.id}@{engine.version}",
        "admission": lambda engine: engine.admission,
        "mixed steps": lambda engine: _yes(engine.mixes_prefill_and_decode),
        "async": lambda engine: _yes(engine.async_scheduling),
        "utilization": lambda engine: f"{engine.memory.gpu_memory_utilization:g}",
        "layer µs": lambda engine: f"{engine.layer_overhead_s / MICRO:g}",
        "sequence µs": lambda engine: f"{engine.seq_overhead_s / MICRO:g}",
        "date": lambda engine: engine.date,
        "source": lambda engine: engine.source,
    }
    return _table(columns, engines)


def attention_kind(model: Model) -> str:
    """Name a model's attention in a few words: MHA, GQA, MQA or MLA, and what limits its reach."""
    if model.mla:
        kind = "MLA"
    elif model.num_kv_heads == model.num_attention_heads:
        kind = "MHA"
    else:
        kind = "MQA" if model.num_kv_heads == 1 else f"GQA {model.num_kv_heads}"
    if model.sparse_attention:
        kind += f", best {model.sparse_attention.top_k_tokens:,}"
    if model.sliding_layers:
        kind += f", {model.sliding_layers} in {model.sliding_window:,}"
    if model.linear_attention:
        kind += f", {model.linear_attention.layers} linear"
    return kind


def _table(columns: dict[str, Callable[[Item], str]], items: Sequence[Item]) -> str:
    """Align columns with two blanks between them; the last column is not padded."""
    lines = [list(columns)] + [[cell(item) for cell in columns.values()] for item in items]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    rows = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join(rows) + "\n"


def _gib(value: float | None) -> str:
    return NONE if value is None else f"{value / GIB:.2f}"


def _rate(gpu: Gpu, dtype: str) -> str:
    """Return a dense rate; a GPU without bf16 shows its fp16 rate, marked."""
    rates = gpu.peak_flops_per_s
    if dtype in rates:
        return f"{rates[dtype] / TERA:g}"
    return f"{rates['fp16'] / TERA:g} (fp16)" if dtype == "bf16" and "fp16" in rates else NONE


def _price(prices: Sequence[Price]) -> str:
    """Return the typical price with its date, or the first one with its kind."""
    if not prices:
        return NONE
    price = next((p for p in prices if p.kind == "typical"), prices[0])
    kind = "" if price.kind == "typical" else f"{price.kind}, "
    return f"{price.usd_per_hour:.2f} ({kind}{price.date})"


def _billions(value: float | None) -> str:
    return NONE if not value else f"{value / 1e9:.4g}B"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
