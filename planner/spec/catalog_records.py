"""Turn catalogue data (already validated) into `Gpu` and `Engine`; units become SI here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.spec.engine import BatchDefault, Engine, MemoryRule
from planner.spec.gpu import Gpu, Price
from planner.units import GB, GIB, MIB, MICRO, MILLI, TERA


def gpu_from_data(data: Mapping[str, Any]) -> Gpu:
    """Return the GPU that a file declares."""
    memory, links, power = data["memory"], data["links"], data["power"]
    visible = memory["visible_gib"]
    return Gpu(
        id=data["id"],
        name=data["name"],
        aliases=tuple(data.get("aliases", ())),
        vendor=data["vendor"],
        memory_bytes_marketing=float(memory["marketing_gb"] * GB),
        memory_bytes_visible=None if visible is None else float(visible * GIB),
        memory_bandwidth_bytes_per_s=float(memory["bandwidth_gb_per_s"] * GB),
        peak_flops_per_s={k: float(v * TERA) for k, v in data["compute"]["dense_tflops"].items()},
        scaleup_link=links["scaleup"],
        scaleup_bytes_per_s=float(links["scaleup_gb_per_s"] * GB),
        scaleup_domain_gpus=links["scaleup_domain_gpus"],
        pcie_bytes_per_s=float(links["pcie_gb_per_s"] * GB),
        gpus_per_node=links["gpus_per_node"],
        tdp_w=power["tdp_w"],
        prices=tuple(
            Price(
                usd_per_hour=float(price["usd_per_hour"]),
                kind=price["kind"],
                source=price["source"],
                date=str(price["date"]),
            )
            for price in data.get("prices", ())
        ),
        source=memory["source"],
        date=str(memory["date"]),
        confidence=data["confidence"],
        trap=data.get("trap", ""),
        calibration=data.get("calibration", ""),
        notes=dict(data.get("notes", {})),
    )


def engine_from_data(data: Mapping[str, Any]) -> Engine:
    """Return the engine profile that a file declares."""
    scheduler, memory, host = data["scheduler"], data["memory"], data["host"]
    return Engine(
        id=data["id"],
        version=str(data["version"]),
        aliases=tuple(data.get("aliases", ())),
        policy=scheduler["policy"],
        admission=scheduler["admission"],
        async_scheduling=scheduler["async_scheduling"],
        mixes_prefill_and_decode=scheduler["mixes_prefill_and_decode"],
        block_tokens=scheduler["block_tokens"],
        prefix_caching_default=scheduler["prefix_caching"],
        batch_defaults=tuple(_batch_default(row) for row in data["batch_defaults"]["tiers"]),
        cuda_graph_sizes=_graph_sizes(data["cuda_graphs"]["sizes"]),
        memory=_memory_rule(memory),
        layer_overhead_s=host["layer_us"] * MICRO,
        seq_overhead_s=host["sequence_us"] * MICRO,
        step_overhead_s=host["step_us"] * MICRO,
        prefill_layer_overhead_s=host["prefill_layer_ms"] * MILLI,
        frontend_s=host.get("frontend_ms", 0.0) * MILLI,
        frontend_client_s=host.get("frontend_client_us", 0.0) * MICRO,
        frontend_token_s=host.get("frontend_token_us", 0.0) * MICRO,
        launch_command=data["launch"]["command"],
        flags=dict(data["launch"]["flags"]),
        source=data["source"],
        date=str(data["date"]),
        notes=data.get("notes", ""),
    )


def _batch_default(row: Mapping[str, Any]) -> BatchDefault:
    """Return one tier of the engine's table."""
    return BatchDefault(
        min_memory_bytes=float(row["min_memory_gib"] * GIB),
        excluded_names=tuple(row.get("excluded_names", ())),
        max_num_batched_tokens=row["max_num_batched_tokens"],
        max_num_seqs=row["max_num_seqs"],
    )


def _graph_sizes(ranges: list[Mapping[str, int]]) -> tuple[int, ...]:
    """Expand ranges of captured batch sizes, both ends included.

    >>> _graph_sizes([{"first": 1, "last": 4, "step": 1}, {"first": 8, "last": 24, "step": 8}])
    (1, 2, 3, 4, 8, 16, 24)
    """
    return tuple(sorted({n for r in ranges for n in range(r["first"], r["last"] + 1, r["step"])}))


def _memory_rule(memory: Mapping[str, Any]) -> MemoryRule:
    """Return how the engine divides visible memory."""
    return MemoryRule(
        rule=memory["rule"],
        gpu_memory_utilization=memory["gpu_memory_utilization"],
        sampler_bytes_per_seq_vocab=memory["sampler_bytes_per_seq_vocab"],
        non_torch_bytes_by_tp={
            int(tp): float(gib * GIB) for tp, gib in memory["non_torch_gib_by_tp"].items()
        },
        graphs_in_budget=memory["graphs_in_budget"],
        graph_bytes=float(memory["graph_gib"] * GIB),
        # The one entry in tokens, minimum_chunk_tokens, is scaled with the rest.
        reserve_bytes={k: float(v * MIB) for k, v in memory.get("reserve_mib", {}).items()},
    )
