"""A fleet plan's sentences: what to do, what is required, when demand is meant."""

from __future__ import annotations

from collections.abc import Iterable

from planner.report import format as fmt
from planner.solve.fleet_plan.plan import FleetPlan, Loss, Quarter, Requirements, StockQuarter
from planner.text import counted


def headline(plan: FleetPlan) -> str:
    """Return the whole plan in one or two sentences."""
    first, last = plan.quarters[0], plan.quarters[-1]
    held = [sum(stock.held for stock in quarter.stocks) for quarter in (first, last)]
    total = f"{fmt.usd_exact(plan.usd)} over {counted(len(plan.quarters), 'quarter')}"
    if len(plan.quarters) == 1:
        return f"Hold {counted(held[0], 'GPU')} in {first.name}: {total}{_for_safety(plan)}."
    return (
        f"Hold {counted(held[0], 'GPU')} in {first.name} for {fmt.usd_exact(first.usd_per_month)}"
        f" a month and {held[1]} in {last.name} for {fmt.usd_exact(last.usd_per_month)}:"
        f" {total}{_for_safety(plan)}."
    )


def _for_safety(plan: FleetPlan) -> str:
    """Return the part of the cost that requirements make, for the headline."""
    extra = plan.usd - plan.usd_without_requirements
    if extra < 1.0:
        return ""
    return f", {fmt.usd_exact(extra)} of it for {' and '.join(_kinds(plan.requirements))}"


def _kinds(requirements: Iterable[Requirements]) -> list[str]:
    asked = list(requirements)
    kinds = [
        ("losses survived", any(r.spare_replicas or r.survives == "region" for r in asked)),
        ("headroom", any(r.headroom for r in asked)),
    ]
    return [words for words, there in kinds if there]


def sentence(quarter: Quarter) -> str:
    """Return what to do in a quarter."""
    buy = [f"{s.buy} × {s.gpu} in {s.region}" for s in quarter.stocks if s.buy]
    release = [f"{s.release} × {s.gpu} in {s.region}" for s in quarter.stocks if s.release]
    keep = sum(stock.keep for stock in quarter.stocks)
    parts = [f"Keep {counted(keep, 'GPU')}"]
    parts += [f"buy {', '.join(buy)}"] if buy else []
    parts += [f"release {', '.join(release)}"] if release else []
    idle = [_idle(stock) for stock in quarter.stocks if stock.held > stock.used]
    spare = f" Held without a service: {', '.join(idle)}." if idle else ""
    return f"{'; '.join(parts)}.{spare}"


def _idle(stock: StockQuarter) -> str:
    return f"{stock.held - stock.used} × {stock.gpu} in {stock.region}"


def survives(required: Requirements) -> str:
    """Return which loss a service must survive besides its spares."""
    if required.survives == "region":
        return "any one region"
    return "its spares" if required.spare_replicas else "nothing"


def loss_words(loss: Loss | None) -> str:
    """Return what is lost in the largest loss planned for.

    >>> loss_words(Loss(kind="region", place="eu", replicas=3, capacity_requests_per_s=9.0))
    'region eu (3 replicas)'
    >>> loss_words(None)
    'not asked to survive one'
    """
    if loss is None:
        return "not asked to survive one"
    replicas = counted(loss.replicas, "replica")
    if loss.kind == "region":
        return f"region {loss.place} ({replicas})"
    return f"{replicas} on {loss.place}"


def demand_day(quarter: Quarter) -> str:
    """Return the day whose demand a quarter's figures are."""
    live = [service for service in quarter.services if service.live]
    starts = [service.service for service in live if service.on == quarter.start]
    ends = sorted({service.on for service in live if service.on != quarter.start})
    parts = [f"Demand is that of the end of the quarter ({day})." for day in ends]
    if starts:
        parts.append(
            f"Demand of {', '.join(starts)} is that of its start ({quarter.start}), where it is"
            " higher."
        )
    return " ".join(parts)


def largest_risk(quarter: Quarter) -> str:
    """Return the service most likely to be asked too much, and those nobody knows that of.

    Services that are not live have none.
    """
    live = [service for service in quarter.services if service.live]
    known = [(s.risk, s.service) for s in live if s.risk is not None]
    unknown = [service.service for service in live if service.risk is None]
    parts = []
    if known:
        risk, name = max(known)
        parts.append(f"{fmt.probability(risk)} ({name})")
    if unknown:
        parts.append(f"unknown ({', '.join(unknown)})")
    return "; ".join(parts) or "none live"
