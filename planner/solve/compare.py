"""What changed between two plans and why: the difference, shared out over its causes.

Two methods, and the result says which. From the plans alone, the terms of the replica count are
exchanged one after another in a fixed order; what several causes did to one replica's capacity
stays together, because two numbers cannot tell them apart. With the traces at hand
(`planner.solve.counterfactual`), the old deployment is replayed under each change in turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.perf.cost import usd_per_hour, usd_per_month
from planner.solve.differences import Difference, differences, same_traffic
from planner.solve.plan import Count, Plan

CAPACITY_CAUSES = (
    "lengths",
    "targets",
    "model",
    "gpu",
    "settings",
    "engine",
    "calibration",
    "planner",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the plans, as far as a comparison shows it."""

    name: str
    replicas: Count
    gpus: Count
    gpu: str
    usd_per_month: float | None
    binds: str  # "chat ttft_s p99"
    margin: float | None  # of that target
    verified: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One cause (or several that cannot be told apart) and the fleet once it has happened.

    `exact` is the number of replicas before rounding, spares not counted; None where the method
    does not know it.
    """

    causes: tuple[str, ...]
    exact: float | None
    replicas: int
    gpus: int
    usd_per_month: float | None
    note: str = ""  # id of why this step is not what its name says, "" when it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two plans, and the way from one to the other. The last step is the new plan."""

    method: str  # "terms" or "counterfactual"
    old: Side
    new: Side
    steps: tuple[Step, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The numbers whose product is the count (`planner.solve.fleet.exact_replicas`)."""

    peak_requests_per_s: float
    reserve: float  # (1 + growth)/(1 − headroom)
    capacity_requests_per_s: float
    spare: int
    gpus_each: int
    usd_per_gpu_hour: float | None

    @property
    def exact(self) -> float:
        """Replicas before rounding, without spares.

        >>> Terms(peak_requests_per_s=30, reserve=1.1, capacity_requests_per_s=10, spare=1,
        ...     gpus_each=2, usd_per_gpu_hour=2.0).exact
        3.3
        """
        return self.peak_requests_per_s * self.reserve / self.capacity_requests_per_s

    @property
    def replicas(self) -> int:
        """Replicas, spares included."""
        return max(1, math.ceil(self.exact - 1e-6)) + self.spare

    def step(self, causes: tuple[str, ...]) -> Step:
        """Return the fleet of these terms as a step."""
        gpus = self.replicas * self.gpus_each
        return Step(
            causes=causes,
            exact=self.exact,
            replicas=self.replicas,
            gpus=gpus,
            usd_per_month=monthly(gpus, self.usd_per_gpu_hour),
        )


def compare(old: Plan, new: Plan) -> Comparison:
    """Return what changed, attributed from the two plans alone.

    Exchanged in this order: rate in the deciding window, where the traffic is another (else it
    goes with the replica's capacity, which is a rate in the same window); growth, headroom and
    spares; one replica, its capacity and its GPUs (and their price, where the type changes); the
    price. A different order shares interactions out differently; the sum is the whole difference
    in any.
    """
    found = differences(old, new)
    return Comparison(
        method="terms",
        old=side(old),
        new=side(new),
        steps=_steps(terms_of(old), terms_of(new), found, same_traffic=same_traffic(old, new)),
        differences=found,
    )


def terms_of(plan: Plan) -> Terms:
    """Return the terms of a plan's count; the capacity is the one that gives its exact count."""
    terms = plan.replica_terms
    reserve = (1.0 + terms.growth) / (1.0 - terms.headroom)
    exact = min(max(terms.exact, terms.for_load - 1 + 1e-3), terms.for_load)
    return Terms(
        peak_requests_per_s=terms.peak_requests_per_s,
        reserve=reserve,
        capacity_requests_per_s=terms.peak_requests_per_s * reserve / exact,
        spare=terms.spare,
        gpus_each=plan.deployment.gpus,
        usd_per_gpu_hour=plan.cost.usd_per_gpu_hour,
    )


def monthly(gpus: int, usd_per_gpu_hour: float | None) -> float | None:
    """Return $ a month of GPUs at a price, None without one.

    >>> monthly(10, 2.0), monthly(10, None)
    (14600.0, None)
    """
    if usd_per_gpu_hour is None:
        return None
    return usd_per_month(usd_per_hour(gpus, usd_per_gpu_hour))


def side(plan: Plan) -> Side:
    """Return what a comparison shows of one plan."""
    binding = next((row for row in plan.latency if row.binds), None)
    name = "" if binding is None else f"{binding.class_name} {binding.metric}"
    return Side(
        name=plan.name,
        replicas=plan.replicas,
        gpus=plan.gpus,
        gpu=plan.deployment.gpu,
        usd_per_month=plan.cost.usd_per_month,
        binds="" if binding is None else f"{name} p{binding.percentile:g}",
        margin=None if binding is None else binding.margin,
        verified=plan.verified,
    )


def _steps(
    old: Terms, new: Terms, found: tuple[Difference, ...], *, same_traffic: bool
) -> tuple[Step, ...]:
    seen = {each.cause for each in found}
    inside = tuple(cause for cause in CAPACITY_CAUSES if cause in seen)
    kept_price = new.usd_per_gpu_hour if "gpu" in seen else old.usd_per_gpu_hour
    exchanges: list[tuple[tuple[str, ...], Terms]] = []
    if not same_traffic:
        peak = new.peak_requests_per_s
        exchanges.append((("traffic",), replace(old, peak_requests_per_s=peak)))
    if inside or "reserves" not in seen or not same_traffic:
        reserved = replace(old, reserve=new.reserve, spare=new.spare)
        if not same_traffic:
            reserved = replace(reserved, peak_requests_per_s=new.peak_requests_per_s)
        exchanges.append((("reserves",), reserved))
    exchanges += [
        (inside or _rest(seen, same_traffic), replace(new, usd_per_gpu_hour=kept_price)),
        (("prices",), new),
    ]
    steps: list[Step] = []
    state = old
    for causes, following in exchanges:
        if following != state:
            steps.append(following.step(causes))
        state = following
    return tuple(steps)


def _rest(seen: set[str], same_traffic: bool) -> tuple[str, ...]:
    """Return whose doing a replica's capacity is that nothing about the replica explains.

    Another rate, or other reserves, can make another window decide, in which a replica carries
    another rate. The same traffic under the same declaration was decided another way.
    """
    if not same_traffic:
        return ("traffic",)
    return ("reserves",) if "reserves" in seen else ("search",)
