"""Which efficiencies a GPU gets: its own measured ones, the generic set, or the theory's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from planner.perf.operators import ring_bandwidth_bytes_per_s
from planner.resources import data_dir
from planner.spec.calibration import (
    AllReduceEfficiency,
    Calibration,
    OtherVendor,
    RingEfficiency,
)
from planner.spec.calibration_file import load_calibration
from planner.spec.gpu import Gpu

WORLD_SIZES = (2, 4, 8, 16)


def calibration(gpu: Gpu, ideal: bool = False) -> Calibration:
    """Return the efficiencies to compile `gpu`'s step times with.

    A GPU that names no calibration inherits the generic one: the geometric mean of the measured
    GPUs, all-reduce derived from its own link, and a wider band. Formats and world sizes that a
    measured GPU lacks are filled from the generic set too.

    Parameters
    ----------
    gpu
        Catalogue entry.
    ideal
        The theory's roofline instead: every efficiency 1, one fused max.
    """
    if ideal:
        return _load("ideal")
    generic = _load("generic")
    return assemble(gpu, _load(gpu.calibration) if gpu.calibration else generic, generic)


def assemble(gpu: Gpu, own: Calibration, generic: Calibration) -> Calibration:
    """Return `own` for a GPU, completed from the generic set; the band says what it rests on."""
    inherited = dict(generic.moe)
    if "fp4" in gpu.peak_flops_per_s and "nvfp4" in inherited:
        inherited["mxfp4"] = inherited["nvfp4"]  # native units: the generic one is weight-only
    complete = replace(
        own,
        gemm={**generic.gemm, **own.gemm},
        moe={**inherited, **own.moe},
        attention={**generic.attention, **own.attention},
        all_reduce={**ring_all_reduce(gpu, generic.ring), **own.all_reduce},
    )
    if own.evidence != "generic" or gpu.vendor == "nvidia" or generic.other_vendor is None:
        return complete
    # No part of another vendor is in the mean.
    return other_vendor(complete, generic.other_vendor)


def other_vendor(generic: Calibration, differs: OtherVendor) -> Calibration:
    """Return the generic set as another vendor's software runs it: slow launches, slow fp8."""

    def share(dtype: str) -> float:
        return differs.fp8_efficiency if dtype.startswith("fp8") else 1.0

    factor = differs.fixed_factor
    return replace(
        generic,
        gemm={
            key: replace(
                fit,
                compute=fit.compute * share(key),
                memory=fit.memory * share(key),
                fixed_s=fit.fixed_s * factor,
                per_input_s=fit.per_input_s * factor,
            )
            for key, fit in generic.gemm.items()
        },
        moe={
            key: replace(
                fit,
                compute=fit.compute * share(key),
                memory=fit.memory * share(key),
                fixed_s=fit.fixed_s * factor,
            )
            for key, fit in generic.moe.items()
        },
        attention={
            key: replace(fit, decode_fixed_s=fit.decode_fixed_s * factor)
            for key, fit in generic.attention.items()
        },
        all_reduce={
            key: replace(fit, latency_s=fit.latency_s * factor)
            for key, fit in generic.all_reduce.items()
        },
        band=generic.band_other_vendor,
        bands={},
    )


def ring_all_reduce(
    gpu: Gpu, rings: Mapping[str, RingEfficiency]
) -> dict[int, AllReduceEfficiency]:
    """Return all-reduce times by world size from the GPU's own links.

    Groups inside the fast link's domain use it, larger ones the PCIe bus.
    """
    found = {}
    for size in WORLD_SIZES:
        fast = gpu.scaleup_bytes_per_s > 0 and size <= gpu.scaleup_domain_gpus
        ring = rings["link" if fast else "pcie"]
        link = gpu.scaleup_bytes_per_s if fast else gpu.pcie_bytes_per_s
        widest = max(s for s in ring.latency_s if s <= size)
        found[size] = AllReduceEfficiency(
            latency_s=ring.latency_s[widest],
            bandwidth_bytes_per_s=ring_bandwidth_bytes_per_s(link, size, ring.efficiency),
            sharpness=1.0,
        )
    return found


@cache
def _load(name: str) -> Calibration:
    return load_calibration(data_dir("calibration") / f"{name}.yaml")
