"""Sensitivities by replay: the search for the count, the moved traces, what stops a count."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solve_cases import poisson

from planner.perf.calibrations import calibration
from planner.perf.compile import compile_step_cost
from planner.sim.metrics import TargetResult, WindowResult
from planner.solve.moved import (
    Asked,
    as_declared,
    fewest_that_hold,
    history_cached,
    longer_answers,
    longer_prompts,
    moved_limit,
)
from planner.solve.remarks_engine import longest_gap_s
from planner.solve.steps import step
from planner.solve.verify import Trial
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.slo import Target

TTFT = Target(metric="ttft_s", percentile=99.0, limit_s=2.0)
TPOT = Target(metric="tpot_s", percentile=99.0, limit_s=0.05)


@given(least=st.integers(1, 60), start=st.integers(1, 40))
def test_the_search_finds_the_least_count_that_holds_and_what_fails_below(least, start):
    asked: list[int] = []

    def holds(count: int) -> bool:
        asked.append(count)
        return count >= least

    count, fails = fewest_that_hold(holds, start)
    most = max(6, 4 * start)
    assert (count, fails) == ((least, least - 1) if least <= most else (None, most))
    assert len(asked) <= 2 + 2 * np.ceil(np.log2(max(least, start) + 1))


class OneQueue:
    """Stands for a Trial: TTFT is 12 s over the count, TPOT 0.3 s over it, in every span."""

    holds, probed, knows = Trial.holds, Trial.probed, Trial.knows

    def __init__(self) -> None:
        self.full, self.stopped = 0, 0
        self._verdicts = {}
        self.requests = SimpleNamespace(origin="")

    def replayed(self, load, replicas, *, span, stop_when_lost):
        assert load == pytest.approx(30.0 / replicas)
        values = {TTFT: 12.0 / replicas, TPOT: 0.3 / replicas}
        lost = stop_when_lost and any(v > target.limit_s for target, v in values.items())
        self.stopped += stop_when_lost
        self.full += not stop_when_lost
        results = tuple(self._result(target, value, span) for target, value in values.items())
        return SimpleNamespace(lost=lost, targets=() if lost else results)

    @staticmethod
    def _result(target, value, span):
        window = WindowResult(
            start_s=span[0],
            end_s=span[1],
            count=1000,
            value_s=value,
            attainment=1.0,
            holds=value <= target.limit_s,
        )
        return TargetResult(
            class_name="chat", target=target, whole_s=value, attainment=1.0, windows=(window,)
        )


def asked(trial):
    return Asked(trial=trial, fleet=30.0, spans=((0.0, 3600.0), (7200.0, 10800.0)))


@pytest.mark.parametrize(
    ("which", "factor", "count", "stopped_by"),
    [
        (TTFT, 1.0, 6, "tpot_s"),  # 12/6 = 2.0 and 0.3/6 = 0.05: both just hold
        (TTFT, 0.8, 8, "ttft_s"),  # 12/7 = 1.71 > 1.6
        (TPOT, 0.8, 8, "tpot_s"),  # 0.3/7 = 0.043 > 0.04
        (TTFT, 1.2, 6, "tpot_s"),  # TPOT still needs 6
        (TPOT, 1.2, 6, "ttft_s"),
    ],
)
def test_a_moved_target_needs_the_count_that_division_gives(which, factor, count, stopped_by):
    found, miss = asked(OneQueue()).fewest(6, moved_limit(("chat", which), factor))
    assert found == count
    if factor == 1.0:
        stopped_by = miss.metric  # both are missed by the same share at 5
    assert (miss.class_name, miss.metric) == ("chat", stopped_by)
    assert miss.value_s > miss.limit_s
    assert miss.value_s == pytest.approx({"ttft_s": 12.0, "tpot_s": 0.3}[stopped_by] / (count - 1))


def test_declared_limits_stop_at_the_first_loss_and_replay_again_only_what_is_shown():
    trial = OneQueue()
    found, miss = asked(trial).fewest(5)
    assert (found, miss.limit_s) == (6, {"ttft_s": 2.0, "tpot_s": 0.05}[miss.metric])
    # 5 fails in the first span, 6 holds in both: three short replays, and one in full of 5.
    assert (trial.stopped, trial.full) == (3, 1)


def test_nothing_is_missed_where_everything_holds():
    questions = asked(OneQueue())
    assert questions.misses(6, as_declared) == []
    assert questions.holds(6)
    assert not questions.holds(5)


def test_longer_prompts_and_answers_scale_lengths_and_nothing_else():
    requests = poisson(2.0, 60.0, input_mean=900, output_mean=30)
    cached = np.minimum(requests.input_tokens - 1, 800)
    requests = replace(requests, cached_tokens=cached)
    longer = longer_prompts(requests, 1.2)
    assert longer.input_tokens == pytest.approx(1.2 * requests.input_tokens, abs=0.5)
    assert (longer.output_tokens == requests.output_tokens).all()
    assert (longer.cached_tokens < longer.input_tokens).all()
    assert longer.cached_tokens == pytest.approx(1.2 * cached, abs=1.0)
    shorter = longer_answers(replace(requests, output_tokens=np.ones_like(cached)), 0.2)
    assert (shorter.output_tokens == 1).all()  # nobody generates a fifth of a token
    assert (shorter.arrival_s == requests.arrival_s).all()


@pytest.fixture(scope="module")
def cost():
    gpu, model = catalog.gpu("h100"), catalog.model("meta-llama/Llama-3.1-8B-Instruct")
    deployment = Deployment(
        model=model.id,
        engine="vllm",
        engine_version="",
        gpu=gpu.id,
        weight_dtype="bf16",
        kv_cache_dtype="bf16",
        max_num_batched_tokens=40_000,
        max_num_seqs=256,
        max_model_len=131_072,
        gpu_memory_utilization=0.92,
        block_size=16,
    )
    return compile_step_cost(model, gpu, catalog.engine("vllm", None), calibration(gpu), deployment)


def test_an_uncut_prompt_attends_to_half_of_itself(cost):
    """Its one step is the step with p tokens that each see p/2 before them on average."""
    chunk = SimpleNamespace(decode_seqs=8.0, context_tokens=3000.0)
    gap = longest_gap_s(cost, chunk, 32_000.0, 32_000.0, mixes=True)
    assert gap == pytest.approx(float(step(cost, 8.0, 3000.0, 32_000.0, 16_000.0).gap_s))
    assert gap > 1.3 * float(step(cost, 8.0, 3000.0, 32_000.0, 0.0).gap_s)


def test_a_cut_prompt_s_longest_step_is_the_one_that_looks_furthest_back(cost):
    chunk = SimpleNamespace(decode_seqs=8.0, context_tokens=3000.0)
    gaps = [longest_gap_s(cost, chunk, p, 2000.0, mixes=True) for p in (2000, 8000, 32_000)]
    assert gaps == sorted(gaps)
    last = step(cost, 8.0, 3000.0, 2000.0, 31_000.0).gap_s + cost.prefix_s * 30_000.0
    assert gaps[-1] == pytest.approx(float(last))
    assert gaps[-1] < longest_gap_s(cost, chunk, 32_000.0, 16_000.0, mixes=True)


def test_an_easier_move_asks_the_count_that_held_before_no_more():
    trial = OneQueue()
    found, _ = asked(trial).fewest(6, easier=True)
    assert found == 6
    assert trial.stopped == 1  # 5 alone, which fails in the first span


def test_history_is_cached_as_far_as_the_turn_before_it_reached():
    """Turn 2 of session 0 holds turn 1 whole; turn 3 is shorter and starts anew; 5 stands alone."""
    requests = replace(
        poisson(1.0, 9.0, seed=1),
        arrival_s=np.arange(5.0),
        input_tokens=np.array([100, 80, 400, 90, 50]),
        output_tokens=np.array([20, 10, 30, 5, 5]),
        class_id=np.zeros(5, np.int64),
        cached_tokens=np.zeros(5, np.int64),
        session_id=np.array([0, 1, 0, 0, -1]),
    )
    assert history_cached(requests).cached_tokens.tolist() == [0, 0, 120, 0, 0]
    whole = replace(requests, input_tokens=np.array([100, 80, 120, 90, 50]))
    assert history_cached(whole).cached_tokens.tolist() == [0, 0, 119, 0, 0]  # one is computed
