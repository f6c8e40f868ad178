"""What a measured serving point says, and which points may be compared with a prediction.

TPOT and TTFT are means where the run reported means, then statistics of unknown kind, then medians.
Inter-token latencies are never used: their median hides the stalls of prefills.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

Row = Mapping[str, str]

STATISTICS = ("mean", "stat_unknown", "median")
QUEUED_SHARE = 0.25  # of the end-to-end time: beyond it TTFT is a queue, not a property
KEEPS_UP = 0.95  # of the offered rate: below it an open loop is overloaded
OVERLOADED_TTFT_S = 10.0  # … where no offered rate is known
METRICS = ("TPOT", "TTFT", "TTFT(queued)", "tok/s")
SETS = ("main", "static", "steady", "suspect", "openloop", "burst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Comparable figures of one row; None where it has none, or none that is comparable."""

    tpot_s: float | None
    ttft_s: float | None
    output_tokens_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure, in the file's units, or why it is not compared."""

    value: float | None
    excluded: str = ""


def text(row: Row, name: str) -> str:
    """Return a column's text; a points file may lack the column."""
    return (row.get(name) or "").strip()


def number(row: Row, name: str) -> float | None:
    """Return a finite number or None."""
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def dataset(row: Row) -> str:
    """Return which kind of run a row is: one of `SETS`.

    "main" is an online closed loop. "suspect" is put aside: one source lost the parallelism of its
    MoE rows, and TensorRT-LLM 1.2.0rc6.post3 ran DeepSeek with speculation of unknown acceptance.
    """
    load, kind = text(row, "load_type"), text(row, "data_kind")
    speculative = text(row, "engine_version") == "1.2.0rc6.post3" and "DeepSeek" in text(
        row, "model"
    )
    if text(row, "source_id") == "aic_silicon_nv_internal" or speculative:
        return "suspect"
    if kind.endswith("steady-state"):
        return "steady"
    for prefixes, name in (
        (("closed-loop",), "main"),
        (("static batch",), "static"),
        (("poisson", "open-loop", "trace"), "openloop"),
    ):
        if load.startswith(prefixes):
            return name
    return "burst" if "load_type" in row else "main"


def is_main(row: Row) -> bool:
    """Whether a row is an online closed loop whose conditions are known."""
    return dataset(row) == "main"


def usable(row: Row) -> bool:
    """Whether nothing disqualifies the whole row: trust C, or speculation of unknown acceptance."""
    return not _disqualified(row)


def _disqualified(row: Row) -> str:
    if text(row, "trust") == "C":
        return "trust C"
    return "speculative decoding" if text(row, "spec_decode") == "on" else ""


def measured(row: Row) -> Measured:
    """Return the comparable figures of a row in seconds."""
    found = figures(row)

    def seconds(metric: str) -> float | None:
        figure = found[metric]
        return None if figure.excluded or figure.value is None else figure.value / 1e3

    stated = number(row, "out_tok_s") if usable(row) else None
    return Measured(
        tpot_s=seconds("TPOT"), ttft_s=seconds("TTFT"), output_tokens_per_s=stated or None
    )


def figures(row: Row) -> dict[str, Figure]:
    """Return every metric of a row: its value, and why it is not compared if it is not."""
    tpot, ttft = _first(row, "tpot"), _first(row, "ttft")
    output = number(row, "output_tokens")
    bad = _disqualified(row)
    queued = _queued(row, ttft, tpot, output)
    why = bad or ("" if ttft else "not measured") or _no_ttft(row, ttft)
    rate = output_rate(row, ttft, tpot)
    return {
        "TPOT": Figure(value=tpot, excluded=bad or _no_tpot(row, tpot, output)),
        "TTFT": Figure(value=ttft, excluded=why or ("queued" if queued else "")),
        "TTFT(queued)": Figure(value=ttft, excluded=why or ("" if queued else "not queued")),
        "tok/s": Figure(value=rate, excluded=bad or _no_rate(row, rate)),
    }


def output_rate(row: Row, ttft_ms: float | None, tpot_ms: float | None) -> float | None:
    """Return output tokens/s: stated, or of a closed loop C·O/(TTFT + (O − 1)·TPOT)."""
    stated = number(row, "out_tok_s")
    if stated and stated > 0:
        return stated
    output, clients = number(row, "output_tokens"), number(row, "concurrency")
    if dataset(row) not in ("main", "suspect") or not (ttft_ms and tpot_ms and output and clients):
        return None
    return 1e3 * clients * output / (ttft_ms + (output - 1.0) * tpot_ms)


def rate_is_measured(row: Row) -> bool:
    """Whether the run reported its throughput, instead of having it derived from latencies."""
    return (number(row, "out_tok_s") or 0.0) > 0.0


def _first(row: Row, metric: str) -> float | None:
    for statistic in STATISTICS:
        value = number(row, f"{metric}_{statistic}_ms")
        if value is not None and value > 0:
            return value
    return None


def _no_tpot(row: Row, tpot: float | None, output: float | None) -> str:
    if not tpot:
        return "not measured"
    if output and output < 2:
        return "output < 2"
    return "steady: inter-token latency only" if dataset(row) == "steady" else ""


def _no_ttft(row: Row, ttft: float | None) -> str:
    """Return why a TTFT is the benchmark's doing: a burst, an overload, a cold start."""
    kind = dataset(row)
    if kind in ("burst", "steady"):
        return "burst or saturated: the time to drain a queue"
    if kind == "openloop":
        offered, served = number(row, "req_rate"), number(row, "req_s")
        behind = offered and served and served < KEEPS_UP * offered
        if behind or (not offered and ttft and ttft > 1e3 * OVERLOADED_TTFT_S):
            return "overloaded open loop"
    return "cold start" if kind == "main" and _cold(row) else ""


def _no_rate(row: Row, rate: float | None) -> str:
    if not rate:
        return "not measured"
    return "open loop: the offered rate" if dataset(row) == "openloop" else ""


def _queued(row: Row, ttft: float | None, tpot: float | None, output: float | None) -> bool:
    if not (ttft and tpot and output) or dataset(row) not in ("main", "suspect"):
        return False
    return ttft > QUEUED_SHARE * (ttft + (output - 1.0) * tpot)


def _cold(row: Row) -> bool:
    """Whether a first request that compiles dominates the mean of about ten requests."""
    clients = number(row, "concurrency")
    mean, median = number(row, "ttft_mean_ms"), number(row, "ttft_median_ms")
    if not (clients and mean and median):
        return False
    return clients <= 2 and mean > 2.0 * median
