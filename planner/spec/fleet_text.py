"""A `Fleet` in words and as data: what `planner check` prints of a fleet.yaml that is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.spec.fleet import Fleet, Growth, Service, Stock, quarter_name
from planner.spec.words import number
from planner.text import counted


def summary(fleet: Fleet) -> str:
    """Return the lines of a valid file: what is planned, held and promised."""
    return "\n".join(_lines(fleet))


def as_data(fleet: Fleet) -> dict[str, Any]:
    """Return a `Fleet` as plain data for `--json`; days are ISO 8601."""
    data = asdict(fleet)
    return {"ok": True, "fleet": _plain(data)}


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON data
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _lines(fleet: Fleet) -> Iterator[str]:
    last = quarter_name(fleet.start, fleet.quarters - 1)
    yield f"{fleet.file}: OK"
    asked = "the band's upper end" if fleet.provision_for == "high" else "the expected demand"
    yield f"plan      {quarter_name(fleet.start, 0)} to {last}, for {asked}"
    yield "inventory"
    for stock in fleet.stocks:
        yield f"  {stock.gpu} in {stock.region}: {_stock(stock)}"
    yield "services"
    for service in fleet.services:
        yield f"  {service.name}: {service.slo.model} on {', '.join(service.gpus)}"
        yield f"    in {', '.join(service.regions)}; {_asked(service)}; {_growth(service)}"


def _stock(stock: Stock) -> str:
    every = len(set(stock.available)) == 1
    most = ", ".join(f"{count:,}" for count in stock.available[: 1 if every else None])
    return (
        f"{counted(stock.held, 'GPU')} held, {stock.committed:,} committed, {most} can be had,"
        f" ${number(stock.usd_per_hour)} an hour"
    )


def _asked(service: Service) -> str:
    spares = service.slo.spare_replicas
    lost = [f"the loss of {counted(spares, 'replica')}"] if spares else []
    lost += ["the loss of any one region"] if service.survives == "region" else []
    return f"survives {' and '.join(lost) or 'no loss'}; headroom {number(service.slo.headroom)}"


def _growth(service: Service) -> str:
    growth = service.growth
    if growth is None:
        return f"growth from {counted(len(service.history), 'measurement')} and the traffic"
    return f"growth {_declared(growth)} a quarter" + (
        f" from {service.starts.isoformat()} on" if service.starts else ""
    )


def _declared(growth: Growth) -> str:
    if growth.low is None or growth.high is None:
        return number(growth.expected)
    return f"{number(growth.expected)} ({number(growth.low)} to {number(growth.high)})"
