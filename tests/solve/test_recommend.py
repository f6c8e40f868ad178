"""The whole solver: plans that hold, decisions that follow, errors that say what to do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solve_cases import LLAMA_8B, LLAMA_70B, poisson, requests_of, slo_of

from planner.errors import InfeasibleError, StoppedError
from planner.ingest.load import load_trace
from planner.report.codec import dumps, plan_to_dict, schema_problems
from planner.solve.alone import alone_s
from planner.solve.findings import FINDINGS, finding
from planner.solve.plan import IngestSummary, Provenance
from planner.solve.recommend import Context, chosen, solve
from planner.spec.slo import Target, WorkloadClass

CONTEXT = Context(
    name="test",
    ingest=IngestSummary(
        files=("trace.csv",),
        format="canonical",
        format_reason="named",
        time_unit="s",
        assumptions=(),
        rows_read=1,
        rows_used=1,
        rejected=(),
        flagged=(),
    ),
    slo={},
    warnings=(),
    provenance=Provenance(
        command="planner recommend",
        planner_version="0",
        inputs_sha256={},
        catalogue_sha256={},
        library_versions={},
        seed=42,
    ),
)
TARGETS = (("ttft_s", 99.0, 2.0), ("tpot_s", 99.0, 0.05))


def gpus(plan):
    return plan.gpus.value


@pytest.fixture(scope="module")
def traffic():
    return poisson(6.0, 900.0, input_mean=1500, output_mean=250)


@pytest.fixture(scope="module")
def plan(make_case, traffic):
    slo = slo_of(*TARGETS, sample_rate=0.1, headroom=0.1, spare_replicas=1, growth=0.1)
    return solve(make_case(traffic, slo), CONTEXT)


def test_plan_obeys_the_schema_and_repeats_byte_for_byte(plan, make_case, traffic):
    assert schema_problems(plan_to_dict(plan)) == []
    slo = slo_of(*TARGETS, sample_rate=0.1, headroom=0.1, spare_replicas=1, growth=0.1)
    again = solve(make_case(traffic, slo), CONTEXT)
    assert dumps(plan_to_dict(again)) == dumps(plan_to_dict(plan))


def test_every_target_holds_and_one_binds(plan):
    assert all(row.holds for row in plan.latency)
    assert sum(row.binds for row in plan.latency) == 1
    binding = next(row for row in plan.latency if row.binds)
    fewer = plan.replica_terms.one_fewer  # what one replica fewer misses most
    assert fewer is not None
    assert fewer.value_s > fewer.limit_s
    assert (binding.class_name, binding.metric, binding.percentile) == (
        fewer.class_name,
        fewer.metric,
        fewer.percentile,
    )
    for row in plan.latency:
        assert row.low_s <= row.worst_s <= row.high_s
        assert row.worst_s <= row.limit_s
        assert row.attainment >= row.percentile / 100


def test_replica_terms_multiply_out(plan):
    terms = plan.replica_terms
    exact = terms.peak_requests_per_s * 1.1 / (0.9 * terms.capacity_requests_per_s)
    assert terms.exact == pytest.approx(exact, rel=1e-9)
    assert terms.for_load == int(np.ceil(terms.exact))
    assert plan.replicas.value == terms.for_load + 1
    assert plan.gpus.value == plan.replicas.value * plan.deployment.gpus
    # 6 req/s in a one-in-ten sample.
    assert terms.peak_requests_per_s == pytest.approx(60.0, rel=0.02)


def test_cost_is_price_times_gpus(plan):
    cost = plan.cost
    assert cost.usd_per_hour == pytest.approx(cost.usd_per_gpu_hour * plan.gpus.value)
    assert cost.usd_per_month == pytest.approx(cost.usd_per_hour * 730.0)
    # 66 req/s of about 1,750 tokens.
    rate = 66.0 * (1500 + 250)
    expected = cost.usd_per_hour / (rate * 3600 / 1e6)
    assert cost.usd_per_million_tokens_mean == pytest.approx(expected, rel=0.05)


def test_counts_band_holds_the_count(plan):
    assert plan.replicas.low <= plan.replicas.value <= plan.replicas.high
    moved = {(row.assumption, row.change): row.replicas for row in plan.sensitivity}
    faster, slower = (
        next(
            count
            for (name, change), count in moved.items()
            if name == "step_time" and sign in change
        )
        for sign in ("−", "+")
    )
    assert plan.replicas.low <= faster <= plan.replicas.value <= slower <= plan.replicas.high
    widest = max(plan.replica_terms.band_terms.values()) * plan.replica_terms.for_load
    half = max(plan.replicas.high - plan.replicas.value, plan.replicas.value - plan.replicas.low)
    assert half == pytest.approx(widest)
    assert moved["load", "+20 %"] >= plan.replicas.value >= moved["load", "−20 %"]
    assert moved["output_tokens", "+20 %"] >= moved["output_tokens", "−20 %"]


def test_every_moved_assumption_says_what_stops_it(plan):
    """Load and headroom follow from the plan's own terms; the rest name a target that is missed."""
    terms = plan.replica_terms
    moved = {(row.assumption, row.change): row for row in plan.sensitivity}
    for change, factor in (("+20 %", 1.2), ("−20 %", 0.8)):
        row = moved["load", change]
        assert row.exact == pytest.approx(factor * terms.exact)
        assert row.replicas == int(np.ceil(row.exact)) + terms.spare
    assert moved["headroom", "none"].exact == pytest.approx(0.9 * terms.exact)
    for row in plan.sensitivity:
        assert row.flips == (row.replicas != plan.replicas.value)
        asked = row.replicas is not None and row.replicas > 1 + terms.spare
        if row.exact is None and row.assumption != "step_time" and asked:
            assert row.miss is not None
            assert row.miss.value_s > row.miss.limit_s


