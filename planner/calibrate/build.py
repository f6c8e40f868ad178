"""Assemble calibration data (the content of the YAML files) from fits and from other fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate import operator_fits as fits
from planner.calibrate import tables
from planner.perf.formats import KV_BYTES, arithmetic
from planner.spec.calibration import AllReduceEfficiency, GemmEfficiency, MoeEfficiency
from planner.spec.gpu import Gpu

Data = dict[str, Any]

# Our weight format -> the tables' name of it.
GEMM_DTYPES = {"bf16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
MOE_DTYPES = {**GEMM_DTYPES, "mxfp4": "w4a16_mxfp4"}
KV_DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}
# FlashInfer's mxfp4 experts on fp4 hardware take fp8 activations; their tiles are nvfp4's, and the
# mixed product runs between the fp8 and the fp4 rate (own estimate: 1.3 × the fp8 peak).
MIXED_FP4_RATE = 1.3
# Marlin's int4 kernels use Ampere's matrix instructions on Blackwell; measured end to end.
OLD_KERNEL_FACTOR = 1.6
LINEAR_MEMORY, LINEAR_COMPUTE = 0.6, 0.2  # no table: own estimate for the gated-delta kernels


def gpu_data(folder: Path, system: str, gpu: Gpu) -> Data:
    """Return every measured section of one GPU."""
    return {
        "gemm": _gemm(folder, system, gpu),
        "moe": _moe(folder, system, gpu),
        "attention": _attention(folder, system, gpu),
        "all_reduce": _all_reduce(folder, system),
    }


def _gemm(folder: Path, system: str, gpu: Gpu) -> Data:
    found = {}
    for dtype, name in GEMM_DTYPES.items():
        rows = tables.gemm_rows(folder, system, name)
        maths = arithmetic(gpu, dtype)
        if rows and maths.calibration == dtype:
            fit = fits.fit_gemm(
                rows,
                maths.peak_flops_per_s,
                gpu.memory_bandwidth_bytes_per_s,
                maths.weight_bytes,
                maths.activation_bytes,
            )
            found[dtype] = {**gemm_data(fit), "rows": len(rows)}
    return found


def gemm_data(fit: GemmEfficiency) -> Data:
    """Return a GEMM fit in the file's units."""
    return {
        "compute": fit.compute,
        "memory": fit.memory,
        "fixed_us": fit.fixed_s * 1e6,
        "sharpness": fit.sharpness,
        "per_input_ns": fit.per_input_s * 1e9,
        "median_error": fit.median_error,
        "p90_error": fit.p90_error,
    }


def _moe(folder: Path, system: str, gpu: Gpu) -> Data:
    found = {}
    for dtype, name in MOE_DTYPES.items():
        rows = tables.moe_rows(folder, system, name)
        maths = arithmetic(gpu, dtype)
        weight_only_table = dtype == "mxfp4"  # the table's kernel is W4A16 on every GPU
        if not rows or (maths.calibration != dtype and not weight_only_table):
            continue
        peak = gpu.peak_flops_per_s["bf16"] if weight_only_table else maths.peak_flops_per_s
        inputs = 2.0 if weight_only_table else maths.activation_bytes
        bandwidth = gpu.memory_bandwidth_bytes_per_s
        fit = fits.fit_moe(rows, peak, bandwidth, maths.weight_bytes, inputs)
        found[dtype] = {**moe_data(fit), "rows": len(rows)}
    return _derived_moe(found, gpu)


def _derived_moe(found: Data, gpu: Gpu) -> Data:
    """Add formats whose kernel is known but was not measured by itself."""
    if "mxfp4" in found:
        found["int4"] = _int4(_values(found["mxfp4"]), gpu)
    if "nvfp4" in found and "fp4" in gpu.peak_flops_per_s:
        mixed = _values(found["nvfp4"])
        mixed["compute"] = min(1.0, mixed["compute"] * MIXED_FP4_RATE)
        found["mxfp4"] = {
            **mixed,
            "derived": f"nvfp4 table at {MIXED_FP4_RATE} × the fp8 peak (fp8 inputs)",
        }
    return found


def _int4(weight_only: Data, gpu: Gpu) -> Data:
    """Return int4 experts from the mxfp4 table: the same W4A16 kernels, slow where they are old."""
    if "fp4" not in gpu.peak_flops_per_s:
        return {**weight_only, "derived": "mxfp4 table: the same W4A16 kernels"}
    slowed = {
        **weight_only,
        "compute": weight_only["compute"] / OLD_KERNEL_FACTOR,
        "memory": weight_only["memory"] / OLD_KERNEL_FACTOR,
        "fixed_us": weight_only["fixed_us"] * OLD_KERNEL_FACTOR,
    }
    text = "mxfp4 table x 1.6: Marlin predates these matrix units (Kimi int4 served on B200)"
    return {**slowed, "derived": text}


def _values(entry: Data) -> Data:
    return {k: v for k, v in entry.items() if k not in ("median_error", "p90_error", "rows")}


