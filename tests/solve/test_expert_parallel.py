"""Whole experts on each GPU or cut over them: where each wins, and what is never replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from solve_cases import poisson, slo_of

from planner.solve.alternatives import alternatives
from planner.solve.candidates import families
from planner.solve.groups import search_groups
from planner.solve.recommend import chosen
from planner.solve.slower import slower
from planner.spec import catalog
from planner.spec.launch import launch_argv

QWEN = "Qwen/Qwen3-235B-A22B-FP8"


@pytest.fixture(scope="module")
def answers(make_case):
    """Long answers to short prompts on TP8: steps of 250 to 400 tokens, where whole experts win."""
    traffic = poisson(60, 300, seed=3, input_mean=60, output_mean=500)
    few = {"max_num_batched_tokens": (1024,), "max_num_seqs": (512,), "growth": 0.1}
    slo = slo_of(("tpot_s", 90.0, 0.032), model=QWEN, tensor_parallel_sizes=(8,), **few)
    return make_case(traffic, slo, "h200")


def declared(case, value):
    return replace(case, slo=replace(case.slo, expert_parallel=value))


def test_the_search_takes_whole_experts_where_they_need_fewer_replicas(answers):
    plan = chosen(answers)[0]
    cut = chosen(declared(answers, False))[0]
    whole = chosen(declared(answers, True))[0]
    assert whole.replicas < cut.replicas
    assert plan.deployment.expert_parallel
    assert plan.replicas == whole.replicas
    argv = launch_argv(plan.deployment, plan.case.engine, plan.case.model)
    assert "--enable-expert-parallel" in argv


@pytest.fixture(scope="module")
def prompts(make_case):
    """On two GPUs with prompts in every step, experts cut over the GPUs are faster throughout."""
    traffic = poisson(4, 600, seed=3, input_mean=1500, output_mean=300)
    targets = (("ttft_s", 99.0, 4.0), ("tpot_s", 99.0, 0.06))
    few = {"max_num_batched_tokens": (2048, 8192), "max_num_seqs": (128, 256)}
    slo = slo_of(*targets, model=QWEN, tensor_parallel_sizes=(2,), **few)
    return make_case(traffic, slo, "h200")


def test_what_is_slower_in_every_step_is_never_replayed(prompts):
    plan, options, found = chosen(prompts)
    groups = {g.expert_parallel: g for g in search_groups(plan, found)}
    assert not plan.deployment.expert_parallel
    assert groups[False].outcome == "chosen"
    assert (groups[True].outcome, groups[True].replayed) == ("slower_everywhere", 0)
    assert groups[True].candidates == groups[False].candidates
    whole = chosen(declared(prompts, True))[0]
    assert whole.deployment.expert_parallel  # declared, it is planned with
    assert whole.replicas >= plan.replicas
    labels = {row.label for row in alternatives(plan, options)}
    assert "whole experts on each GPU" in labels


def test_slower_means_in_every_term(prompts):
    plan, _, found = chosen(prompts)
    case = plan.case
    cut = case.cost(next(f for f in found if not f.candidates[0].deployment.expert_parallel).widest)
    whole = case.cost(next(f for f in found if f.candidates[0].deployment.expert_parallel).widest)
    assert slower(whole, cut)
    assert not slower(cut, whole)
    memory = whole.memory_s.copy()
    memory[100] = 0.0  # one batch at which it is faster
    assert not slower(replace(whole, memory_s=memory), cut)


@pytest.mark.parametrize(
    ("model", "engine", "expected"),
    [
        (QWEN, "vllm", {(1, False), (2, False), (2, True), (4, False), (4, True)}),
        (QWEN, "sglang", {(1, False), (2, False), (4, False)}),  # no flag for it there
        ("meta-llama/Llama-3.1-8B-Instruct", "vllm", {(1, False), (2, False), (4, False)}),
    ],
)
def test_only_experts_on_several_gpus_can_be_spread(model, engine, expected):
    slo = slo_of(("ttft_s", 99.0, 4.0), model=model, tensor_parallel_sizes=(1, 2, 4))
    found = families(
        catalog.model(model), catalog.gpu("h200"), catalog.engine(engine, ""), slo, 4096
    )
    some = [f.candidates[0] if f.candidates else f.tightest for f in found]
    layouts = {(c.deployment.tensor_parallel_size, c.deployment.expert_parallel) for c in some}
    assert layouts == expected
