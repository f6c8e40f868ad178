"""What no engine starts: every rule on its own, and nothing against what is planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.errors import InputError
from planner.perf.startable import faults
from planner.sim.setup import deployment_of, refuse_unstartable
from planner.solve.candidates import families
from planner.spec import catalog
from planner.spec.slo import Slo, Target, WorkloadClass

MODEL, GPU, ENGINE = catalog.model("llama-3.1-8b"), catalog.gpu("h100"), catalog.engine("vllm")
GOOD = deployment_of(MODEL, GPU, ENGINE, {})


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"tensor_parallel_size": 3}, "tensor_parallel_size", "32 attention heads"),
        ({"tensor_parallel_size": 16}, "tensor_parallel_size", "has 8"),
        ({"data_parallel_size": 2}, "data_parallel_size", "2 ranks"),
        ({"pipeline_parallel_size": 33}, "pipeline_parallel_size", "32 layers"),
        ({"max_num_batched_tokens": 1}, "max_num_batched_tokens", "below max_num_seqs"),
        ({"max_model_len": 10**9}, "max_model_len", "131072 tokens"),
        ({"weight_dtype": "int2"}, "weight_dtype", "unknown format"),
        ({"weight_dtype": "int4"}, "weight_dtype", "published as bf16"),
        ({"kv_cache_dtype": "int2"}, "kv_cache_dtype", "unknown format"),
        ({"gpu_memory_utilization": 0.05}, "gpu_memory_utilization", "does not fit"),
        ({"gpu_memory_utilization": float("nan")}, "gpu_memory_utilization", "no share"),
        ({"gpu_memory_utilization": 0.3}, "max_model_len", "tokens of KV cache"),
    ],
)
def test_each_rule_names_its_field(change, field, words):
    (fault,) = faults(MODEL, GPU, ENGINE, replace(GOOD, **change))
    assert fault.field == field
    assert words in fault.message
    assert fault.hint


@pytest.mark.parametrize("gpu", ["h100", "l4", "a100-80gb", "mi300x", "t4"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_planned_candidate_starts(gpu, engine):
    part, made = catalog.gpu(gpu), catalog.engine(engine)
    target = Target(metric="ttft_s", percentile=99.0, limit_s=1.0)
    slo = Slo(model=MODEL.id, classes=(WorkloadClass(name="all", targets=(target,)),))
    found = [c for each in families(MODEL, part, made, slo, 4096) for c in each.candidates]
    assert found
    assert [faults(MODEL, part, made, c.deployment) for c in found] == [()] * len(found)


def test_flags_are_refused_by_their_names():
    wrong = replace(GOOD, tensor_parallel_size=3, max_model_len=10**9)
    with pytest.raises(InputError) as caught:
        refuse_unstartable(MODEL, GPU, ENGINE, wrong, None)
    assert [each.path for each in caught.value.problems] == [
        "--tensor-parallel-size",
        "--max-model-len",
    ]
    small = replace(GOOD, max_num_batched_tokens=64)
    refuse_unstartable(MODEL, GPU, ENGINE, small, "orca")  # its batch has no token budget
    with pytest.raises(InputError, match="--max-num-batched-tokens"):
        refuse_unstartable(MODEL, GPU, ENGINE, small, None)
