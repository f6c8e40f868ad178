"""Engine profiles: defaults by device as the engines compute them, versions, flags."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from planner.errors import InputError
from planner.spec import catalog
from planner.spec.deployment import Deployment

GIB = 2**30


@pytest.mark.parametrize(
    ("version", "gpu", "expected"),
    [
        # vLLM's own table for the OpenAI server: 160 GiB and more, 70 GiB and more without
        # "a100" in the name, everything else; 0.11 has no first tier.
        ("0.33", "mi300x", (16384, 1024)),
        ("0.33", "b200", (16384, 1024)),
        ("0.33", "h100", (8192, 1024)),
        ("0.33", "h200", (8192, 1024)),
        ("0.33", "rtx-pro-6000", (8192, 1024)),
        ("0.33", "a100-80gb", (2048, 256)),
        ("0.33", "a100-40gb", (2048, 256)),
        ("0.33", "l40s", (2048, 256)),
        ("0.33", "rtx-5090", (2048, 256)),
        ("0.11", "mi300x", (8192, 1024)),
        ("0.11", "b200", (8192, 1024)),
        ("0.11", "h100", (8192, 1024)),
        ("0.11", "a100-80gb-pcie", (2048, 256)),
        ("0.11", "l4", (2048, 256)),
    ],
)
def test_vllm_defaults_by_device(version: str, gpu: str, expected: tuple[int, int]) -> None:
    row = catalog.batch_default(catalog.engine("vllm", version), catalog.gpu(gpu))
    assert (row.max_num_batched_tokens, row.max_num_seqs) == expected


@pytest.mark.parametrize(
    ("gpu", "chunk"),
    [("t4", 2048), ("l4", 4096), ("l40s", 4096), ("h100", 8192), ("h200", 8192), ("b200", 16384)],
)
def test_sglang_chunk_by_device(gpu: str, chunk: int) -> None:
    row = catalog.batch_default(catalog.engine("sglang"), catalog.gpu(gpu))
    assert row.max_num_batched_tokens == chunk


@pytest.mark.parametrize(("visible_gib", "expected"), [(69.99, 2048), (70.0, 8192), (160.0, 16384)])
def test_tiers_begin_at_their_bound(visible_gib: float, expected: int) -> None:
    gpu = replace(catalog.gpu("h100"), memory_bytes_visible=visible_gib * GIB)
    row = catalog.batch_default(catalog.engine("vllm", "0.33"), gpu)
    assert row.max_num_batched_tokens == expected


def test_versions_differ_where_the_engine_changed() -> None:
    old, new = catalog.engine("vllm", "0.11"), catalog.engine("vllm", "0.33")
    assert (old.memory.gpu_memory_utilization, new.memory.gpu_memory_utilization) == (0.9, 0.92)
    assert (old.admission, new.admission) == ("chunk", "full_sequence")
    assert (old.async_scheduling, new.async_scheduling) == (False, True)
    assert old.block_tokens == new.block_tokens == 16


def test_newest_version_is_the_default_and_patches_follow_their_minor() -> None:
    assert catalog.engine("vllm").version == "0.33"
    assert catalog.engine("vLLM", "0.33.0").version == "0.33"
    assert catalog.engine("vllm", "0.11.2").version == "0.11"
    assert catalog.engine("sglang").version == "0.5.23"


@pytest.mark.parametrize(
    ("name", "version"), [("vllm", "0.12"), ("vllm", "0.3"), ("vllm", "0.330")]
)
def test_unknown_version_lists_the_known_ones(name: str, version: str) -> None:
    with pytest.raises(InputError, match=r"known: 0\.11, 0\.33"):
        catalog.engine(name, version)


def test_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'vllm'"):
        catalog.engine("vlm")
    with pytest.raises(InputError, match="known: sglang, vllm"):
        catalog.engine("tensorrt")


def test_graph_sizes_follow_the_engines_rules() -> None:
    # 0.11: 1, 2, 4 and every eighth to 512; 0.33: every eighth below 256, every 16th from there.
    old = [1, 2, 4, *range(8, 513, 8)]
    new = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    assert list(catalog.engine("vllm", "0.11").cuda_graph_sizes) == old
    assert list(catalog.engine("vllm", "0.33").cuda_graph_sizes) == new
    sglang = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), 512]
    assert list(catalog.engine("sglang").cuda_graph_sizes) == sglang


@pytest.mark.parametrize("engine", catalog.engines(), ids=lambda e: f"{e.id}-{e.version}")
def test_flags_name_fields_of_a_deployment(engine) -> None:
    known = {field.name for field in fields(Deployment)}
    assert set(engine.flags) <= known
    needed = {"max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "max_model_len"}
    assert needed <= set(engine.flags)
    assert len(set(engine.flags.values())) == len(engine.flags)


@pytest.mark.parametrize("engine", catalog.engines(), ids=lambda e: f"{e.id}-{e.version}")
def test_overheads_are_in_seconds(engine) -> None:
    # Fitted values lie between 19 and 51 µs a layer, 0 and 50 µs a sequence, 0.18 and 2.5 ms.
    assert 10e-6 < engine.layer_overhead_s < 100e-6
    assert 0.0 <= engine.seq_overhead_s < 100e-6
    assert 0.05e-3 < engine.prefill_layer_overhead_s < 3e-3
    assert set(engine.memory.non_torch_bytes_by_tp) == {1, 2, 4, 8}


def test_the_last_tier_takes_every_gpu() -> None:
    for engine in catalog.engines():
        for gpu in catalog.gpus():
            assert catalog.batch_default(engine, gpu).max_num_seqs > 0


def test_a_profile_without_a_matching_tier_is_an_error_of_the_catalogue() -> None:
    engine = replace(catalog.engine("vllm"), batch_defaults=())
    with pytest.raises(ValueError, match="no default tier"):
        catalog.batch_default(engine, catalog.gpu("h100"))