def moe_data(fit: MoeEfficiency) -> Data:
    """Return an expert fit in the file's units."""
    return {
        "compute": fit.compute,
        "memory": fit.memory,
        "fixed_us": fit.fixed_s * 1e6,
        "padding_tokens": fit.padding_tokens,
        "skew": fit.skew,
        "routed_memory": fit.routed_memory,
        "rank_skew": fit.rank_skew,
        "median_error": fit.median_error,
        "p90_error": fit.p90_error,
    }


def _attention(folder: Path, system: str, gpu: Gpu) -> Data:
    bandwidth, peak = gpu.memory_bandwidth_bytes_per_s, gpu.peak_flops_per_s["bf16"]
    prefill_rows = tables.prefill_rows(folder, system)
    prefill = fits.fit_prefill(prefill_rows, peak)
    found = {}
    for dtype, name in KV_DTYPES.items():
        rows = tables.decode_rows(folder, system, name)
        latent_rows = tables.latent_rows(folder, system, name)
        if not rows:
            continue
        decode = fits.fit_decode(rows, bandwidth, KV_BYTES[dtype])
        latent = fits.fit_latent(latent_rows, peak, bandwidth, KV_BYTES[dtype])
        found[dtype] = {
            "decode_memory": decode.values[0],
            "decode_fixed_us": decode.values[1],
            "prefill_compute": prefill.values[0],
            "prefill_fixed_us": prefill.values[1],
            "prefill_extra_tokens": prefill.values[2],
            "latent_compute": latent.values[0],
            "linear_memory": LINEAR_MEMORY,
            "linear_compute": LINEAR_COMPUTE,
            "median_error": decode.median_error,
            "p90_error": decode.p90_error,
            "prefill_median_error": prefill.median_error,
            "prefill_p90_error": prefill.p90_error,
            "rows": len(rows) + len(latent_rows) + len(prefill_rows),
        }
    return found


def _all_reduce(folder: Path, system: str) -> Data:
    found = {}
    for size in (2, 4, 8):
        rows = tables.all_reduce_rows(folder, system, size)
        if rows:
            found[str(size)] = {**all_reduce_data(fits.fit_all_reduce(rows)), "rows": len(rows)}
    return found


def all_reduce_data(fit: AllReduceEfficiency) -> Data:
    """Return an all-reduce fit in the file's units."""
    return {
        "latency_us": fit.latency_s * 1e6,
        "bandwidth_gb_per_s": fit.bandwidth_bytes_per_s / 1e9,
        "sharpness": fit.sharpness,
        "large_latency_us": fit.large_latency_s * 1e6,
        "large_bandwidth_gb_per_s": fit.large_bandwidth_bytes_per_s / 1e9,
        "median_error": fit.median_error,
        "p90_error": fit.p90_error,
    }


def generic_section(measured: Sequence[Data], section: str) -> Data:
    """Return the geometric mean of one section over the GPUs that measured each dtype."""
    dtypes = sorted({dtype for data in measured for dtype in data[section]})
    return {
        dtype: _mean(_alike([d for d in measured if dtype in d[section]], section, dtype))
        for dtype in dtypes
    }


def _alike(measured: Sequence[Data], section: str, dtype: str) -> list[Data]:
    """Return the entries of one dtype that ran the same kind of kernel.

    4-bit experts are weight-only where there are no fp4 units and something else where there are;
    the mean of both would be neither.
    """
    if section == "moe" and dtype in ("int4", "mxfp4"):
        plain = [d for d in measured if "nvfp4" not in d["moe"]]
        measured = plain or measured
    return [d[section][dtype] for d in measured]


def _mean(entries: Sequence[Mapping[str, Any]]) -> Data:
    """Geometric mean field by field; errors are the worst of any, rows the sum."""
    mean: Data = {}
    for key, first in entries[0].items():
        values = [entry[key] for entry in entries if key in entry]
        if key == "derived":
            mean[key] = first
        elif key == "rows":
            mean[key] = sum(values)
        elif key.endswith("error"):
            mean[key] = max(values)
        else:
            mean[key] = float(np.exp(np.mean(np.log(np.maximum(values, 0.01)))))
    return mean


def generic_ring(measured: Sequence[tuple[Gpu, Data]]) -> Data:
    """Return ring efficiency and latency by kind of link, from the measured all-reduces."""
    found: Data = {}
    for kind in ("link", "pcie"):
        group = [
            (gpu, d) for gpu, d in measured if (gpu.scaleup_bytes_per_s > 0) == (kind == "link")
        ]
        efficiencies: list[float] = []
        latency: dict[str, list[float]] = {}
        for gpu, data in group:
            link = gpu.scaleup_bytes_per_s or gpu.pcie_bytes_per_s
            for size, entry in data["all_reduce"].items():
                ideal = link / (2.0 * (int(size) - 1) / int(size))
                efficiencies.append(entry["large_bandwidth_gb_per_s"] * 1e9 / ideal)
                latency.setdefault(size, []).append(entry["latency_us"])
        found[kind] = {
            "efficiency": float(np.exp(np.mean(np.log(efficiencies)))),
            "latency_us": {
                s: float(np.exp(np.mean(np.log(v)))) for s, v in sorted(latency.items())
            },
        }
    return found