def test_moved_targets_agree_with_what_binds(plan):
    """A tighter target needs no fewer replicas, a looser one no more, and the reason is in it."""
    moved = {(row.assumption, row.change): row for row in plan.sensitivity}
    for row in plan.latency:
        name = f"{row.metric} p{row.percentile:g} target of {row.class_name}"
        assert moved[name, "+20 %"].replicas <= plan.replicas.value
        tighter = moved[name, "−20 %"]
        assert tighter.replicas >= plan.replicas.value
        if tighter.flips:
            assert (tighter.miss.class_name, tighter.miss.metric) == (row.class_name, row.metric)
            assert tighter.miss.limit_s == pytest.approx(0.8 * row.limit_s)


def test_the_search_groups_account_for_every_layout(plan):
    groups = plan.search
    (chosen,) = (group for group in groups if group.outcome == "chosen")
    assert chosen.tensor_parallel_size == plan.deployment.tensor_parallel_size
    assert chosen.least_gpus <= plan.gpus.value
    assert {group.tensor_parallel_size for group in groups} == {1, 2, 4, 8}
    for group in groups:
        cheaper = group.least_gpus is not None and group.least_gpus < plan.gpus.value
        assert cheaper or group.outcome in ("chosen", "no_cheaper_at_best", "does_not_fit")
        assert not cheaper or group.outcome in ("chosen", "misses_where_cheaper")
        assert group.outcome != "does_not_fit" or group.dropped == group.candidates


def test_the_count_for_even_traffic_follows_from_the_figures_beside_it(plan):
    surge, terms = plan.surge, plan.replica_terms
    exact = surge.mean_requests_per_s / ((1 - terms.headroom) * surge.even_capacity_requests_per_s)
    assert surge.replicas_for_mean == min(int(np.ceil(exact)), surge.replicas)
    # 6 req/s in a one-in-ten sample, grown by a tenth.
    assert surge.mean_requests_per_s == pytest.approx(66.0, rel=0.02)


def test_the_worst_window_is_no_better_than_what_decides(plan):
    """Lengths and rate of the load test are those of the window that the terms name."""
    terms = plan.replica_terms
    assert terms.mean_input_tokens == pytest.approx(1500, rel=0.05)
    assert terms.mean_output_tokens == pytest.approx(250, rel=0.1)
    for name, (low, high) in terms.band_counts.items():
        assert low <= terms.for_load <= high
        assert terms.band_terms[name] == pytest.approx(
            max(high - terms.for_load, terms.for_load - low) / terms.for_load
        )


