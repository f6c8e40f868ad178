"""What differs between two plans, by cause: facts read from the plans, nothing computed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from planner.profile.types import ClassProfile
from planner.solve.plan import Plan

NOTABLE = 0.01  # relative change of a measured amount below which it is left out
ENGINE_FIELDS = ("engine", "engine_version")
LENGTHS = ("input_tokens", "output_tokens")

Value = float | int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as it was. `unit` is of both values; None: it was not there.

    `cause` is one of CAUSES; "decides" follows from the others and causes nothing itself. Shares
    and ratios have the unit "1", names and flags "".
    """

    cause: str
    what: str
    unit: str
    before: Value
    after: Value


CAUSES = (
    "traffic",
    "lengths",
    "targets",
    "reserves",
    "model",
    "gpu",
    "settings",
    "engine",
    "calibration",
    "planner",
    "prices",
    "decides",
)


def differences(old: Plan, new: Plan) -> tuple[Difference, ...]:
    """Return everything that differs, in the order of CAUSES.

    Rates and lengths that moved by less than one percent are left out.
    """
    found = [
        *_traffic(old, new),
        *_classes(old, new),
        *_targets(old, new),
        *_reserves(old, new),
        *_routing(old, new),
        *_deployment(old, new),
        *_catalogue(old, new),
        *_prices(old, new),
    ]
    return tuple(sorted(found, key=lambda each: CAUSES.index(each.cause)))


def sample_rate(plan: Plan) -> float:
    """Return the share of requests that the plan's trace holds."""
    rate = plan.slo.get("sample_rate", 1.0)
    return float(rate) if isinstance(rate, (int, float)) else 1.0


def same_traffic(old: Plan, new: Plan) -> bool:
    """Return whether both plans saw the same traffic: its log, its reading, its share, its classes.

    Then no rate and no length is a cause, even where another window has come to decide.
    """
    return None not in _hashes(old) and _traffic_of(old) == _traffic_of(new)


def _hashes(plan: Plan) -> tuple[str | None, ...]:
    return tuple(plan.provenance.inputs_sha256.get(file) for file in plan.ingest.files)


def _traffic_of(plan: Plan) -> tuple[object, ...]:
    classes = plan.slo.get("classes")
    rules = classes if isinstance(classes, (list, tuple)) else ()
    sorted_by = [(each.get("name"), each.get("match")) for each in rules]
    reading = (plan.ingest.format, plan.ingest.time_unit, sample_rate(plan))
    return (_hashes(plan), *reading, sorted_by)


def _traffic(old: Plan, new: Plan) -> Iterator[Difference]:
    same = same_traffic(old, new)
    totals = [plan.profile.total.arrivals for plan in (old, new)]
    rates = [sample_rate(plan) for plan in (old, new)]
    means = [each.mean_per_s / rate for each, rate in zip(totals, rates, strict=True)]
    peaks = [plan.replica_terms.peak_requests_per_s for plan in (old, new)]
    if _moved(*means):  # the same log is counted differently by another planner only
        yield _of("planner" if same else "traffic", "mean rate", "requests/s", *means)
    cause = "decides" if same else "traffic"
    if _moved(*peaks):
        yield _of(cause, "rate in the deciding window", "requests/s", *peaks)
    windows = [plan.replica_terms.window for plan in (old, new)]
    if windows[0] != windows[1]:
        yield _of(cause, "deciding window", "", *windows)


def _classes(old: Plan, new: Plan) -> Iterator[Difference]:
    """Yield lengths of every class, and classes' shares of the requests."""
    cause = "planner" if same_traffic(old, new) else "lengths"
    before = {each.name: each for each in old.profile.classes}
    after = {each.name: each for each in new.profile.classes}
    for name in sorted({*before, *after}):
        then, now = before.get(name), after.get(name)
        if then is None or now is None:
            shares = [None if each is None else each.share for each in (then, now)]
            yield _of(cause, f"class {name}, share of requests", "1", *shares)
            continue
        if abs(now.share - then.share) >= NOTABLE:
            yield _of(cause, f"{name}, share of requests", "1", then.share, now.share)
        yield from _lengths(cause, name, then, now)


def _lengths(cause: str, name: str, then: ClassProfile, now: ClassProfile) -> Iterator[Difference]:
    for field in LENGTHS:
        means = [float(getattr(each, field).mean) for each in (then, now)]
        if _moved(*means):
            yield _of(cause, f"{name}, mean {field}", "tokens", *means)


