"""One quarter of a decided fleet: what is held, what runs where, what every service has of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planner.solve.fleet_plan.decide import Decided
from planner.solve.fleet_plan.plan import Loss, Placement, Quarter, ServiceQuarter, StockQuarter
from planner.solve.fleet_plan.question import MONTHS, one_off_usd, usd_per_month
from planner.spec.fleet import Fleet, Service, Stock, quarter_name, quarter_start
from planner.units import HOURS_PER_MONTH

Placed = Mapping[tuple[int, str], int]  # replicas by (unit, region)


def quarter_of(fleet: Fleet, found: Decided, quarter: int) -> Quarter:
    """Return one quarter of the plan.

    Parameters
    ----------
    fleet
        What is declared.
    found
        The fleet decided on.
    quarter
        Counted from 0.
    """
    placed = _placed(found, quarter)
    monthly = usd_per_month(found.question, found.answer, quarter)
    once = one_off_usd(found.question, found.answer, quarter)
    budget = fleet.budget_usd_per_month
    return Quarter(
        name=quarter_name(fleet.start, quarter),
        start=quarter_start(fleet.start, quarter).isoformat(),
        usd_per_month=monthly,
        one_off_usd=once,
        usd=monthly * MONTHS + once,
        budget_usd_per_month=None if budget is None else budget[quarter],
        stocks=tuple(
            _stock(found, index, quarter, placed) for index in range(len(found.question.stocks))
        ),
        placements=_placements(fleet, found, quarter, placed),
        services=tuple(
            _service(fleet, found, index, quarter, placed) for index in range(len(fleet.services))
        ),
    )


def _placed(found: Decided, quarter: int) -> Placed:
    return {
        (unit, region): count
        for (unit, region, at), count in sorted(found.answer.replicas.items())
        if at == quarter
    }


def _stock(found: Decided, index: int, quarter: int, placed: Placed) -> StockQuarter:
    stock, answer = found.question.stocks[index], found.answer
    held = answer.held[index, quarter]
    before = answer.held[index, quarter - 1] if quarter else stock.held
    used = sum(
        count * found.question.units[unit].gpus
        for (unit, region), count in placed.items()
        if (found.question.units[unit].gpu, region) == (stock.gpu, stock.region)
    )
    buy, release = max(0, held - before), max(0, before - held)
    monthly = stock.usd_per_hour * HOURS_PER_MONTH
    return StockQuarter(
        gpu=stock.gpu,
        region=stock.region,
        held=held,
        keep=min(held, before),
        buy=buy,
        release=release,
        used=used,
        committed=stock.committed,
        available=stock.available[quarter],
        usd_per_gpu_month=monthly,
        usd_per_month=held * monthly,
        one_off_usd=buy * stock.buy_usd + release * stock.release_usd,
    )


def _placements(
    fleet: Fleet, found: Decided, quarter: int, placed: Placed
) -> tuple[Placement, ...]:
    """Return every pool that runs, or ran in the quarter before."""
    before = _placed(found, quarter - 1) if quarter else placed
    rows = []
    for unit, region in sorted({*placed, *before}):
        replicas = placed.get((unit, region), 0)
        each = found.question.units[unit]
        price = stock_of(found, each.gpu, region).usd_per_hour * HOURS_PER_MONTH
        rows.append(
            Placement(
                service=found.question.needs[each.service].name,
                gpu=each.gpu,
                region=region,
                replicas=replicas,
                gpus=replicas * each.gpus,
                capacity_requests_per_s=replicas * carries(fleet, found, unit),
                usd_per_month=replicas * each.gpus * price,
                change=replicas - before.get((unit, region), 0),
            )
        )
    return tuple(rows)


def carries(fleet: Fleet, found: Decided, unit: int, share: float | None = None) -> float:
    """Return the requests/s that one replica carries within every target.

    The optimiser's capacities are shares of today's demand and have the headroom taken off; here
    the headroom is in, as everywhere in the plan.

    Parameters
    ----------
    fleet, found
        What is declared, and the fleet decided on.
    unit
        Its index in the question.
    share
        The capacity in the optimiser's terms. None: the unit's own.
    """
    each = found.question.units[unit]
    service = fleet.services[each.service]
    today = found.traffic[service.name].requests_per_s
    return (each.capacity if share is None else share) * today / (1.0 - service.slo.headroom)


def stock_of(found: Decided, gpu: str, region: str) -> Stock:
    """Return the stock of a GPU type in a region."""
    return next(
        stock for stock in found.question.stocks if (stock.gpu, stock.region) == (gpu, region)
    )


def _service(
    fleet: Fleet, found: Decided, index: int, quarter: int, placed: Placed
) -> ServiceQuarter:
    service = fleet.services[index]
    demand = found.forecasts[service.name].quarters[quarter]
    units = found.question.units
    mine = {key: n for key, n in placed.items() if units[key[0]].service == index}
    each = {unit: carries(fleet, found, unit) for unit, _ in mine}
    capacity = math.fsum(each[unit] * n for (unit, _), n in mine.items())
    weak = math.fsum(
        each[unit] * n * (1.0 - found.sized[unit].band) for (unit, _), n in mine.items()
    )
    loss = _largest_loss(service, found, mine, each)
    left = None if loss is None else capacity - loss.capacity_requests_per_s
    planned = getattr(demand, fleet.provision_for)
    return ServiceQuarter(
        service=service.name,
        live=demand.live,
        on=demand.on.isoformat(),
        elapsed_quarters=demand.elapsed,
        factor=demand.factor,
        added_requests_per_s=demand.added,
        expected_requests_per_s=demand.expected,
        low_requests_per_s=demand.low,
        high_requests_per_s=demand.high,
        provisioned_requests_per_s=planned,
        required_requests_per_s=planned / (1.0 - service.slo.headroom),
        capacity_requests_per_s=capacity,
        loss=loss,
        capacity_after_loss_requests_per_s=left,
        capacity_without_one_requests_per_s=capacity - max(each.values(), default=0.0),
        risk=demand.exceeds(capacity),
        risk_after_loss=None if left is None else demand.exceeds(left),
        risk_at_low_band=demand.exceeds(weak),
        replayed=sum(
            pool.quarter == quarter and units[pool.unit].service == index for pool in found.replayed
        ),
        gpus=sum(units[unit].gpus * n for (unit, _), n in mine.items()),
        usd_per_month=math.fsum(
            units[unit].gpus
            * n
            * stock_of(found, units[unit].gpu, region).usd_per_hour
            * HOURS_PER_MONTH
            for (unit, region), n in mine.items()
        ),
        launches=demand.launches,
    )


def _largest_loss(
    service: Service, found: Decided, mine: Placed, each: Mapping[int, float]
) -> Loss | None:
    """Return the spares or the region, where one is survived, with which most capacity goes."""
    units, spares = found.question.units, service.slo.spare_replicas
    losses = []
    if spares:
        for unit in sorted({unit for unit, _ in mine}):
            lost = min(spares, sum(n for (other, _), n in mine.items() if other == unit))
            losses.append(_loss("replicas", units[unit].gpu, lost, lost * each[unit]))
    if service.survives == "region":
        for place in sorted({region for _, region in mine}):
            there = [(unit, n) for (unit, region), n in mine.items() if region == place]
            lost = sum(n for _, n in there)
            losses.append(_loss("region", place, lost, math.fsum(each[u] * n for u, n in there)))
    return max(losses, key=lambda loss: loss.capacity_requests_per_s, default=None)


def _loss(kind: str, place: str, replicas: int, capacity: float) -> Loss:
    return Loss(kind=kind, place=place, replicas=replicas, capacity_requests_per_s=capacity)
