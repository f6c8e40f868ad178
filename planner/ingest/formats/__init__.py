"""Every known format, one small module a family. To add one, add a `Format` and list its module."""

from __future__ import annotations

from planner.ingest.format import Format
from planner.ingest.formats import (
    azure,
    benchmarks,
    burstgpt,
    gateways,
    hashed,
    servegen,
    simulators,
    telemetry,
    unusable,
)

FORMATS: tuple[Format, ...] = (
    *azure.FORMATS,
    *burstgpt.FORMATS,
    *hashed.FORMATS,
    *servegen.FORMATS,
    *simulators.FORMATS,
    *gateways.FORMATS,
    *telemetry.FORMATS,
    *benchmarks.FORMATS,
    *unusable.FORMATS,
)