def test_findings_are_the_documented_ones(plan):
    for each in plan.findings:
        assert tuple(sorted(each.values)) == tuple(sorted(FINDINGS[each.id]))
    said = {each.id for each in plan.findings}
    assert {"load_test_decides", "verified", "context_used_vs_2048"} <= said
    with pytest.raises(ValueError, match="needs"):
        finding("replay_pending", extra=1)


def test_balance_point_is_the_theorys(plan):
    # C* = R·(1 + D·S·k/(2P)) − D for bf16, with everything from independent figures.
    chunk = plan.chunk
    ridge, parameters, kv = 989e12 / 3.35e12, 8.03e9, 131_072
    expected = (
        ridge * (1 + chunk.decode_seqs * chunk.context_tokens * kv / (2 * parameters))
        - chunk.decode_seqs
    )
    assert chunk.balance_chunk_tokens == pytest.approx(expected, rel=0.01)
    assert chunk.balance_flag_tokens == pytest.approx(expected + chunk.decode_seqs, rel=0.01)


def test_concurrency_is_length_biased(plan, traffic):
    prompt, output = traffic.input_tokens, traffic.output_tokens
    mean = (prompt * output).mean() / output.mean() + (output**2).mean() / (2 * output.mean())
    assert plan.concurrency.mean_context_tokens == pytest.approx(mean, rel=0.01)
    assert plan.concurrency.p95_context_tokens > plan.concurrency.mean_context_tokens


def test_looser_targets_more_load_and_faster_gpus_never_surprise(make_case, traffic, plan):
    base = {"sample_rate": 0.1, "headroom": 0.1, "spare_replicas": 1, "growth": 0.1}
    loose = slo_of(("ttft_s", 99.0, 4.0), ("tpot_s", 99.0, 0.1), **base)
    assert gpus(solve(make_case(traffic, loose), CONTEXT)) <= gpus(plan)
    busier = slo_of(*TARGETS, **{**base, "growth": 1.2})
    assert gpus(solve(make_case(traffic, busier), CONTEXT)) >= gpus(plan)
    same = slo_of(*TARGETS, **base)
    assert gpus(solve(make_case(traffic, same, "h200"), CONTEXT)) <= gpus(plan)


def test_several_gpus_take_the_cheapest_and_show_the_other(make_case, traffic):
    slo = slo_of(*TARGETS, sample_rate=0.1)
    alone = {name: solve(make_case(traffic, slo, name), CONTEXT) for name in ("h100", "l40s")}
    cheapest = min(alone, key=lambda name: alone[name].cost.usd_per_hour)
    both = solve(make_case(traffic, slo, "h100", "l40s"), CONTEXT)
    assert both.cost.usd_per_hour == pytest.approx(alone[cheapest].cost.usd_per_hour)
    others = {row.deployment.gpu for row in both.alternatives} - {both.deployment.gpu}
    assert len(others) == 1
    dearer = slo_of(*TARGETS, sample_rate=0.1, prices_usd_per_hour={both.deployment.gpu: 1000.0})
    flipped = solve(make_case(traffic, dearer, "h100", "l40s"), CONTEXT)
    assert flipped.deployment.gpu != both.deployment.gpu


def test_declared_layout_and_flags_are_obeyed(make_case, traffic):
    slo = slo_of(
        *TARGETS,
        tensor_parallel_sizes=(2,),
        max_num_batched_tokens=(1024,),
        max_num_seqs=(128,),
        gpu_memory_utilization=(0.8,),
    )
    plan = solve(make_case(traffic, slo), CONTEXT)
    chosen = plan.deployment
    assert (chosen.tensor_parallel_size, chosen.max_num_batched_tokens) == (2, 1024)
    assert (chosen.max_num_seqs, chosen.gpu_memory_utilization) == (128, 0.8)
    flags = " ".join(plan.launch)
    assert "--max-num-batched-tokens 1024" in flags
    assert "--gpu-memory-utilization 0.8" in flags


