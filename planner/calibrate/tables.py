"""Read measured operator tables and leave out what the measurement, not the kernel, explains.

The tables are CSV files of microbenchmarks (aiconfigurator's published measurements). Each
exclusion below has a physical reason; nothing is left out for fitting badly.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

Row = Mapping[str, str]

# Reads above this multiple of the HBM bandwidth came from the L2 cache, which a model's step,
# cycling through far more bytes than L2 holds, does not enjoy.
L2_RESIDENT_MBU = 1.0
# `int4_wo` on H200 and B200 (a tenth of the bandwidth) and `fp8` on H100 (a sixth) are slow
# fallback kernels of the collector's build, not what an engine runs.
FALLBACK_MOE = {("h200_sxm", "int4_wo"), ("b200_sxm", "int4_wo"), ("h100_sxm", "fp8")}
# fp8_block GEMMs of the vLLM collector at small m carry 280 to 800 µs of launch time.
HOST_BOUND_GEMM = {("gemm_vllm.csv", "fp8_block")}
ALL_REDUCE_LIMIT_BYTES = 256e6
# One PCIe host without working peer-to-peer (8 MB take 3.3 and 8.2 ms): not what the part can do.
NO_PEER_TO_PEER = {("l40s", 4), ("l40s", 8)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeShape:
    """What the MoE table's model names stand for (published configs)."""

    hidden: int
    intermediate: int
    experts: int
    experts_per_token: int


MOE_SHAPES = {
    "Mixtral-8x7B": MoeShape(hidden=4096, intermediate=14336, experts=8, experts_per_token=2),
    "Qwen3-235B-A22B": MoeShape(hidden=4096, intermediate=1536, experts=128, experts_per_token=8),
    "Qwen3-30B-A3B": MoeShape(hidden=2048, intermediate=768, experts=128, experts_per_token=8),
    "DeepSeek-V3/R1": MoeShape(hidden=7168, intermediate=2048, experts=256, experts_per_token=8),
    "Llama4-Scout": MoeShape(hidden=5120, intermediate=8192, experts=16, experts_per_token=1),
    "MiniMax-M2.5": MoeShape(hidden=3072, intermediate=1536, experts=256, experts_per_token=8),
    "gpt-oss-120b": MoeShape(hidden=2880, intermediate=2880, experts=128, experts_per_token=4),
}


def read_rows(path: Path, keep: Callable[[Row], bool]) -> list[Row]:
    """Return the rows of one CSV file that `keep` accepts."""
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if keep(row)]


def fastest(rows: Iterable[Row], keys: tuple[str, ...]) -> list[Row]:
    """Return the fastest of the rows that share `keys`: an engine picks the better kernel."""
    best: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        if key not in best or float(row["latency_us"]) < float(best[key]["latency_us"]):
            best[key] = row
    return list(best.values())


def gemm_rows(folder: Path, system: str, dtype: str) -> list[Row]:
    """Return GEMM measurements of one GPU and dtype, fastest of the collectors."""
    rows: list[Row] = []
    for name in ("gemm_vllm.csv", "gemm_trtllm.csv"):
        if (name, dtype) in HOST_BOUND_GEMM:
            continue
        rows += read_rows(
            folder / name,
            lambda row: (
                row["system"] == system
                and row["dtype"] == dtype
                and float(row["mbu"] or 0.0) <= L2_RESIDENT_MBU
            ),
        )
    return fastest(rows, ("m", "n", "k"))


def moe_rows(folder: Path, system: str, dtype: str) -> list[Row]:
    """Return grouped expert GEMM measurements, fastest of the repeats of one point."""
    if (system, dtype) in FALLBACK_MOE:
        return []
    rows = read_rows(
        folder / "moe.csv", lambda row: row["system"] == system and row["dtype"] == dtype
    )
    return fastest(rows, ("model", "moe_tp", "moe_ep", "num_tokens"))


def decode_rows(folder: Path, system: str, kv_dtype: str) -> list[Row]:
    """Return decode-attention measurements of the vLLM collector that read HBM."""
    rows = read_rows(
        folder / "decode_attention.csv",
        lambda row: (
            row["system"] == system
            and row["kv_dtype"] == kv_dtype
            and row["engine"] == "vllm"
            and float(row["mbu"]) <= L2_RESIDENT_MBU
        ),
    )
    return fastest(rows, ("n_heads", "n_kv", "head_dim", "batch", "context"))


def latent_rows(folder: Path, system: str, kv_dtype: str) -> list[Row]:
    """Return absorbed-MLA decode kernel measurements."""
    rows = read_rows(
        folder / "mla_decode_kernel.csv",
        lambda row: row["system"] == system and row["kv_cache_dtype"] == kv_dtype,
    )
    return fastest(rows, ("num_heads", "batch_size", "context"))


def prefill_rows(folder: Path, system: str) -> list[Row]:
    """Return prefill-attention measurements at 16 bit of the vLLM collector."""
    rows = read_rows(
        folder / "prefill_attention.csv",
        lambda row: (
            row["system"] == system
            and row["engine"] == "vllm"
            and row["attn_dtype"] == "bfloat16"
            and row["kv_dtype"] == "bfloat16"
        ),
    )
    return fastest(rows, ("n_heads", "n_kv", "batch", "isl"))


def all_reduce_rows(folder: Path, system: str, world_size: int) -> list[Row]:
    """Return all-reduce measurements as vLLM's and SGLang's captured graphs run them.

    TensorRT-LLM's own kernel is faster (4.6 against 6.6 µs on B200) and left out: neither engine
    runs it by default.
    """
    if (system, world_size) in NO_PEER_TO_PEER:
        return []
    rows = read_rows(
        folder / "allreduce_aic.csv",
        lambda row: (
            row["system"] == system
            and int(row["num_gpus"]) == world_size
            and row["backend"].endswith("_graph")
            and float(row["bytes"]) <= ALL_REDUCE_LIMIT_BYTES
        ),
    )
    return fastest(rows, ("bytes",))
