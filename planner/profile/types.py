"""What a profile holds: small, serialisable (`schemas/profile.schema.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthStats:
    """Distribution of a token count: inverted-CDF percentiles, so each is a value that occurred."""

    mean: float
    std: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalStats:
    """How requests arrive. Rates are of the trace as given, before the sample rate."""

    mean_per_s: float
    peak_to_mean_1s: float
    peak_to_mean_60s: float
    peak_to_mean_3600s: float
    peak_per_minute: int
    peak_per_hour: int
    gap_cv: float  # std / mean of inter-arrival times
    zero_gap_share: float
    gamma_shape: float  # maximum likelihood on gaps > 0
    weibull_shape: float
    ks_exponential: float
    ks_gamma: float
    ks_weibull: float
    fano_1s: float  # variance / mean of counts per window; 1 is Poisson
    fano_60s: float
    time_quantum_s: float  # resolution found in the timestamps; 0 when none shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram2d:
    """Joint histogram of input and output tokens on power-of-two edges; counts[input][output]."""

    input_edges: tuple[int, ...]
    output_edges: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseStats:
    """Prefix reuse where block ids or sessions exist; shares of input tokens."""

    block_tokens: int
    blocks: int
    unique_blocks: int
    requests_with_hit_share: float
    hit_share_by_cache_blocks: Mapping[
        str, float
    ]  # "inf", "1000", "5000", …: LRU, one global cache


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """Multi-turn structure."""

    sessions: int
    turns_per_session_mean: float
    turns_per_session_p95: float
    think_time_p50_s: float
    think_time_p95_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassProfile:
    """One workload class."""

    name: str
    requests: int
    share: float
    input_tokens: LengthStats
    output_tokens: LengthStats
    arrivals: ArrivalStats
    pearson: float  # input/output correlation
    spearman: float
    joint: Histogram2d
    hour_of_week: tuple[float, ...]  # 168 mean requests per hour, Monday 00:00 first; () if unknown
    reuse: ReuseStats | None
    sessions: SessionStats | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One stretch of time that is hard on some resource. Rates are of the trace as given."""

    label: str  # "busiest hour by prompt tokens"
    start_s: float
    duration_s: float
    requests: int
    requests_per_s: float
    input_tokens_per_s: float
    output_tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceProfile:
    """The whole trace and each class in it."""

    requests: int
    span_s: float
    origin: str
    total: ClassProfile
    classes: tuple[ClassProfile, ...]
    hardest_windows: tuple[Window, ...]
