"""The fleet plan (`schemas/fleet-plan.schema.json`). `fleet.json` is its only truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.spec.deployment import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class StockQuarter:
    """GPUs of one type in one region in one quarter."""

    gpu: str
    region: str
    held: int
    keep: int  # held before and still
    buy: int
    release: int
    used: int
    available: int
    usd_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Replicas of one service on one GPU type in one region, and whether that changes."""

    service: str
    gpu: str
    region: str
    replicas: int
    gpus: int
    change: int  # replicas more than in the quarter before; the first quarter changes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuarter:
    """One service in one quarter, in requests/s of the whole service.

    `capacity` is what its replicas carry within every target, `capacity_after_loss` without its
    spares or, if worse and survived, without its largest region. `risk` is the probability that
    demand is above either; None where the forecast has no band.
    """

    service: str
    live: bool
    expected_requests_per_s: float
    low_requests_per_s: float
    high_requests_per_s: float
    provisioned_requests_per_s: float  # what the plan must carry, headroom still to be added
    capacity_requests_per_s: float
    capacity_after_loss_requests_per_s: float
    risk: float | None
    risk_after_loss: float | None
    gpus: int
    usd_per_month: float
    launches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarter:
    """One quarter: what is bought, kept and released, what runs where, what it costs and risks."""

    name: str
    start: str  # ISO 8601
    usd_per_month: float
    usd: float  # of the whole quarter
    budget_usd_per_month: float | None
    stocks: tuple[StockQuarter, ...]
    placements: tuple[Placement, ...]
    services: tuple[ServiceQuarter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How one service runs on one GPU type, and what one replica carries of it."""

    service: str
    gpu: str
    deployment: Deployment
    gpus: int
    capacity_requests_per_s: float  # of one replica within every target, headroom taken off
    shrunk_share: float  # by how much a replay of the fleet lowered it
    band: float  # relative half-width that the physics' calibration leaves
    verified: str  # "replay" or "closed_form"
    usd_per_month: float | None  # of one replica at the lowest price; None: not in its regions
    used: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A service that cannot run on a GPU type, and why."""

    service: str
    gpu: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTestRow:
    """How a forecasting method would have done on one service's history."""

    method: str
    forecasts: int
    mean_error_share: float
    bias_share: float
    inside_band_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceForecast:
    """How one service's demand will go, and the evidence for it."""

    service: str
    model: str
    method: str  # "trend", "flat" or "declared"
    growth_per_quarter: float
    measurements: int
    requests_per_s: float  # today
    requests: int  # of the traffic that was replayed
    tests: tuple[BackTestRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Several services on shared GPUs, quarter by quarter."""

    schema_version: str
    name: str
    start: str
    confidence: float
    provision_for: str
    usd: float  # of all quarters
    gap: float  # proven distance from the cheapest fleet, relative
    replayed: int  # pools of the final fleet that were replayed and hold
    rounds: int  # times the optimiser ran, capacities lowered in between
    quarters: tuple[Quarter, ...]
    forecasts: tuple[ServiceForecast, ...]
    configurations: tuple[Configuration, ...]
    left_out: tuple[LeftOut, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    command: str
    planner_version: str
    inputs_sha256: Mapping[str, str]
    library_versions: Mapping[str, str]
