"""Why an alternative lost: barred by slo.yaml, dearer, or cheaper by the equations alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from planner.solve.allowed import not_listed
from planner.solve.alternatives import _why
from planner.spec.deployment import Deployment
from planner.spec.slo import Slo

PLAN = Deployment(
    gpu="h100-sxm",
    model="m",
    engine="vllm",
    engine_version="",
    max_num_batched_tokens=2048,
    max_num_seqs=256,
    max_model_len=8192,
    gpu_memory_utilization=0.92,
)


def decision(confirmed=None, **listed):
    slo = Slo(model="m", classes=(), spare_replicas=1, **listed)
    case = SimpleNamespace(slo=slo, gpu=lambda _: None, price=lambda _: (2.0, "test"))
    return SimpleNamespace(case=case, deployment=PLAN, replicas=9, confirmed=confirmed)


@pytest.mark.parametrize(
    ("changes", "listed", "barred"),
    [
        ({}, {}, []),
        ({"weight_dtype": "fp8"}, {}, ["fp8"]),
        ({"weight_dtype": "fp8"}, {"weight_dtypes": ("bf16", "fp8")}, []),
        ({"tensor_parallel_size": 2}, {}, []),
        ({"tensor_parallel_size": 2}, {"tensor_parallel_sizes": (1, 4)}, ["TP2"]),
        ({"max_num_seqs": 512}, {"max_num_seqs": (256,)}, ["max_num_seqs 512"]),
        (
            {"max_num_batched_tokens": 4096, "weight_dtype": "fp8"},
            {"max_num_batched_tokens": (2048,)},
            ["fp8", "max_num_batched_tokens 4,096"],
        ),
    ],
)
def test_what_slo_yaml_does_not_list_is_named(changes, listed, barred):
    assert not_listed(decision(**listed), replace(PLAN, **changes)) == barred


def why(found, gpus, **changes):
    """The plan has 10 GPUs at $2/h; the alternative `gpus`, never more replicas for the load."""
    return _why(found, None, gpus - 1, gpus, 2.0 * gpus, replace(PLAN, **changes))


def test_dearer_cheaper_and_equal_have_their_reasons():
    assert why(decision(), 10) == ("smaller_margin", "same cost")
    assert why(decision(), 8, weight_dtype="fp8") == (
        "not_allowed",
        "−20 %; slo.yaml does not list fp8",
    )
    reason, detail = why(decision(), 12, tensor_parallel_size=2)
    assert (reason, detail) == ("costs_more", "+20 %")


def test_what_only_the_equations_find_cheaper_is_not_called_forbidden():
    reason, detail = why(decision(confirmed=SimpleNamespace(asked=())), 9)
    assert reason == "violates"
    assert detail == "−10 % by the equations alone; at counts that cost less a target is missed"
