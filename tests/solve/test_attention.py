"""Data-parallel attention beside a tensor-parallel plan: where it saves replicas, and where not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from solve_cases import poisson, slo_of

from planner.perf.memory import memory_budget
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings
from planner.solve.recommend import chosen
from planner.solve.variants import variants

DEEPSEEK = "deepseek-ai/DeepSeek-V3"
TP8 = {"tensor_parallel_sizes": (8,), "max_num_batched_tokens": (8192,)}
TARGETS = (("ttft_s", 99.0, 20.0), ("tpot_s", 99.0, 0.1))


@pytest.fixture(scope="module")
def answers(make_case):
    """Long answers: under TP8 each of eight GPUs reads the latent of every sequence."""
    traffic = poisson(40, 400, seed=3, input_mean=300, output_mean=1200)
    slo = slo_of(*TARGETS, model=DEEPSEEK, max_num_seqs=(512,), **TP8)
    return chosen(make_case(traffic, slo, "h200"))[0]


def attention(decision):
    rows = [row for row in variants(decision) if row.dimension == "attention"]
    return rows[0] if rows else None


def held(decision, replicas):
    """Replay every request on the ranks of so many replicas, without the solver."""
    case, plan = decision.case, decision.deployment
    spread = replace(
        plan,
        tensor_parallel_size=1,
        data_parallel_size=8,
        expert_parallel=True,
        max_num_batched_tokens=1024,
        max_num_seqs=512,
    )
    memory = memory_budget(case.model, case.gpus[0], case.engine, spread)
    settings = SchedulerSettings.of(spread, case.engine, memory)
    assert settings.kv_tokens <= memory.kv_tokens / 8  # of one rank
    return all(
        target.holds
        for target in replay(
            case.requests,
            case.cost(spread),
            replace(settings, enable_prefix_caching=False),
            replicas=8 * replicas,
            seed=case.slo.seed,
            classes=case.slo.classes,
        ).targets
    )


def test_ranks_with_caches_of_their_own_save_replicas_of_long_answers(answers):
    row = attention(answers)
    assert (row.value, row.planned, row.outcome) == ("DP8, EP", "TP8", "saves")
    assert row.replicas < answers.replicas
    assert row.gpus == 8 * row.replicas
    assert held(answers, row.replicas)
    assert not held(answers, row.replicas - 1)


def test_long_prompts_save_nothing_by_it(make_case):
    traffic = poisson(20, 400, seed=3, input_mean=4000, output_mean=300)
    slo = slo_of(("ttft_s", 99.0, 8.0), TARGETS[1], model=DEEPSEEK, max_num_seqs=(256,), **TP8)
    decision = chosen(make_case(traffic, slo, "h200"))[0]
    assert decision.replicas > 1
    assert attention(decision).outcome == "no_fewer"
    assert not held(decision, decision.replicas - 1)


def test_where_one_gpu_cannot_hold_attention_and_its_share_of_experts_it_is_not_replayed(answers):
    small = replace(answers.case.gpus[0], memory_bytes_visible=95e9)
    case = replace(answers.case, gpus=(small,))
    row = attention(replace(answers, case=case))
    assert (row.outcome, row.reason, row.replays) == ("cannot_win", "does_not_fit", 0)


@pytest.mark.parametrize(
    ("model", "gpu"), [("Qwen/Qwen3-30B-A3B", "h100"), ("meta-llama/Llama-3.1-8B-Instruct", "h100")]
)
def test_a_model_whose_kv_cache_tensor_parallelism_divides_is_not_asked(make_case, model, gpu):
    traffic = poisson(1, 300, seed=3, input_mean=500, output_mean=50)
    slo = slo_of(*TARGETS, model=model, tensor_parallel_sizes=(2,))
    assert attention(chosen(make_case(traffic, slo, gpu))[0]) is None