def test_a_rare_class_with_a_hard_target_is_not_forgotten(make_case):
    # One request in fifty has a 20,000-token prompt and its own TTFT target.
    draw = np.random.default_rng(2)
    arrival = np.sort(draw.uniform(0, 7200, 20_000))
    rare = (np.arange(20_000) % 50 == 0).astype(np.int64)
    requests = requests_of(
        arrival, np.where(rare, 20_000, 500), 100, class_id=rare, class_names=("chat", "doc")
    )
    easy = (
        WorkloadClass(name="chat", targets=(Target(metric="tpot_s", percentile=99, limit_s=0.1),)),
    )
    hard = (
        *easy,
        WorkloadClass(name="doc", targets=(Target(metric="ttft_s", percentile=90, limit_s=1.0),)),
    )
    base = slo_of(sample_rate=0.1)
    without = solve(make_case(requests, replace(base, classes=easy)), CONTEXT)
    both = solve(make_case(requests, replace(base, classes=hard)), CONTEXT)
    assert gpus(both) > gpus(without)
    row = next(row for row in both.latency if row.class_name == "doc")
    assert row.binds
    assert row.merged_windows == 2  # 200 an hour: both hours are needed for 1,000, and not enough
    assert any(f.id == "class_without_target" for f in without.findings)


def test_gpus_that_cost_nothing_are_compared_by_their_number(make_case):
    slo = slo_of(*TARGETS, prices_usd_per_hour={"h100-sxm": 0.0})
    plan = solve(make_case(poisson(2.0, 1200.0), slo), CONTEXT)
    assert plan.cost.usd_per_hour == 0.0
    assert plan.alternatives


def test_what_does_not_fit_says_what_would(make_case, traffic):
    slo = slo_of(
        *TARGETS, model=LLAMA_70B, tensor_parallel_sizes=(1,), pipeline_parallel_sizes=(1,)
    )
    with pytest.raises(InfeasibleError) as caught:
        solve(make_case(traffic, slo, "l40s"), CONTEXT)
    text = str(caught.value)
    assert "does not fit on 1 × l40s" in text
    assert "131.4 GiB for weights" in text  # 70.6e9 parameters × 2 B
    assert "4 × l40s a replica" in text
    assert caught.value.exit_code == 3


def test_unreachable_target_names_the_nearest_limit(make_case, traffic):
    slo = slo_of(("ttft_s", 99.0, 0.001), ("tpot_s", 99.0, 0.05), model=LLAMA_8B)
    with pytest.raises(InfeasibleError) as caught:
        solve(make_case(traffic, slo), CONTEXT)
    assert "all ttft_s p99 ≤ 0.001 s" in str(caught.value)
    limit = float(caught.value.nearest.split("limit is ")[1].split(" s")[0])
    again = slo_of(("ttft_s", 99.0, limit), ("tpot_s", 99.0, 0.05))
    assert solve(make_case(traffic, again), CONTEXT).replicas.value >= 1


def test_a_target_that_only_idle_replicas_keep_is_refused(make_case):
    slo = slo_of(("tpot_s", 99.0, 0.0069), tensor_parallel_sizes=(1,))  # a step alone: 6.7 ms
    with pytest.raises(InfeasibleError, match="hold only while replicas are idle"):
        chosen(make_case(poisson(20.0, 1800.0), slo))


def test_jobs_that_start_together_in_a_quiet_hour_get_the_replicas_they_need(make_case):
    """Nearly idle over the hour, full when 300 come at once: more replicas are no waste."""
    quiet = poisson(0.03, 14_400.0, input_mean=750, output_mean=150)
    jobs = np.repeat([3000.0, 6600.0, 10_200.0, 13_800.0], 300)
    arrival = np.sort(np.concatenate([quiet.arrival_s, jobs]))
    lengths = poisson(len(arrival), 1.0, seed=2, input_mean=750, output_mean=150, spread=0.5)
    traffic = requests_of(arrival, lengths.input_tokens, lengths.output_tokens)
    slo = slo_of(("ttft_s", 99.0, 2.0), ("tpot_s", 99.0, 0.06))
    decision = chosen(make_case(traffic, slo))[0]
    # 300 prompts of 750 tokens at 50,000 tokens/s take 4.5 s on one replica, 2 s may pass
    assert 2 <= decision.replicas <= 5
    assert all(result.holds for result in decision.confirmed.whole.targets)


