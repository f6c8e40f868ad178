"""The worst window of a target is found by probes of many replicas, not by the luck of a few."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from planner.perf.calibrations import calibration
from planner.perf.compile import compile_step_cost
from planner.sim.metrics import TargetResult, WindowResult
from planner.solve.replayed import replayed_rows
from planner.solve.windows import Window
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.slo import Target

TTFT = Target(metric="ttft_s", percentile=99.0, limit_s=1.5)
EARLY, LUCKY, DECIDING = (0.0, 3600.0), (3600.0, 7200.0), (7200.0, 10_800.0)
# What few replicas show of each window, and what many show.
FEW = {EARLY: 1.0, LUCKY: 1.25, DECIDING: 0.9}
MANY = {EARLY: 0.8, LUCKY: 1.04, DECIDING: 1.24}


def result(values) -> TargetResult:
    windows = tuple(
        WindowResult(
            start_s=span[0],
            end_s=span[1],
            count=1000,
            value_s=value,
            attainment=0.995,
            holds=value <= TTFT.limit_s,
        )
        for span, value in values.items()
    )
    return TargetResult(
        class_name="chat", target=TTFT, whole_s=0.7, attainment=0.998, windows=windows
    )


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Stands for a Trial: a slower step lengthens what is measured in proportion."""

    cost: object
    unstretched: float

    @property
    def burstier(self) -> Probes:
        return self

    def probed(self, load, replicas, span, *, to_the_end):
        assert (load, replicas, to_the_end) == (2.4, 9, True)
        slower = float(self.cost.memory_s[1]) / self.unstretched
        return SimpleNamespace(targets=(result({span: MANY[span] * slower}),))


@pytest.fixture
def decision():
    gpu, model = catalog.gpu("h100"), catalog.model("meta-llama/Llama-3.1-8B-Instruct")
    deployment = Deployment(
        model=model.id,
        engine="vllm",
        engine_version="",
        gpu=gpu.id,
        max_num_batched_tokens=2048,
        max_num_seqs=64,
        max_model_len=32_768,
        gpu_memory_utilization=0.92,
    )
    cost = compile_step_cost(model, gpu, catalog.engine("vllm", None), calibration(gpu), deployment)
    windows = tuple(
        Window(class_id=0, start_s=start, end_s=end, requests=1000, merged=1)
        for start, end in (EARLY, LUCKY, DECIDING)
    )
    requests = SimpleNamespace(class_names=("chat",), origin="2026-10-12T13:00:00+00:00")
    return SimpleNamespace(
        cost=cost,
        load=2.4,
        replicas=9,
        case=SimpleNamespace(requests=requests),
        demand=SimpleNamespace(windows=windows),
    )


def rows(decision, spans):
    trial = Probes(cost=decision.cost, unstretched=float(decision.cost.memory_s[1]))
    confirmed = SimpleNamespace(
        trial=trial, spans=spans, whole=SimpleNamespace(targets=(result(FEW),))
    )
    return replayed_rows(decision, confirmed, None)


def test_a_window_that_decides_is_reported_though_few_replicas_showed_another(decision):
    (row,) = rows(decision, (DECIDING,))
    assert row.worst_s == pytest.approx(1.24)
    assert row.worst_window == "Mon 2026-10-12 15:00–16:00"
    assert row.margin == pytest.approx((1.5 - 1.24) / 1.5)


def test_the_band_is_of_the_same_window_with_steps_slower_and_faster(decision):
    (row,) = rows(decision, (DECIDING,))
    band = decision.cost.band
    assert (row.low_s, row.high_s) == pytest.approx((1.24 * (1 - band), 1.24 * (1 + band)))


def test_the_worst_of_the_whole_trace_is_asked_again_where_nothing_else_is_worse(decision):
    (row,) = rows(decision, (EARLY,))
    assert row.worst_s == pytest.approx(1.04)  # and not the 1.25 that few replicas showed
    assert row.worst_window == "Mon 2026-10-12 14:00–15:00"
