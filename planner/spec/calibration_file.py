"""Read a calibration file (`schemas/calibration.schema.json`) into a `Calibration`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.spec.calibration import (
    AllReduceEfficiency,
    AttentionEfficiency,
    Calibration,
    GemmEfficiency,
    MoeEfficiency,
    OtherVendor,
    RingEfficiency,
)
from planner.spec.document import raise_for
from planner.spec.load import scan_document
from planner.spec.validate import validate
from planner.units import GB, MICRO

_ABOUT = {"rows", "derived"}  # provenance that no equation reads


def load_calibration(path: Path) -> Calibration:
    """Return the calibration that `path` holds.

    Raises
    ------
    InputError
        The file cannot be read or does not match its schema: every problem with its place.
    """
    document = scan_document(path)
    raise_for(validate(document, "calibration"))
    data = document.data
    assert isinstance(data, dict)
    return calibration_from_data(data)


def calibration_from_data(data: Mapping[str, Any]) -> Calibration:
    """Return the calibration of an already validated mapping; µs and GB/s become SI here."""
    return Calibration(
        id=data["id"],
        gemm={key: GemmEfficiency(**_si(entry)) for key, entry in data["gemm"].items()},
        moe={key: MoeEfficiency(**_si(entry)) for key, entry in data["moe"].items()},
        attention={
            key: AttentionEfficiency(**_si(entry)) for key, entry in data["attention"].items()
        },
        all_reduce={
            int(key): AllReduceEfficiency(**_si(entry)) for key, entry in data["all_reduce"].items()
        },
        ring={key: _ring(entry) for key, entry in data.get("ring", {}).items()},
        fused_max=data.get("fused_max", False),
        evidence=data["evidence"],
        band=data["band"],
        bands=dict(data.get("bands", {})),
        band_other_vendor=data.get("band_other_vendor", 0.0),
        other_vendor=OtherVendor(**data["other_vendor"]) if "other_vendor" in data else None,
        source=data["source"],
        date=str(data["date"]),
    )


def _ring(entry: Mapping[str, Any]) -> RingEfficiency:
    latency = {int(size): value * MICRO for size, value in entry["latency_us"].items()}
    return RingEfficiency(efficiency=entry["efficiency"], latency_s=latency)


def _si(entry: Mapping[str, Any]) -> dict[str, float]:
    """Rename `…_us` and `…_ns` to `…_s`, `…_gb_per_s` to `…_bytes_per_s`, scaling the values."""
    renamed = {}
    for key, value in entry.items():
        if key in _ABOUT:
            continue
        if key.endswith("_us"):
            renamed[key.removesuffix("_us") + "_s"] = value * MICRO
        elif key.endswith("_ns"):
            renamed[key.removesuffix("_ns") + "_s"] = value * 1e-9
        elif key.endswith("_gb_per_s"):
            renamed[key.removesuffix("_gb_per_s") + "_bytes_per_s"] = value * GB
        else:
            renamed[key] = float(value)
    return renamed
