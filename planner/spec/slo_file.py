"""Read an slo.yaml: every problem at once, or a complete `Slo` with its defaults filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from planner.errors import InputError, Problem
from planner.spec.document import Document, in_order, raise_for
from planner.spec.kinds import refuse_other_kind
from planner.spec.load import scan_document
from planner.spec.plausible import implausible
from planner.spec.schema import load_schema, with_defaults
from planner.spec.slo import Slo
from planner.spec.slo_catalog import Resolved, resolve_names
from planner.spec.slo_classes import (
    DeclaredClass,
    class_problems,
    class_warnings,
    declared_classes,
)
from planner.spec.validate import validate
from planner.text import counted

SCHEMA = "slo"


def load_slo(path: Path) -> Slo:
    """Return what an slo.yaml declares.

    Raises
    ------
    InputError
        Anything is wrong with it: all problems, sorted by place, each with line and column.
    """
    document = scan_document(path)
    refuse_other_kind(document, SCHEMA)
    problems = validate(document, SCHEMA)
    if not isinstance(document.data, Mapping):
        raise InputError(problems)
    schema = load_schema(SCHEMA)
    filled, defaulted = with_defaults(document.data, schema, schema)
    data: Mapping[str, Any] = filled if isinstance(filled, Mapping) else {}
    classes = declared_classes(data)
    names = resolve_names(document, data)
    problems += _contradictions(document, data)
    problems += _routing(document, data, names.engine)
    problems += class_problems(document, classes, frozenset(p.path for p in problems))
    problems += names.problems
    raise_for(problems)
    warnings = [
        *implausible(document, SCHEMA),
        *class_warnings(document, classes, int(data["min_requests_per_window"])),
    ]
    return _build(document.file, data, classes, names, defaulted, in_order(warnings))


def _contradictions(document: Document, data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what single values cannot show: keys that exclude or need each other."""
    if "slo" in data and "classes" in data:
        hint = "targets of a class go into the class; a class without match takes the rest"
        yield document.problem(("slo",), "slo and classes exclude each other", hint, key=True)
    if "slo" not in data and "classes" not in data:
        hint = "declare at least one, e.g. slo: {ttft_s: {p99: 4.0}}"
        yield document.problem((), "no target: neither slo nor classes is there", hint)
    budgets, batches = as_tuple(data["max_num_batched_tokens"]), as_tuple(data["max_num_seqs"])
    if _whole(budgets) and _whole(batches) and max(budgets) < min(batches):
        message = f"must not be below max_num_seqs ({min(batches)}): engines refuse to start"
        hint = "each running sequence takes a token of the budget"
        yield document.problem(("max_num_batched_tokens",), message, hint)
    current = data.get("current")
    if isinstance(current, Mapping):
        replicas, gpus = current.get("replicas"), current.get("gpus")
        if isinstance(gpus, int) and isinstance(replicas, int) and gpus < replicas:
            message = f"{counted(gpus, 'GPU')} cannot run {counted(replicas, 'replica')}"
            yield document.problem(("current", "gpus"), message, "count the GPUs of all replicas")


def _routing(document: Document, data: Mapping[str, Any], engine: str) -> Iterator[Problem]:
    """Yield a routing that the engine is not replayed with, or that has nothing to look at."""
    routing = data["routing"]
    if engine == "sglang" and routing in ("least_loaded", "cache_aware"):
        hint = "take random or round_robin"
        yield document.problem(("routing",), f"{routing} is replayed for vllm alone", hint)
    elif routing == "cache_aware" and data["prefix_caching"] is False:
        message = "cache_aware finds no prefix cache: prefix_caching is false"
        yield document.problem(("routing",), message, "switch it on, or take least_loaded")


def _whole(values: tuple[Any, ...]) -> bool:
    """Tell whether there are values, all of them whole numbers."""
    return bool(values) and all(
        isinstance(value, int) and not isinstance(value, bool) for value in values
    )


def as_tuple(value: object) -> tuple[Any, ...]:
    """Return a list, or a single value where the schema allows one in place of a list.

    >>> as_tuple(512), as_tuple([512, 2048])
    ((512,), (512, 2048))
    """
    return tuple(value) if isinstance(value, list) else (value,)


def _build(
    file: str,
    data: Mapping[str, Any],
    classes: tuple[DeclaredClass, ...],
    names: Resolved,
    defaulted: list[str],
    warnings: tuple[Problem, ...],
) -> Slo:
    current = data.get("current", {})
    return Slo(
        model=names.model,
        classes=tuple(declared.built() for declared in classes),
        engine=names.engine,
        engine_version=names.engine_version,
        evaluation_window_s=float(data["evaluation_window_s"]),
        min_requests_per_window=int(data["min_requests_per_window"]),
        growth=float(data["growth"]),
        headroom=float(data["headroom"]),
        spare_replicas=int(data["spare_replicas"]),
        sample_rate=float(data["sample_rate"]),
        gpus=names.gpus,
        weight_dtypes=as_tuple(data["weight_dtypes"]),
        kv_cache_dtypes=as_tuple(data["kv_cache_dtypes"]),
        tensor_parallel_sizes=_integers(data["tensor_parallel_sizes"]),
        pipeline_parallel_sizes=_integers(data["pipeline_parallel_sizes"]),
        expert_parallel=data["expert_parallel"],
        max_num_batched_tokens=_integers(data["max_num_batched_tokens"]),
        max_num_seqs=_integers(data["max_num_seqs"]),
        gpu_memory_utilization=_shares(data["gpu_memory_utilization"]),
        prefix_caching=bool(data["prefix_caching"]),
        routing=str(data["routing"]),
        prices_usd_per_hour={
            name: float(price) for name, price in sorted(names.prices_usd_per_hour.items())
        },
        current_replicas=_optional_integer(current.get("replicas")),
        current_gpus=_optional_integer(current.get("gpus")),
        seed=int(data["seed"]),
        file=file,
        defaulted=tuple(defaulted),
        warnings=tuple(str(problem) for problem in warnings),
    )


def _integers(value: object) -> tuple[int, ...]:
    """Return whole numbers sorted; 2048.0 and 1e3 are whole numbers too."""
    return tuple(sorted(int(item) for item in as_tuple(value)))


def _shares(value: object) -> tuple[float, ...]:
    """Return shares sorted; nothing declared is none."""
    return () if value is None else tuple(sorted(float(item) for item in as_tuple(value)))


def _optional_integer(value: float | None) -> int | None:
    return None if value is None else int(value)
