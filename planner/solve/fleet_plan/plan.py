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
    committed: int  # of those held: paid for in any case
    available: int
    usd_per_gpu_month: float
    usd_per_month: float
    one_off_usd: float  # of what is bought and released


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Replicas of one service on one GPU type in one region, and whether that changes."""

    service: str
    gpu: str
    region: str
    replicas: int
    gpus: int
    capacity_requests_per_s: float  # of these replicas, within every target
    usd_per_month: float
    change: int  # replicas more than in the quarter before; the first quarter changes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The largest loss that a service is planned to survive in a quarter.

    `kind` is "replicas" (the spares, on `place`, a GPU type) or "region" (all in `place`).
    """

    kind: str
    place: str
    replicas: int
    capacity_requests_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceQuarter:
    """One service in one quarter, in requests/s of the whole service.

    Demand is that of the day `on`: base·(1 + growth)^elapsed_quarters·factor + added, base and
    growth of its `ServiceForecast`. `provisioned` is the demand planned for, `required` the same
    with the headroom on top: what must be carried after `loss`, the largest planned for; None where
    the service is asked to survive none. `capacity` is what its replicas carry within every target,
    `capacity_without_one` the same with the strongest replica lost, asked or not.

    `risk` is the probability that demand is above the capacity, `risk_after_loss` above what the
    loss leaves, `risk_at_low_band` above the capacity with every replica at the lower end of its
    physics' band; None where the forecast has no band. `replayed` counts pools that were replayed.
    """

    service: str
    live: bool
    on: str  # ISO 8601
    elapsed_quarters: float
    factor: float
    added_requests_per_s: float
    expected_requests_per_s: float
    low_requests_per_s: float
    high_requests_per_s: float
    provisioned_requests_per_s: float
    required_requests_per_s: float
    capacity_requests_per_s: float
    loss: Loss | None
    capacity_after_loss_requests_per_s: float | None
    capacity_without_one_requests_per_s: float
    risk: float | None
    risk_after_loss: float | None
    risk_at_low_band: float | None
    replayed: int
    gpus: int
    usd_per_month: float
    launches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarter:
    """One quarter: what is bought, kept and released, what runs where, what it costs and risks."""

    name: str
    start: str  # ISO 8601
    usd_per_month: float
    one_off_usd: float
    usd: float  # of the whole quarter, one-off costs included
    budget_usd_per_month: float | None
    stocks: tuple[StockQuarter, ...]
    placements: tuple[Placement, ...]
    services: tuple[ServiceQuarter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPrice:
    """One replica's price in one region."""

    region: str
    usd_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """Why a capacity is lower than first measured: the pool whose replay did not confirm it."""

    quarter: str
    replicas: int
    requests_per_s: float  # that those replicas got together, headroom included
    first_replicas: int  # of the fleet it was first measured on
    first_requests_per_s: float  # what one replica carried there


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrawn:
    """A configuration's fullest pool replayed again with other draws of who meets on a replica."""

    replicas: int  # of that pool
    draws: int
    hold: int  # of them, with the headroom filled: the load it was chosen for
    hold_with_headroom_free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How one service runs on one GPU type, and what one replica carries of it."""

    service: str
    gpu: str
    deployment: Deployment
    gpus: int
    capacity_requests_per_s: float  # of one replica within every target
    lowered: Lowered | None
    redrawn: Redrawn | None
    band: float  # relative half-width that the physics' calibration leaves
    verified: str  # "replay" or "closed_form"
    prices: tuple[RegionPrice, ...]  # in the service's regions
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
class Measurement:
    """Demand of a service on a day."""

    date: str  # ISO 8601
    requests_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceForecast:
    """How one service's demand will go, and the evidence for it.

    Demand is expected to grow from `base_requests_per_s` on the day `base_date` by
    `growth_per_quarter`. `history` ends with the traffic itself; the forecast rests on the last
    `measurements` of it. `last_growth_per_quarter` is between its last two; None where there is but
    one.
    """

    service: str
    model: str
    method: str  # "trend", "flat" or "declared"
    growth_per_quarter: float
    base_date: str  # ISO 8601
    base_requests_per_s: float
    measurements: int
    history: tuple[Measurement, ...]
    last_growth_per_quarter: float | None
    requests_per_s: float  # today
    requests: int  # of the traffic that was replayed
    tests: tuple[BackTestRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What one service asks for beyond carrying its demand, and what each costs.

    `usd` are what the whole fleet would cost less over all quarters without that one requirement,
    chosen anew; None where there is none.
    """

    service: str
    survives: str  # "replica" or "region"
    spare_replicas: int
    headroom: float
    regions: tuple[str, ...]
    region_usd: float | None
    spares_usd: float | None
    headroom_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """GPUs of which all that can be had are held, in the quarters named."""

    gpu: str
    region: str
    quarters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoughtBack:
    """GPUs that are released in one quarter and bought again in a later one.

    `usd_to_keep` is what holding them in between would cost, `usd_saved` the one-off costs that
    would save.
    """

    gpu: str
    region: str
    released_in: str
    bought_in: str
    gpus: int
    usd_to_keep: float
    usd_saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Several services on shared GPUs, quarter by quarter."""

    schema_version: str
    name: str
    start: str
    confidence: float
    provision_for: str
    usd: float  # of all quarters
    requirements: tuple[Requirements, ...]
    usd_without_requirements: float  # of the fleet that only carries the demand planned for
    usd_for_expected: float | None  # of the fleet for the expected demand; None: it is this one
    exhausted: tuple[Exhausted, ...]
    bought_back: tuple[BoughtBack, ...]
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
