"""Number formats of weights and KV cache: what they cost in bytes, and which hardware path runs."""

from __future__ import annotations

from dataclasses import dataclass

from planner.spec.gpu import Gpu

# Bytes per parameter with the scales each format stores beside the weights.
BYTES_PER_PARAMETER = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,  # one scale per tensor or channel: nothing
    "fp8_block": 1.0 + 4.0 / (128 * 128),  # an fp32 scale per 128 × 128 block
    "int8": 1.0,
    "int4": 0.5 + 2.5 / 128,  # AWQ and GPTQ: fp16 scale and 4-bit zero per group of 128
    "mxfp4": 0.5 + 1.0 / 32,  # an 8-bit scale per 32
    "nvfp4": 0.5 + 1.0 / 16,  # an fp8 scale per 16
}
KV_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """How a GPU multiplies by weights of one format."""

    weight_bytes: float  # per parameter
    activation_bytes: float  # per element of the input
    peak_flops_per_s: float
    calibration: str  # dtype key of the calibration tables: what the kernel computes in
    weight_only: bool  # weights are unpacked to 16 bit: no FLOP gain


def half_precision(gpu: Gpu) -> str:
    """Return the 16-bit format the GPU has a matrix path for: bf16, or fp16 before Ampere."""
    return "bf16" if "bf16" in gpu.peak_flops_per_s else "fp16"


def arithmetic(gpu: Gpu, weight_dtype: str) -> Arithmetic:
    """Return how `gpu` computes with weights of `weight_dtype`.

    fp8 needs fp8 matrix units and nvfp4 fp4 ones, otherwise the weights are unpacked to 16 bit
    (Marlin kernels): memory is saved, FLOPs are not. int4 is always weight-only. mxfp4 runs with
    fp8 activations where fp4 units exist and weight-only elsewhere.
    """
    stored = BYTES_PER_PARAMETER[weight_dtype]
    native = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "int8": "int8"}.get(weight_dtype)
    if native and native in gpu.peak_flops_per_s:
        moved = {"fp8": 1.0, "int8": 1.0, "fp4": BYTES_PER_PARAMETER["nvfp4"]}[native]
        peak = gpu.peak_flops_per_s[native]
        return Arithmetic(
            weight_bytes=stored,
            activation_bytes=moved,
            peak_flops_per_s=peak,
            calibration=weight_dtype,
            weight_only=False,
        )
    if weight_dtype == "mxfp4" and "fp4" in gpu.peak_flops_per_s:
        return Arithmetic(
            weight_bytes=stored,
            activation_bytes=1.0,
            peak_flops_per_s=gpu.peak_flops_per_s["fp8"],
            calibration="mxfp4",
            weight_only=False,
        )
    half = half_precision(gpu)
    return Arithmetic(
        weight_bytes=stored,
        activation_bytes=2.0,
        peak_flops_per_s=gpu.peak_flops_per_s[half],
        calibration=weight_dtype if weight_dtype in ("int4", "mxfp4") else "bf16",
        weight_only=stored < 2.0,
    )
