"""What the user asks for: `slo.yaml` after validation (`schemas/slo.schema.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

METRICS = ("ttft_s", "tpot_s", "itl_s", "e2e_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One promise: at least `percentile` percent of requests (tokens for ITL) stay at `limit_s`.

    Percentiles are inverted-CDF, so "P99 ≤ x" and "attainment of x ≥ 99 %" are one statement.
    """

    metric: str  # one of METRICS
    percentile: float  # 50 … 99.9
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadClass:
    """Requests that share targets. `match` lists column conditions; the first match wins.

    `match` maps a canonical column (`class`, `model`, `tenant`, `input_tokens`, `output_tokens`, …)
    to a scalar (equality), a list (membership) or {"min": …, "max": …} (inclusive range).
    An empty match takes every request that no earlier class took. `priority` is vLLM's, for its
    scheduling policy of that name: lower is more urgent.
    """

    name: str
    targets: tuple[Target, ...]
    match: Mapping[str, object] = field(default_factory=dict)
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Everything `slo.yaml` declares, defaults filled in.

    `defaulted` lists the dotted paths that the user left out; the plan prints them.
    `warnings` are legal but suspicious declarations, each with its place.
    `sample_rate` is the share of requests that the trace holds (0.05: one in twenty).
    `growth` 0.1 plans for 10 % more requests; `headroom` 0.1 keeps 10 % of each replica's capacity
    free on top; `spare_replicas` are added whole.
    """

    model: str
    classes: tuple[WorkloadClass, ...]
    engine: str = "vllm"
    engine_version: str = ""  # "" = the newest in the catalogue
    evaluation_window_s: float = 3600.0
    min_requests_per_window: int = 1000
    growth: float = 0.0
    headroom: float = 0.1
    spare_replicas: int = 0
    sample_rate: float = 1.0
    gpus: tuple[str, ...] = ()  # allowed; empty = any given on the command line
    weight_dtypes: tuple[str, ...] = ()  # empty = as published
    kv_cache_dtypes: tuple[str, ...] = ()
    tensor_parallel_sizes: tuple[int, ...] = ()  # empty = every size that divides
    pipeline_parallel_sizes: tuple[int, ...] = ()
    expert_parallel: bool | None = None  # None = both, of a mixture of experts
    max_num_batched_tokens: tuple[int, ...] = ()  # empty = solver's grid
    max_num_seqs: tuple[int, ...] = ()
    gpu_memory_utilization: tuple[float, ...] = ()  # empty = the engine's default
    prefix_caching: bool = True
    routing: str = "random"  # what sends requests to replicas
    prices_usd_per_hour: Mapping[str, float] = field(default_factory=dict)  # GPU id -> declared
    current_replicas: int | None = None
    current_gpus: int | None = None
    seed: int = 42
    file: str = ""
    defaulted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
