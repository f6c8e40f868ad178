"""Measured efficiencies of a GPU's operators (`schemas/calibration.schema.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmEfficiency:
    """Time of one GEMM.

    ((FLOPs/(peak·compute))^r + (bytes/(bandwidth·memory))^r)^(1/r) + fixed_s, r = `sharpness`.
    """

    compute: float
    memory: float
    fixed_s: float
    sharpness: float  # r: how abruptly compute and memory trade places; inf is a plain max
    median_error: float = 0.0
    p90_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeEfficiency:
    """Grouped expert GEMMs: a GEMM with tile padding per touched expert and routing skew."""

    compute: float
    memory: float
    fixed_s: float
    padding_tokens: float
    skew: float  # exponent on tokens in the distinct-experts law; 1 is uniform routing
    median_error: float = 0.0
    p90_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionEfficiency:
    """Decode reads KV at `decode_memory`·bandwidth; prefill runs at `prefill_compute`·peak."""

    decode_memory: float
    decode_fixed_s: float
    prefill_compute: float
    prefill_fixed_s: float
    prefill_extra_tokens: float  # n0: extra attended positions per query that tiles cost


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceEfficiency:
    """Time of one all-reduce of `n` bytes: (latency^r + (n/bandwidth)^r)^(1/r)."""

    latency_s: float
    bandwidth_bytes_per_s: float
    sharpness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Everything measured about one GPU, keyed by dtype or group size; where it came from.

    `id` "ideal" is the roofline of the theory: every efficiency 1, no fixed times, no attention
    FLOPs, one fused max over the whole step. `band` is the relative error band of a step time.
    """

    id: str
    gemm: Mapping[str, GemmEfficiency]
    moe: Mapping[str, MoeEfficiency]
    attention: Mapping[str, AttentionEfficiency]  # by KV dtype
    all_reduce: Mapping[int, AllReduceEfficiency]  # by world size
    fused_max: bool = False
    evidence: str  # "measured_operators", "generic", "ideal"
    band: float
    source: str
    date: str
