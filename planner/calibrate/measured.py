"""What a measured serving point says, and which points may be compared with a prediction.

TPOT and TTFT are means where the run reported means, then statistics of unknown kind, then medians.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Row = Mapping[str, str]

STATISTICS = ("mean", "stat_unknown", "median")
QUEUED_SHARE = 0.25  # of the end-to-end time: beyond it TTFT is a queue, not a property


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Comparable figures of one row; None where it has none, or none that is comparable."""

    tpot_s: float | None
    ttft_s: float | None
    output_tokens_per_s: float | None


def number(row: Row, name: str) -> float | None:
    """Return a finite number or None."""
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_main(row: Row) -> bool:
    """Whether a row is an online closed loop whose conditions are known."""
    speculative = row["engine_version"] == "1.2.0rc6.post3" and "DeepSeek" in row["model"]
    return (
        row["load_type"].startswith("closed-loop")
        and not row["data_kind"].endswith("steady-state")
        and row["source_id"] != "aic_silicon_nv_internal"
        and not speculative
    )


def usable(row: Row) -> bool:
    """Whether nothing disqualifies the whole row: trust C, or speculation of unknown acceptance."""
    return row["trust"].strip() != "C" and row["spec_decode"] != "on"


def measured(row: Row) -> Measured:
    """Return the comparable figures of a main row."""
    if not usable(row):
        return Measured(tpot_s=None, ttft_s=None, output_tokens_per_s=None)
    output = number(row, "output_tokens")
    tpot, ttft = _first(row, "tpot"), _first(row, "ttft")
    if tpot is not None and output is not None and output < 2:
        tpot = None
    return Measured(
        tpot_s=tpot,
        ttft_s=None if _queued(ttft, tpot, output) or _cold(row) else ttft,
        output_tokens_per_s=number(row, "out_tok_s"),
    )


def _first(row: Row, metric: str) -> float | None:
    for statistic in STATISTICS:
        value = number(row, f"{metric}_{statistic}_ms")
        if value is not None and value > 0:
            return value / 1e3
    return None


def _queued(ttft: float | None, tpot: float | None, output: float | None) -> bool:
    if ttft is None or tpot is None or output is None:
        return False
    return ttft > QUEUED_SHARE * (ttft + (output - 1.0) * tpot)


def _cold(row: Row) -> bool:
    """Whether a first request that compiles dominates the mean of about ten requests."""
    clients = number(row, "concurrency")
    mean, median = number(row, "ttft_mean_ms"), number(row, "ttft_median_ms")
    if clients is None or mean is None or median is None:
        return False
    return clients <= 2 and mean > 2.0 * median
