"""Read a fleet.yaml: every problem at once, or a complete `Fleet` with its defaults filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from planner.errors import InputError, Problem
from planner.spec import catalog
from planner.spec.document import Document, PathTuple, raise_for
from planner.spec.fleet import Fleet, Growth, Launch, Past, Service, Stock
from planner.spec.kinds import refuse_other_kind
from planner.spec.load import scan_document
from planner.spec.plausible import implausible
from planner.spec.slo import Slo
from planner.spec.slo_file import load_slo
from planner.spec.validate import validate
from planner.text import counted

SCHEMA = "fleet"
DEFAULT_QUARTERS = 4
WEEK_HOURS = 168.0


def load_fleet(path: Path) -> tuple[Fleet, tuple[str, ...]]:
    """Return what a fleet.yaml declares, and warnings about values that are probably slips.

    Raises
    ------
    InputError
        Anything is wrong with it or with an slo.yaml it names: all problems, with their places.
    """
    document = scan_document(path)
    refuse_other_kind(document, SCHEMA)
    problems = validate(document, SCHEMA)
    raise_for(problems)
    data = document.data
    assert isinstance(data, Mapping)
    reader = _Reader(document, data)
    problems = [*reader.problems(), *reader.found]
    raise_for(problems)
    warnings = tuple(str(problem) for problem in implausible(document, SCHEMA))
    return reader.fleet(), warnings


class _Reader:
    """Builds a Fleet from a document that obeys the schema, collecting what contradicts itself."""

    def __init__(self, document: Document, data: Mapping[str, Any]) -> None:
        self.document = document
        self.data = data
        self.folder = Path(document.file).parent
        self.quarters = int(data.get("quarters", DEFAULT_QUARTERS))
        self.found: list[Problem] = []
        self.stocks = self._stocks()
        self.slos = self._slos()

    def fleet(self) -> Fleet:
        """Return the whole, once no problem is left."""
        data = self.data
        budget = data.get("budget_usd_per_month")
        return Fleet(
            start=date.fromisoformat(data["start"]),
            quarters=self.quarters,
            confidence=float(data.get("confidence", 0.8)),
            provision_for=str(data.get("provision_for", "high")),
            budget_usd_per_month=None if budget is None else _each(budget, self.quarters, float),
            change_cost_hours=float(data.get("change_cost_hours", WEEK_HOURS)),
            stocks=tuple(self.stocks.values()),
            services=tuple(self._service(name) for name in data["services"]),
            file=self.document.file,
        )

    def problems(self) -> Iterator[Problem]:
        """Yield what the schema cannot say."""
        yield from self._days(self.data, ())
        yield from self._length(("budget_usd_per_month",), self.data.get("budget_usd_per_month"))
        for gpu, regions in self.data["inventory"].items():
            for region, item in regions.items():
                yield from self._stock_problems(("inventory", gpu, region), item)
        for name, item in self.data["services"].items():
            yield from self._service_problems(("services", name), item)

    def _days(self, data: object, path: tuple[str | int, ...]) -> Iterator[Problem]:
        """Yield days that the calendar does not have, wherever they are written."""
        if isinstance(data, Mapping):
            for key, item in data.items():
                if key in ("start", "date", "starts") and isinstance(item, str) and not _day(item):
                    yield self.document.problem((*path, key), f"there is no day {item}")
                yield from self._days(item, (*path, str(key)))
        elif isinstance(data, list):
            for index, item in enumerate(data):
                yield from self._days(item, (*path, index))

    def _length(self, path: PathTuple, value: object) -> Iterator[Problem]:
        if isinstance(value, list) and len(value) != self.quarters:
            found, wanted = (
                counted(len(value), "entry", "entries"),
                counted(self.quarters, "quarter"),
            )
            message = f"has {found}, the plan has {wanted}"
            yield self.document.problem(path, message, "one number stands for all quarters")

    def _stock_problems(self, path: PathTuple, item: Mapping[str, Any]) -> Iterator[Problem]:
        yield from self._length((*path, "available"), item["available"])
        least = min(_each(item["available"], self.quarters, int))
        if item.get("committed", 0) > least:
            message = f"{item['committed']} GPUs are committed, but only {least} can be had"
            yield self.document.problem((*path, "committed"), message)
        held = item.get("held")
        if held is not None and item.get("committed", 0) > held:
            message = f"{item['committed']} GPUs are committed, but only {held} are held"
            hint = "committed GPUs are among those held: correct one of the two"
            yield self.document.problem((*path, "committed"), message, hint)

    def _service_problems(self, path: PathTuple, item: Mapping[str, Any]) -> Iterator[Problem]:
        growth = item.get("growth_per_quarter")
        if (
            isinstance(growth, Mapping)
            and not growth["low"] <= growth["expected"] <= growth["high"]
        ):
            message = "must be in order: low, expected, high"
            yield self.document.problem((*path, "growth_per_quarter"), message)
        if growth is None and len(item.get("history", ())) < 2:
            message = "neither growth_per_quarter nor a history of at least two measurements"
            hint = "growth_per_quarter: 0 says that demand stays as it is"
            yield self.document.problem(path, message, hint, key=True)
        yield from self._history_problems((*path, "history"), item.get("history", ()))
        for index, launch in enumerate(item.get("launches", ())):
            if ("factor" in launch) == ("requests_per_s" in launch):
                at = (*path, "launches", index)
                yield self.document.problem(at, "needs either factor or requests_per_s")
        regions = item.get("regions", ()) or self.regions
        if item.get("survives") == "region" and len(regions) < 2:
            message = "nothing survives the loss of the only region"
            yield self.document.problem((*path, "survives"), message, "add a region to it")
        yield from self._unknown((*path, "regions"), item.get("regions", ()), self.regions)
        known = [gpu for gpu, _ in self.stocks]
        for index, name in enumerate(item.get("gpus", ())):
            at = (*path, "gpus", index)
            gpu = self._gpu(at, name, key=False)
            if gpu is not None and gpu not in known:
                yield self.document.problem(at, f"the inventory has no {gpu}")

    def _history_problems(
        self, path: PathTuple, history: list[Mapping[str, Any]]
    ) -> Iterator[Problem]:
        seen: set[str] = set()
        for index, past in enumerate(history):
            yield from self._past_problems((*path, index), past)
            day = past.get("date")
            if day in seen:
                message = f"there are two measurements of {day}"
                hint = "keep one: a trend needs different days"
                yield self.document.problem((*path, index, "date"), message, hint)
            if day is not None:
                seen.add(day)

    def _past_problems(self, path: PathTuple, past: Mapping[str, Any]) -> Iterator[Problem]:
        if ("trace" in past) == ("requests_per_s" in past):
            yield self.document.problem(path, "needs either requests_per_s or trace")
        elif "requests_per_s" in past and "date" not in past:
            yield self.document.problem(path, "requests_per_s needs its date")

    def _unknown(self, path: PathTuple, names: list[str], known: list[str]) -> Iterator[Problem]:
        for index, name in enumerate(names):
            if name not in known:
                hint = f"there are {', '.join(known)}"
                at = (*path, index)
                yield self.document.problem(at, f"the inventory has no {name!r}", hint)

    @property
    def regions(self) -> list[str]:
        """All regions of the inventory, sorted."""
        return sorted({region for _, region in self.stocks})

    def _stocks(self) -> dict[tuple[str, str], Stock]:
        stocks: dict[tuple[str, str], Stock] = {}
        for typed, regions in self.data["inventory"].items():
            gpu = self._gpu(("inventory", typed), typed)
            for region, item in regions.items():
                if gpu is None:
                    continue
                if (gpu, region) in stocks:
                    at = ("inventory", typed, region)
                    self.found.append(
                        self.document.problem(at, f"{gpu} in {region} is there twice")
                    )
                stocks[gpu, region] = self._stock(gpu, typed, region, item)
        return stocks

    def _stock(self, gpu: str, typed: str, region: str, item: Mapping[str, Any]) -> Stock:
        price, source = item.get("usd_per_hour"), "fleet.yaml"
        if price is None:
            price, source = _catalogue_price(gpu)
        if price is None:
            at = ("inventory", typed, region)
            message = f"the catalogue has no price of {gpu}"
            self.found.append(self.document.problem(at, message, "declare usd_per_hour"))
        return Stock(
            gpu=gpu,
            region=region,
            held=max(int(item.get("held", 0)), int(item.get("committed", 0))),
            committed=int(item.get("committed", 0)),
            available=_each(item["available"], self.quarters, int),
            usd_per_hour=float(price or 0.0),
            price_source=source,
            term_quarters=int(item.get("term_quarters", 1)),
            buy_usd=float(item.get("buy_usd", 0.0)),
            release_usd=float(item.get("release_usd", 0.0)),
        )

    def _gpu(self, path: PathTuple, typed: str, *, key: bool = True) -> str | None:
        try:
            return catalog.gpu(typed).id
        except InputError as error:
            first = error.problems[0]
            self.found.append(self.document.problem(path, first.message, first.hint, key=key))
            return None

    def _slos(self) -> dict[str, Slo]:
        """Read every service's slo.yaml; its problems keep their own file and line."""
        slos: dict[str, Slo] = {}
        for name, item in self.data["services"].items():
            try:
                slos[name] = replace(load_slo(self.folder / item["slo"]), growth=0.0)
            except InputError as error:
                at = self.document.problem(("services", name, "slo"), "")
                missing = not (self.folder / item["slo"]).is_file()
                named = [replace(at, message=f"no such file: {item['slo']}")]
                self.found += named if missing else error.problems
        return slos

    def _service(self, name: str) -> Service:
        item = self.data["services"][name]
        traffic = item["traffic"] if isinstance(item["traffic"], list) else [item["traffic"]]
        gpus = [self._gpu(("services", name, "gpus"), gpu) for gpu in item.get("gpus", ())]
        listed = tuple(gpu for gpu in gpus if gpu) or tuple(
            dict.fromkeys(g for g, _ in self.stocks)
        )
        starts = item.get("starts")
        return Service(
            name=name,
            slo=self.slos[name],
            slo_file=str(self.folder / item["slo"]),
            traffic=tuple(str(self.folder / file) for file in traffic),
            gpus=listed,
            regions=tuple(item.get("regions", ())) or tuple(self.regions),
            survives=str(item.get("survives", "replica")),
            growth=_growth(item.get("growth_per_quarter")),
            history=tuple(self._past(past) for past in item.get("history", ())),
            launches=tuple(_launch(launch) for launch in item.get("launches", ())),
            starts=None if starts is None else date.fromisoformat(starts),
        )

    def _past(self, past: Mapping[str, Any]) -> Past:
        trace, rate = past.get("trace"), past.get("requests_per_s")
        return Past(
            date=date.fromisoformat(past["date"]) if "date" in past else None,
            requests_per_s=None if rate is None else float(rate),
            trace=None if trace is None else str(self.folder / trace),
        )


def _launch(item: Mapping[str, Any]) -> Launch:
    return Launch(
        name=str(item["name"]),
        date=date.fromisoformat(item["date"]),
        factor=float(item.get("factor", 1.0)),
        requests_per_s=float(item.get("requests_per_s", 0.0)),
    )


def _growth(value: Any) -> Growth | None:  # noqa: ANN401 - YAML data
    if value is None:
        return None
    if isinstance(value, Mapping):
        low, high = float(value["low"]), float(value["high"])
        return Growth(expected=float(value["expected"]), low=low, high=high)
    return Growth(expected=float(value), low=None, high=None)


def _each(value: Any, quarters: int, kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - YAML data
    """Return one entry a quarter; one number stands for all."""
    return tuple(kind(v) for v in value) if isinstance(value, list) else (kind(value),) * quarters


def _day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _catalogue_price(gpu: str) -> tuple[float | None, str]:
    for price in catalog.gpu(gpu).prices:
        if price.kind == "typical":
            return price.usd_per_hour, f"{price.source} {price.date}".strip()
    return None, ""