@pytest.fixture(scope="module")
def conversation(shared):
    trace = shared / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
    return load_trace([str(trace)]).requests


def test_the_surge_decides_on_the_recorded_conversation_trace(make_case, conversation):
    slo = slo_of(
        ("ttft_s", 99.0, 6.0),
        ("tpot_s", 99.0, 0.2),
        model=LLAMA_70B,
        tensor_parallel_sizes=(4,),
    )
    plan = solve(make_case(conversation, slo), CONTEXT)
    surge = plan.surge
    # Reference figures: mean 6.4 k, busiest ten minutes 10.5 k, busiest minute 12.6 k (counted on
    # clock minutes there, on any minute here).
    assert surge.mean_prompt_tokens_per_s == pytest.approx(6400, rel=0.01)
    assert surge.busiest_10min_prompt_tokens_per_s == pytest.approx(10_500, rel=0.01)
    assert surge.busiest_minute_prompt_tokens_per_s == pytest.approx(12_600, rel=0.02)
    assert surge.decides
    assert surge.replicas == 1
    rows = {row.max_num_batched_tokens: row for row in surge.budgets}
    assert rows[512].verdict in ("knife_edge", "overloads")
    assert rows[512].utilization_mean < 1.0 < rows[512].utilization_busiest_minute
    assert rows[512].step_s == pytest.approx(0.054, rel=0.2)  # two simulators: 50, 54 ms; band 15 %
    assert rows[2048].verdict == "holds"
    said = [f for f in plan.findings if f.id in ("knife_edge", "budget_overloads")]
    assert 512 in {f.values["max_num_batched_tokens"] for f in said}


def test_one_h100_carries_the_conversation_trace_with_an_8b_model(make_case, conversation):
    plan = solve(
        make_case(conversation, slo_of(("ttft_s", 99.0, 4.0), ("tpot_s", 99.0, 0.1))), CONTEXT
    )
    assert plan.gpus.value == 1
    rows = {row.metric: row for row in plan.latency}
    # Another simulator: TPOT about 8.5 ms, TTFT 45 to 75 ms on average at this rate.
    assert 0.008 < rows["tpot_s"].worst_s < 0.02
    assert 0.08 < rows["ttft_s"].worst_s < 0.3


def test_a_stopped_search_says_the_best_so_far(make_case, traffic):
    case = make_case(traffic, slo_of(*TARGETS, sample_rate=0.1))

    def stopping_at(stage):
        def progress(message):
            if message == stage:
                raise KeyboardInterrupt

        return progress

    with pytest.raises(StoppedError, match="before any configuration was replayed"):
        solve(case, CONTEXT, stopping_at("searching for the cheapest that holds"))
    final = solve(case, CONTEXT)
    with pytest.raises(StoppedError, match="UNFINISHED, nothing written") as stopped:
        solve(case, CONTEXT, stopping_at("explaining"))
    assert stopped.value.exit_code == 130
    assert f"{final.gpus.value} × {final.deployment.gpu}" in str(stopped.value)
    assert "vllm serve" in str(stopped.value)


def test_the_totals_count_every_replay(plan):
    totals, groups = plan.search_totals, plan.search
    assert totals.enumerated == sum(group.candidates for group in groups)
    assert totals.fit == totals.enumerated - sum(group.dropped for group in groups)
    assert totals.replayed == sum(group.replayed for group in groups)
    assert 1 <= totals.replayed <= totals.could_be_cheaper <= totals.fit
    assert totals.replayed <= totals.replays
    assert totals.stopped_early < totals.replays
    # Each replay sees some of the grown traffic of one window: 54,000 requests in all of it.
    assert 0 < totals.requests < 60_000 * 1.3 * totals.replays


