"""What slo.yaml declares, what it leaves to defaults, and what stands in for those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from planner.report import format as fmt
from planner.solve.plan import Plan

SPELLING = {
    "engine": "engine.name",
    "engine_version": "engine.version",
    "current_gpus": "current.gpus",
    "current_replicas": "current.replicas",
}


def slo_rows(plan: Plan) -> Iterator[tuple[str, object, bool]]:
    """Yield (dotted path, value, whether it is a default) of everything slo.yaml may say."""
    used = in_effect(plan)
    for path, value in _leaves(plan.slo, ""):
        written = SPELLING.get(path, path)
        default = _is_default(written, plan)
        if value is not None or default:
            yield written, used.get(written) if value in (None, (), [], {}) else value, default


def in_effect(plan: Plan) -> dict[str, object]:
    """Return what stands in for a key of slo.yaml that names nothing."""
    d, searched = plan.deployment, "searched"
    return {
        "engine.version": d.engine_version,
        "gpus": "those of --gpu",
        "gpu_memory_utilization": d.gpu_memory_utilization,
        "max_num_batched_tokens": searched,
        "max_num_seqs": searched,
        "tensor_parallel_sizes": searched,
        "pipeline_parallel_sizes": "searched where nothing holds without",
        "weight_dtypes": f"{d.weight_dtype}, as published",
        "kv_cache_dtypes": f"{d.kv_cache_dtype}, the engine's default",
        "prices_usd_per_hour": "the catalogue's",
    }


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield every leaf of a nested mapping; entries of a list of mappings go by their name."""
    if isinstance(value, Mapping) and set(value) == {"metric", "percentile", "limit_s"}:
        yield f"{path}.{value['metric']}.{fmt.percentile(value['percentile'])}", value["limit_s"]
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
        for item in value:
            named = dict(item) if isinstance(item, Mapping) else {"": item}
            name = named.pop("name", "")  # shown in the path instead
            yield from _leaves(named, f"{path}.{name}" if name else path)
    else:
        yield path, value


def _is_default(path: str, plan: Plan) -> bool:
    return any(path == left or path.startswith(f"{left}.") for left in plan.defaulted)


def origin_of(plan: Plan) -> Callable[[str], str]:
    """Return what tells where a value of slo.yaml comes from."""

    def origin(path: str) -> str:
        """Return where a value of slo.yaml comes from."""
        return "default" if _is_default(path, plan) else "slo.yaml"

    return origin


def is_declared(plan: Plan) -> Callable[[str], bool]:
    """Return what tells whether slo.yaml names a value."""

    def declared(path: str) -> bool:
        """Whether slo.yaml names a value (an empty list names none)."""
        return bool(plan.slo.get(path)) and not _is_default(path, plan)

    return declared
