"""What a schedule holds (`schemas/schedule.schema.json`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to run the fleet. Spares are not counted in the replicas but in the cost."""

    name: str  # "static", "scheduled", "reactive"
    least: int
    most: int
    replica_hours: float  # of the whole trace, booting and spares included
    usd_per_week: float | None
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What an autoscaler is set to, in the engine's own metrics, means of a minute and replica."""

    running: float  # num_requests_running to keep
    waiting: float  # num_requests_waiting that never lasted a minute while all targets held
    kv_use: float  # kv_cache_usage_perc likewise
    min_replicas: int
    max_replicas: int
    stabilization_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One evaluation window of the timetable."""

    label: str
    start_s: float
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The comparison, the timetable and the autoscaler's settings."""

    plan_name: str
    gpu: str
    gpus_per_replica: int
    boot_s: float
    spares: int
    span_s: float
    modes: tuple[Mode, ...]
    timetable: tuple[Hour, ...]
    thresholds: Thresholds | None  # None: no autoscaler that was tried holds
    replays: int


def stretches(found: Schedule) -> Sequence[tuple[str, int]]:
    """Return (label, replicas) of stretches of equal replicas, in the order of time."""
    equal: list[tuple[str, int]] = []
    for hour in found.timetable:
        if not equal or equal[-1][1] != hour.replicas:
            equal.append((hour.label, hour.replicas))
    return equal
