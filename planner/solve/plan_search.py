"""What a plan says of its search: every layout, every split, and what was compared beside it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.spec.deployment import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Replicas that serve some classes alone. None: not solved, or nothing holds.

    `least` is what throughput alone would need, in GPUs or, where every GPU has a price, in $/h.
    """

    classes: tuple[str, ...]
    deployment: Deployment | None
    replicas: int | None  # spares included
    gpus: int | None
    usd_per_hour: float | None
    least_gpus: int | None
    least_usd_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to give classes pools of their own, at the same targets."""

    pools: tuple[Pool, ...]
    outcome: str  # "no_cheaper_at_best", "not_asked", "misses", "no_cheaper", "cheaper"
    gpus: int | None
    usd_per_hour: float | None
    least_gpus: int | None
    least_usd_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """One pool whose engine admits by priority, at the same targets."""

    classes: tuple[str, ...]  # most urgent first
    declared: bool  # False: no priorities in slo.yaml, tighter targets go first
    outcome: str  # "no_cheaper_at_best", "not_asked", "not_replayed", "no_cheaper", "cheaper"
    deployment: Deployment | None  # the cheapest; None: not asked or no cheaper
    replicas: int | None  # spares included
    gpus: int | None
    usd_per_hour: float | None
    replays: int  # that the question took


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """One pool for every class against pools of their own; `cheapest` is a place in `splits`."""

    shared_gpus: int
    shared_usd_per_hour: float | None
    splits: tuple[Split, ...]
    cheapest: int | None
    priority: Priority | None = None  # None: no replay stands behind the plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchGroup:
    """Candidates that share GPU, layout and dtypes, and what became of them.

    `least_gpus` would carry the load if only throughput counted, spares included; no member can
    do with fewer. `replayed` members were asked by replay.
    """

    gpu: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    weight_dtype: str
    kv_cache_dtype: str
    candidates: int
    dropped: int  # of those: do not fit in memory
    replayed: int
    least_gpus: int | None
    least_usd_per_hour: float | None
    expert_parallel: bool = False
    gpu_memory_utilization: float | None = None  # None: it differs, as the engine derives it
    outcome: str  # "chosen", "misses_where_cheaper", "no_cheaper_at_best", …


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTotals:
    """How many configurations each stage of the search left, and what the plan cost in replays.

    A replay is of one window or of the whole trace; those that doubts and sensitivities asked for
    count as well, those that were answered from memory do not.
    """

    enumerated: int
    fit: int  # in memory
    could_be_cheaper: int  # by throughput alone; the chosen group is among them
    replayed: int
    replays: int
    stopped_early: int  # of these: given up when a target was lost
    requests: int  # that went into replays
    compared: int = 0  # settings beside the plan that were replayed
    ruled_out: int = 0  # and those that a bound or the trace showed unable to win


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A setting that the search leaves as it is, moved by itself at the plan's configuration.

    Its count is sought in the windows that decide; None where a bound answers before any replay or
    where it was enough to know that a replica fewer misses a target.
    """

    dimension: str  # "routing", "prefix_caching", "gpu_memory_utilization"
    value: str  # "least_loaded", "off", "0.95"
    planned: str  # the plan's value
    outcome: (
        str  # "saves", "no_fewer", "same", "costs_more", "misses", "cannot_win", "not_replayed"
    )
    reason: (
        str  # why it was not asked: "throughput", "one_replica", "kv_never_full", …; "" if asked
    )
    replicas: int | None  # spares included
    gpus: int | None
    usd_per_hour: float | None
    replays: int  # that the question took