def test_the_cost_at_the_real_load_adds_up(plan, traffic):
    cost, load = plan.cost, plan.cost_at_load
    assert sum(row.gpu_time_share for row in load.classes) == pytest.approx(1.0)
    assert sum(row.usd_per_hour for row in load.classes) == pytest.approx(cost.usd_per_hour)
    assert sum(row.mean_tokens_per_s for row in load.classes) == pytest.approx(
        cost.mean_tokens_per_s
    )
    assert load.p95_tokens_per_s is cost.peak_tokens_per_s is None  # 15 minutes have no busy hour
    assert load.usd_per_hour_by_price["typical"] == pytest.approx(cost.usd_per_hour)
    assert load.tdp_kw == pytest.approx(0.7 * plan.gpus.value)  # an H100 SXM is a 700 W part
    per_hour = cost.mean_tokens_per_s * 3600 / 1e6
    assert load.kwh_per_million_tokens_mean == pytest.approx(load.tdp_kw / per_hour)


def test_answers_cost_a_class_more_than_prompts(make_case):
    """Two classes with the same tokens: the one that writes takes more GPU time."""
    arrival = np.sort(np.random.default_rng(4).uniform(0.0, 900.0, 6000))
    which = np.arange(6000) % 2
    requests = requests_of(
        arrival,
        np.where(which, 200, 800),
        np.where(which, 800, 200),
        class_id=which,
        class_names=("reads", "writes"),
    )
    targets = (Target(metric="tpot_s", percentile=99, limit_s=0.05),)
    classes = tuple(WorkloadClass(name=name, targets=targets) for name in requests.class_names)
    made = solve(make_case(requests, replace(slo_of(*TARGETS), classes=classes)), CONTEXT)
    reads, writes = made.cost_at_load.classes
    assert reads.mean_tokens_per_s == pytest.approx(writes.mean_tokens_per_s)
    assert writes.gpu_time_share > reads.gpu_time_share


def test_the_chosen_settings_hold_at_the_largest_margin_that_replay_found(plan):
    cells = [c for c in plan.batch_map.cells if c.replay_margin or c.replay_missed is not None]
    d = plan.deployment
    chosen = next(
        c
        for c in cells
        if (c.max_num_batched_tokens, c.max_num_seqs) == (d.max_num_batched_tokens, d.max_num_seqs)
    )
    assert len(cells) > 1
    assert chosen.replay_margin is not None
    assert all((c.replay_margin or 0.0) <= chosen.replay_margin for c in cells)
    for cell in cells:
        if None not in (cell.replay_margin, cell.replay_missed):
            assert cell.replay_margin < cell.replay_missed


def test_sessions_whose_prompts_grow_are_asked_with_their_history_cached(make_case):
    """A log of sessions without reuse needs no more replicas if the history were cached."""
    base = poisson(4.0, 900.0, input_mean=1500, output_mean=100, seed=4)
    order = np.arange(len(base))
    grown = replace(
        base,
        session_id=order // 240 * 40 + order % 40,  # 40 sessions at a time, six turns each
        input_tokens=400 + 800 * (order % 240 // 40),
    )
    slo = slo_of(("ttft_s", 99.0, 2.0), ("tpot_s", 99.0, 0.05), sample_rate=0.1)
    plan = solve(make_case(grown, slo), CONTEXT)
    rows = {(each.assumption, each.change): each for each in plan.sensitivity}
    assert rows["session_reuse", "cached"].replicas <= plan.replicas.value
    assert rows["session_reuse", "cached"].replicas < rows["load", "+20 %"].replicas
    assert any(finding.id == "sessions_may_reuse" for finding in plan.findings)
    lone = solve(make_case(base, slo), CONTEXT)
    assert not any(each.assumption == "session_reuse" for each in lone.sensitivity)


def test_one_replica_may_be_as_idle_as_its_traffic(make_case):
    """A target close to a prompt's own prefill leaves replicas idle; one is still a plan."""
    traffic = poisson(0.05, 40_000.0, seed=4, input_mean=6000.0)
    calm, _, _ = chosen(make_case(traffic, slo_of(("ttft_s", 99.0, 10.0))))
    (window, *_) = calm.confirmed.spans
    alone = alone_s(calm.confirmed.trial, window, calm.case.slo.classes[0])["ttft_s", 99.0]
    tight = slo_of(("ttft_s", 99.0, 1.04 * alone), tensor_parallel_sizes=(1,))
    decision, _, _ = chosen(make_case(traffic, tight))
    assert decision.replicas == 1