def _targets(old: Plan, new: Plan) -> Iterator[Difference]:
    limits = [_limits(plan) for plan in (old, new)]
    for name in sorted({*limits[0], *limits[1]}):
        pair = [each.get(name) for each in limits]
        if pair[0] != pair[1]:
            yield _of("targets", name, "s", *pair)
    matches = [{name: _match(each) for name, each in _declared_classes(p)} for p in (old, new)]
    for name in sorted({*matches[0]} & {*matches[1]}):
        if matches[0][name] != matches[1][name]:
            yield _of("targets", f"{name}, match", "", matches[0][name], matches[1][name])
    for name, unit in (("evaluation_window_s", "s"), ("min_requests_per_window", "requests")):
        yield from _declared("targets", name, unit, old, new)


def _limits(plan: Plan) -> dict[str, float]:
    """Return every limit by its target: as declared, or as reported by a plan without classes."""
    declared = {
        f"{name} {target['metric']} p{target['percentile']:g}": float(target["limit_s"])
        for name, each in _declared_classes(plan)
        for target in each["targets"]
    }
    return declared or {
        f"{r.class_name} {r.metric} p{r.percentile:g}": r.limit_s for r in plan.latency
    }


def _declared_classes(plan: Plan) -> list[tuple[str, Mapping[str, Any]]]:
    classes = plan.slo.get("classes")
    return [(each["name"], each) for each in classes] if isinstance(classes, (list, tuple)) else []


def _match(each: Mapping[str, Any]) -> str:
    """Return the condition of a class on one line, the same for the same condition."""
    return json.dumps(each["match"], ensure_ascii=False, sort_keys=True)


def _reserves(old: Plan, new: Plan) -> Iterator[Difference]:
    for name, unit in (("growth", "1"), ("headroom", "1"), ("spare_replicas", "replicas")):
        yield from _declared("reserves", name, unit, old, new)


def _declared(cause: str, name: str, unit: str, old: Plan, new: Plan) -> Iterator[Difference]:
    before, after = (_value(plan.slo.get(name)) for plan in (old, new))
    if before != after:
        yield _of(cause, name, unit, before, after)


def _routing(old: Plan, new: Plan) -> Iterator[Difference]:
    before, after = (_value(plan.slo.get("routing", "random")) for plan in (old, new))
    if before != after:
        yield _of("settings", "routing", "", before, after)


def _deployment(old: Plan, new: Plan) -> Iterator[Difference]:
    before, after = (asdict(plan.deployment) for plan in (old, new))
    for name in before:
        if before[name] != after[name]:
            yield _of(_cause_of(name), name, "", _value(before[name]), _value(after[name]))


def _cause_of(field: str) -> str:
    """Return whose doing a change of a deployment's field is.

    >>> _cause_of("engine_version"), _cause_of("gpu"), _cause_of("max_num_seqs")
    ('engine', 'gpu', 'settings')
    """
    if field in ENGINE_FIELDS:
        return "engine"
    return field if field in ("gpu", "model") else "settings"


def _catalogue(old: Plan, new: Plan) -> Iterator[Difference]:
    """Yield catalogue entries that both plans used and whose values are not the same."""
    before, after = (plan.provenance.catalogue_sha256 for plan in (old, new))
    for name in sorted({*before} & {*after}):
        if before[name] != after[name]:
            cause = "engine" if name.startswith("engines/") else "calibration"
            yield _of(cause, name, "", _short(before, name), _short(after, name))
    versions = [plan.provenance.planner_version for plan in (old, new)]
    if versions[0] != versions[1]:
        yield _of("planner", "version", "", *versions)


def _short(hashes: Mapping[str, str], name: str) -> str:
    return hashes[name][:8]


def _prices(old: Plan, new: Plan) -> Iterator[Difference]:
    before, after = (plan.cost.usd_per_gpu_hour for plan in (old, new))
    if before != after:
        yield _of("prices", "price of a GPU", "USD/h", before, after)


def _moved(before: float, after: float) -> bool:
    return abs(after - before) > NOTABLE * abs(before)


def _value(value: object) -> Value:
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _of(cause: str, what: str, unit: str, before: Value, after: Value) -> Difference:
    return Difference(cause=cause, what=what, unit=unit, before=before, after=after)
