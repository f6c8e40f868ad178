"""A GPU as the catalogue declares it (`schemas/gpu.schema.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an hour of one GPU costs, with where and when that was read."""

    usd_per_hour: float
    kind: str  # "low", "typical", "hyperscaler" or "declared"
    source: str
    date: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Datasheet figures of one GPU: dense rates, one direction per link, nothing sparse.

    `memory_bytes_visible` is what the driver reports; None where nobody published it, and then
    `perf.memory` applies a stated fraction of the marketing figure with a wider band.
    `peak_flops_per_s` maps "bf16", "fp16", "fp8", "int8", "fp4" to dense peaks; a missing key means
    no hardware path (a T4 has no bf16, an A100 no fp8).
    """

    id: str  # canonical: "h100-sxm"
    name: str  # "H100-80GB-SXM"
    aliases: tuple[str, ...] = ()
    vendor: str = "nvidia"
    memory_bytes_marketing: float
    memory_bytes_visible: float | None
    memory_bandwidth_bytes_per_s: float
    peak_flops_per_s: Mapping[str, float]
    scaleup_link: str  # "NVLink4", "none", ...
    scaleup_bytes_per_s: float  # per direction; 0 without a link
    scaleup_domain_gpus: int  # GPUs that reach each other over that link (8 HGX, 2 bridge, 72 NVL)
    pcie_bytes_per_s: float
    gpus_per_node: int
    tdp_w: float | None
    prices: tuple[Price, ...] = ()
    source: str
    date: str
    confidence: str  # "high", "medium", "low"
    trap: str = ""  # what people get wrong about this part
    calibration: str = ""  # id of the measured efficiencies; "" inherits the generic set
    notes: Mapping[str, str] = field(default_factory=dict)

    def price_usd_per_hour(self, kind: str = "typical") -> float | None:
        """Return the catalogue price of `kind`, or None where none is known."""
        for price in self.prices:
            if price.kind == kind:
                return price.usd_per_hour
        return None
