"""An `Slo` in words: what `planner check` prints when nothing is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from planner.spec.schema import Schema, load_schema, properties
from planner.spec.slo import Slo, Target, WorkloadClass
from planner.spec.words import number

_METRIC_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}


def target_text(target: Target) -> str:
    """Write one target.

    >>> target_text(Target(metric="ttft_s", percentile=99.9, limit_s=4.0))
    'TTFT p99.9 ≤ 4 s'
    """
    name = _METRIC_NAMES[target.metric]
    return f"{name} p{number(target.percentile)} ≤ {number(target.limit_s)} s"


def match_text(match: Mapping[str, object]) -> str:
    """Write what a class takes.

    >>> match_text({"class": ["chat", "rag"], "input_tokens": {"max": 4000}})
    'class in chat, rag; input_tokens ≤ 4000'
    >>> match_text({})
    'everything else'
    """
    parts = [_condition(column, condition) for column, condition in match.items()]
    return "; ".join(parts) or "everything else"


def _condition(column: str, condition: object) -> str:
    if isinstance(condition, Mapping):
        low, high = condition.get("min"), condition.get("max")
        start = f"{low} ≤ " if low is not None else ""
        end = f" ≤ {high}" if high is not None else ""
        return f"{start}{column}{end}"
    if isinstance(condition, list):
        return f"{column} in {', '.join(map(str, condition))}"
    return f"{column} = {condition}"


def summary(slo: Slo) -> str:
    """Return the lines of a valid file: what was resolved, promised and defaulted."""
    return "\n".join(_lines(slo))


def _lines(slo: Slo) -> Iterator[str]:
    from planner.spec import catalog

    model = catalog.model(slo.model)
    engine = catalog.engine(slo.engine, slo.engine_version)
    yield f"{slo.file}: OK"
    yield f"model   {model.id} ({model.architecture}, {model.weight_dtype})"
    yield f"engine  {engine.id} {slo.engine_version or engine.version}"
    yield "classes"
    width = max(len(item.name) for item in slo.classes)
    for item in slo.classes:
        yield f"  {item.name:<{width}}  {_matched(slo, item)}"
        yield f"  {'':<{width}}  {', '.join(map(target_text, item.targets))}"
    defaults = default_texts(slo.defaulted)
    if defaults:
        yield "defaults used"
        width = max(map(len, defaults))
        yield from (f"  {path:<{width}}  {text}" for path, text in defaults.items())


def _matched(slo: Slo, item: WorkloadClass) -> str:
    if not item.match and len(slo.classes) == 1:
        return "every request"
    return match_text(item.match)


def default_values(paths: tuple[str, ...]) -> dict[str, object]:
    """Return the default behind each dotted path of `Slo.defaulted`, as the schema declares it.

    >>> default_values(("engine.name", "headroom"))
    {'engine.name': 'vllm', 'headroom': 0.1}
    """
    return {path: _declaration(path)["default"] for path in paths}


def default_texts(paths: tuple[str, ...]) -> dict[str, str]:
    """Return the same for people to read: what an empty default leaves open is said in words.

    >>> default_texts(("headroom", "weight_dtypes", "prefix_caching"))
    {'headroom': '0.1', 'weight_dtypes': 'as published', 'prefix_caching': 'true'}
    """
    return {path: _default_text(_declaration(path)) for path in paths}


def _declaration(path: str) -> Schema:
    schema = root = load_schema("slo")
    for step in path.split("."):
        schema = properties(schema, root)[step]
    return schema


def _default_text(schema: Schema) -> str:
    value = schema["default"]
    if "x-default-text" in schema:
        return str(schema["x-default-text"])
    return json.dumps(value) if isinstance(value, bool) else str(value)


def as_declared(slo: Slo) -> dict[str, Any]:
    """Return an `Slo` in the form of slo.yaml, every default filled in: a file that says the same.

    Classes are a mapping in their order, targets are percentiles.
    """
    data: dict[str, Any] = {
        "model": slo.model,
        "engine": {"name": slo.engine, "version": slo.engine_version},
        "classes": {item.name: _declared_class(item) for item in slo.classes},
    }
    same = set(load_schema("slo")["properties"]) - {*data, "slo", "current"}
    for name in sorted(same):
        value = getattr(slo, name)
        data[name] = list(value) if isinstance(value, tuple) else value
    data["prices_usd_per_hour"] = dict(slo.prices_usd_per_hour)
    current = {"replicas": slo.current_replicas, "gpus": slo.current_gpus}
    if any(value is not None for value in current.values()):
        data["current"] = {name: value for name, value in current.items() if value is not None}
    return data


def _declared_class(item: WorkloadClass) -> dict[str, Any]:
    targets: dict[str, dict[str, float]] = {}
    for target in item.targets:
        targets.setdefault(target.metric, {})[f"p{number(target.percentile)}"] = target.limit_s
    urgency = {"priority": item.priority} if item.priority else {}
    return {"match": dict(item.match), **urgency, "slo": targets}


def as_data(slo: Slo) -> dict[str, Any]:
    """Return an `Slo` as plain data for `--json`, defaults with their values."""
    return {"ok": True, "slo": asdict(slo), "defaults": default_values(slo.defaulted)}
