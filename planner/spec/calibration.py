"""Measured efficiencies of a GPU's operators (`schemas/calibration.schema.json`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmEfficiency:
    """Time of one GEMM.

    ((FLOPs/(peak·compute))^r + (bytes/(bandwidth·memory))^r)^(1/r) + fixed_s + K·per_input_s,
    r = `sharpness`, K the length of the reduction.
    """

    compute: float
    memory: float
    fixed_s: float
    sharpness: float  # r: how abruptly compute and memory trade places; inf is a plain max
    per_input_s: float = 0.0  # per element of the reduction: the serial loop over K tiles
    median_error: float = 0.0
    p90_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeEfficiency:
    """Grouped expert GEMMs, padded to tiles per touched expert, and the moves around them."""

    compute: float
    memory: float
    fixed_s: float
    padding_tokens: float
    skew: float  # exponent on tokens in the distinct-experts law; 1 is uniform routing
    rank_skew: float = 0.0  # exponent on ranks: the popular one's share of routed tokens
    routed_memory: float = 1.0  # share of bandwidth at which tokens move to experts and back
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
    latent_compute: float = 0.45  # absorbed MLA decode, share of the 16-bit peak
    linear_memory: float = 0.6  # constant-state layers: share of bandwidth per decode
    linear_compute: float = 0.2  # … and of the 16-bit peak per prefill token
    index_memory: float = 0.5  # sparse attention's indexer: share of bandwidth
    index_fixed_s: float = 70e-6  # … selection (a block a sequence) and launches, a layer and step
    median_error: float = 0.0  # decode
    p90_error: float = 0.0
    prefill_median_error: float = 0.0
    prefill_p90_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceEfficiency:
    """Time of one all-reduce of `n` bytes: the faster of two algorithms.

    min((latency^r + (n/bandwidth)^r)^(1/r), large_latency + n/large_bandwidth): a peer-to-peer
    kernel for small messages, a pipelined ring for large ones, or the first alone.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    sharpness: float
    large_latency_s: float = math.inf
    large_bandwidth_bytes_per_s: float = math.inf
    median_error: float = 0.0
    p90_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RingEfficiency:
    """All-reduce of a GPU without a table: a ring over its link, `efficiency` of the link's rate.

    `latency_s` is by world size. `kind` of link is the key: "link" (NVLink and the like) or "pcie".
    """

    efficiency: float
    latency_s: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVendor:
    """What separates another vendor's GPUs from the generic set, fitted on end-to-end points.

    `fp8_efficiency` multiplies the efficiencies of fp8 kernels, `fixed_factor` every fixed time.
    """

    fp8_efficiency: float
    fixed_factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Everything measured about one GPU, keyed by dtype or group size; where it came from.

    `id` "ideal" is the roofline of the theory: every efficiency 1, no fixed times, no attention
    FLOPs, one fused max over the whole step. `band` is the relative error band of a step time,
    `bands` that of the families with enough points of their own.
    """

    id: str
    gemm: Mapping[str, GemmEfficiency]
    moe: Mapping[str, MoeEfficiency]
    attention: Mapping[str, AttentionEfficiency]  # by KV dtype
    all_reduce: Mapping[int, AllReduceEfficiency]  # by world size
    ring: Mapping[str, RingEfficiency] = field(default_factory=dict)  # by kind of link
    fused_max: bool = False
    evidence: str  # "measured_operators", "generic", "ideal"
    band: float
    bands: Mapping[str, float] = field(default_factory=dict)  # by family: "vllm/moe"
    band_other_vendor: float = 0.0  # of the generic set on a GPU of another vendor
    other_vendor: OtherVendor | None = None
    source: str
    date: str

    def family_band(self, engine: str, moe: bool) -> float:
        """Return the band of a family (engine, dense or MoE); `band` where it has none."""
        return self.bands.get(f"{engine}/{'moe' if moe else 'dense'}", self.band)
