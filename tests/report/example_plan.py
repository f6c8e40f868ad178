"""A plan as the solver would hand it over: 8B on H100, three classes, a 1-in-200 sample of a week.

The physics is textbook arithmetic so that figures and sentences belong together; the traffic is
invented.
"""

from __future__ import annotations

import math
from dataclasses import replace

from planner.perf.memory_types import MemoryBudget
from planner.profile.types import (
    ArrivalStats,
    ClassProfile,
    Histogram2d,
    LengthStats,
    ReuseStats,
    SessionStats,
    TraceProfile,
    Window,
)
from planner.solve.plan import (
    Alternative,
    BatchCell,
    BatchMap,
    BudgetRow,
    ChunkAnalysis,
    ChunkPoint,
    ClassCost,
    Concurrency,
    Cost,
    CostAtLoad,
    Count,
    Evidence,
    Finding,
    IngestSummary,
    LatencyRow,
    LoadTest,
    LoadTestRow,
    Miss,
    Plan,
    Provenance,
    ReplicaTerms,
    Sensitivity,
    Surge,
)
from planner.solve.plan_search import (
    Pool,
    Priority,
    SearchGroup,
    SearchTotals,
    Sharing,
    Split,
    Variant,
)
from planner.spec.deployment import Deployment

P = 8.03e9  # parameters
F = 989.4e12  # dense bf16 FLOP/s
W = 3.35e12  # byte/s
K = 131_072  # KV bytes a token
D, S = 61.0, 1870.0
RIDGE = F / W
WEIGHTS_S = 2 * P / W
KV_S = D * S * K / W
FLOOR_S = WEIGHTS_S + KV_S
BALANCE = RIDGE * (1 + D * S * K / (2 * P)) - D
GIB = 2**30


def step_s(chunk: float) -> float:
    """A stand-in for the calibrated step: both terms slower than the roofline, never free."""
    return ((FLOOR_S / 0.82) ** 4 + (2 * P * (chunk + D) / (0.68 * F)) ** 4) ** 0.25 + 0.9e-3


def curve() -> tuple[ChunkPoint, ...]:
    chunks = [64, 128, 256, 509, 768, 1024, 1475, 2048, 3072, 4096, 6144, 8131]
    return tuple(
        ChunkPoint(
            chunk_tokens=c,
            step_s=step_s(c),
            compute_s=2 * P * (c + D) / F,
            floor_s=FLOOR_S,
            ttft_s=math.ceil(1480 / c) * step_s(c),
        )
        for c in chunks
    )


def lengths(mean: float, top: float) -> LengthStats:
    return LengthStats(
        mean=mean,
        std=0.9 * mean,
        p50=0.7 * mean,
        p90=2.1 * mean,
        p95=2.6 * mean,
        p99=0.8 * top,
        max=top,
    )


def arrivals(per_s: float) -> ArrivalStats:
    return ArrivalStats(
        mean_per_s=per_s,
        peak_to_mean_1s=22.5,
        peak_to_mean_60s=5.1,
        peak_to_mean_3600s=2.31,
        peak_per_minute=round(per_s * 60 * 5.1),
        peak_per_hour=round(per_s * 3600 * 2.31),
        gap_cv=1.42,
        zero_gap_share=0.001,
        gamma_shape=0.61,
        weibull_shape=0.74,
        ks_exponential=0.094,
        ks_gamma=0.031,
        ks_weibull=0.027,
        fano_1s=1.2,
        fano_60s=9.4,
        time_quantum_s=0.001,
    )


def week(per_hour: float, phase: float, night: float) -> tuple[float, ...]:
    """A diurnal shape: hours of the week from Monday 00:00."""
    shape = []
    for hour in range(168):
        day = 1.0 if hour // 24 < 5 else 0.55
        sun = 0.5 * (1 - math.cos(2 * math.pi * ((hour - phase) % 24) / 24))
        shape.append(round(per_hour * day * (night + (1 - night) * sun * 1.9), 3))
    return tuple(shape)


def workload(name: str, requests: int, mean_in: float, mean_out: float, **kwargs) -> ClassProfile:
    return ClassProfile(
        name=name,
        requests=requests,
        share=requests / 214_568,
        input_tokens=lengths(mean_in, 16_000),
        output_tokens=lengths(mean_out, 4_000),
        arrivals=arrivals(requests / 604_000),
        pearson=0.21,
        spearman=0.26,
        joint=Histogram2d(
            input_edges=(0, 1024, 16384), output_edges=(0, 512, 4096), counts=((3, 4), (5, 6))
        ),
        hour_of_week=kwargs.pop("hours", week(requests / 168, 3, 0.15)),
        reuse=kwargs.pop("reuse", None),
        sessions=kwargs.pop("sessions", None),
    )


def profile() -> TraceProfile:
    chat = workload(
        "chat",
        150_200,
        1480,
        390,
        sessions=SessionStats(
            sessions=61_400,
            turns_per_session_mean=2.45,
            turns_per_session_p95=7,
            think_time_p50_s=24.0,
            think_time_p95_s=190.0,
        ),
    )
    code = workload("code", 49_100, 2900, 120, hours=week(49_100 / 168, 5, 0.05))
    batch = workload("batch", 15_268, 900, 700, hours=week(15_268 / 168, 15, 0.4))
    total = workload(
        "total",
        214_568,
        1764,
        350,
        reuse=ReuseStats(
            block_tokens=512,
            blocks=288_500,
            unique_blocks=182_790,
            requests_with_hit_share=0.41,
            hit_share_by_cache_blocks={"inf": 0.22, "1000": 0.04, "5000": 0.11},
        ),
    )
    return TraceProfile(
        requests=214_568,
        span_s=604_790.0,
        origin="2026-10-12T00:00:00+00:00",
        total=total,
        classes=(chat, code, batch),
        hardest_windows=(
            Window(
                label="busiest hour by prompt tokens",
                start_s=122_400.0,
                duration_s=3600.0,
                requests=3_190,
                requests_per_s=0.886,
                input_tokens_per_s=1_563.0,
                output_tokens_per_s=310.0,
            ),
            Window(
                label="busiest hour by output tokens",
                start_s=126_000.0,
                duration_s=3600.0,
                requests=3_050,
                requests_per_s=0.847,
                input_tokens_per_s=1_402.0,
                output_tokens_per_s=341.0,
            ),
        ),
    )


def row(
    name: str, metric: str, percentile: float, limit: float, worst: float, **kwargs
) -> LatencyRow:
    values = {
        "class_name": name,
        "metric": metric,
        "percentile": percentile,
        "limit_s": limit,
        "worst_s": worst,
        "low_s": 0.92 * worst,
        "high_s": 1.3 * worst,
        "high_by_doubt_s": {"step_time": 1.09 * worst, "bursts_of_the_sample": 1.3 * worst},
        "whole_s": 0.7 * worst,
        "attainment": 0.9931,
        "margin": (limit - worst) / limit,
        "worst_window": "Tue 2026-10-13 10:00",
        "requests_in_window": 2_233,
        "merged_windows": 1,
        "holds": worst <= limit,
        "binds": False,
    }
    return LatencyRow(**{**values, **kwargs})


DEPLOYMENT = Deployment(
    gpu="h100-sxm",
    model="meta-llama/Llama-3.1-8B-Instruct",
    engine="vllm",
    engine_version="0.33",
    max_num_batched_tokens=1536,
    max_num_seqs=256,
    max_model_len=131_072,
    gpu_memory_utilization=0.92,
)

VISIBLE = 79.19 * GIB
WEIGHTS = 14.96 * GIB
ACTIVATION, NON_TORCH, GRAPHS = 1.9 * GIB, 0.25 * GIB, 0.9 * GIB
KV_BYTES = VISIBLE * 0.92 - WEIGHTS - ACTIVATION - NON_TORCH - GRAPHS
BLOCKS = int(KV_BYTES // (16 * K))


def expected(metric, percentile, expected_s, limit_s=None, limit_class="") -> LoadTestRow:
    """A figure of the load test: steps ±9 % move it twice as far."""
    high = 1.18 * expected_s
    return LoadTestRow(
        metric=metric,
        percentile=percentile,
        expected_s=expected_s,
        low_s=0.84 * expected_s,
        high_s=high,
        limit_s=limit_s,
        limit_class=limit_class,
        refuted_above_s=high if limit_s is None else min(high, limit_s),
    )


def constant_load() -> LoadTest:
    """The load test at the capacity of one replica."""
    return LoadTest(
        requests_per_s=32.1,
        input_tokens=round(1_712 * (1 - 0.11)),
        output_tokens=248,
        prompts=7_500,
        runs=2,
        band_share=0.09,
        rows=(
            expected("ttft_s", None, 0.21),
            expected("tpot_s", None, 0.021),
            expected("ttft_s", 99.0, 0.62, 2.0, "chat"),
            expected("tpot_s", 99.0, 0.047, 0.05, "chat"),
            expected("e2e_s", 99.0, 8.2, 30.0, "batch"),
        ),
    )


def target(metric: str, percentile: float, limit_s: float) -> dict[str, object]:
    return {"metric": metric, "percentile": percentile, "limit_s": limit_s}


SLO = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "engine": "vllm",
    "engine_version": "",
    "classes": (
        {
            "name": "chat",
            "match": {"class": "chat"},
            "targets": (target("ttft_s", 99.0, 2.0), target("tpot_s", 99.0, 0.05)),
        },
        {
            "name": "code",
            "match": {"class": "code", "input_tokens": {"min": 1, "max": 16000}},
            "targets": (target("ttft_s", 95.0, 4.0), target("e2e_s", 95.0, 20.0)),
        },
        {"name": "batch", "match": {}, "targets": (target("e2e_s", 90.0, 120.0),)},
    ),
    "sample_rate": 0.005,
    "growth": 0.1,
    "headroom": 0.1,
    "spare_replicas": 0,
    "evaluation_window_s": 3600.0,
    "min_requests_per_window": 1000,
    "weight_dtypes": (),
    "gpu_memory_utilization": None,
    "prefix_caching": True,
    "prices_usd_per_hour": {},
    "current_replicas": 9,
    "current_gpus": 9,
    "seed": 42,
}


MEAN, TEN_MINUTES, MINUTE = 136_000.0, 214_000.0, 251_000.0  # prompt tokens/s of the fleet


def budgets() -> tuple[BudgetRow, ...]:
    rows = []
    for flag in (256, 512, 1024, 1536, 2048, 8192):
        step = step_s(flag - D)
        supply = (flag - D) / step
        low, high = supply / 1.09, supply / 0.91
        verdict = (
            "overloads"
            if 7 * high < TEN_MINUTES
            else "holds"
            if 7 * low >= TEN_MINUTES
            else "knife_edge"
        )
        rows.append(
            BudgetRow(
                max_num_batched_tokens=flag,
                step_s=step,
                decode_seqs=D,
                prompt_tokens_per_s=supply,
                low_prompt_tokens_per_s=low,
                high_prompt_tokens_per_s=high,
                utilization_mean=MEAN / (7 * supply),
                utilization_busiest_10min=TEN_MINUTES / (7 * supply),
                utilization_busiest_minute=MINUTE / (7 * supply),
                fast_end="launch_hidden" if flag == 512 else "step_time",
                verdict=verdict,
            )
        )
    return tuple(rows)


def alternatives() -> tuple[Alternative, ...]:
    def other(label: str, reason: str, detail: str, replicas: int | None, **changes) -> Alternative:
        deployment = replace(DEPLOYMENT, **changes)
        gpus = None if replicas is None else replicas * deployment.gpus
        return Alternative(
            deployment=deployment,
            replicas=replicas,
            gpus=gpus,
            usd_per_hour=None if gpus is None else 2.01 * gpus,
            reason=reason,
            detail=detail,
            label=label,
        )

    return (
        other(
            "tp 2, fp8 weights",
            "costs_more",
            "8 GPUs against 7",
            4,
            tensor_parallel_size=2,
            weight_dtype="fp8",
        ),
        other(
            "engine defaults",
            "violates",
            "chat tpot_s p99 0.071 > 0.050",
            7,
            max_num_batched_tokens=8192,
            max_num_seqs=1024,
        ),
        other(
            "next budget down",
            "violates",
            "chat ttft_s p99 2.31 > 2.00",
            7,
            max_num_batched_tokens=1024,
        ),
        other(
            "max_num_batched_tokens 512",
            "overloads",
            "busiest minute 118 % of supply",
            None,
            max_num_batched_tokens=512,
        ),
    )


def missed(metric: str, value_s: float, limit_s: float) -> Miss:
    return Miss(
        class_name="chat",
        metric=metric,
        percentile=99.0,
        value_s=value_s,
        limit_s=limit_s,
        window="Tue 2026-10-13 10:00–11:00",
    )


def moved(
    assumption: str,
    change: str,
    replicas: int | None,
    *,
    exact: float | None = None,
    miss: Miss | None = None,
) -> Sensitivity:
    return Sensitivity(
        assumption=assumption,
        change=change,
        replicas=replicas,
        gpus=replicas,
        flips=replicas != 7,
        exact=exact,
        miss=miss,
    )


def group(
    size: int,
    outcome: str,
    gpus: int | None,
    *,
    weight_dtype: str = "bf16",
    dropped: int = 0,
) -> SearchGroup:
    return SearchGroup(
        gpu="h100-sxm",
        tensor_parallel_size=size,
        pipeline_parallel_size=1,
        weight_dtype=weight_dtype,
        kv_cache_dtype="bf16",
        candidates=128,
        dropped=dropped,
        replayed=0 if outcome in ("does_not_fit", "no_cheaper_at_best") else 16,
        least_gpus=gpus,
        least_usd_per_hour=None if gpus is None else 2.01 * gpus,
        outcome=outcome,
    )


def pool(name: str, least: float, replicas: int | None = None) -> Pool:
    return Pool(
        classes=(name,),
        deployment=None if replicas is None else DEPLOYMENT,
        replicas=replicas,
        gpus=replicas,
        usd_per_hour=None if replicas is None else 2.01 * replicas,
        least_gpus=None,
        least_usd_per_hour=least,
    )


def cell(budget: int, seqs: int, ttft_s: float, gap_s: float, **changes: object) -> BatchCell:
    base = BatchCell(
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        holds=ttft_s <= 2.0 and gap_s <= 0.05,
        stable=True,
        ttft_s=ttft_s,
        gap_s=gap_s,
        limit="chat ttft_s p99 ≤ 2 s" if ttft_s > 2.0 else "chat tpot_s p99 ≤ 0.05 s",
        replicas=7,
        replay_holds=None,
        replay_margin=None,
        replay_missed=None,
    )
    return replace(base, **changes)


def batch_map() -> BatchMap:
    return BatchMap(
        load=3.67,
        ttft_target="chat ttft_s p99 ≤ 2 s",
        gap_target="chat tpot_s p99 ≤ 0.05 s",
        cells=(
            cell(512, 128, math.nan, 0.021, stable=False, limit="stability", replicas=19),
            cell(512, 256, math.nan, 0.021, stable=False, limit="stability", replicas=19),
            cell(1536, 128, 1.31, 0.041, replay_holds=True),
            cell(1536, 256, 1.22, 0.0468, replay_holds=True, replay_margin=0.15, replay_missed=0.4),
            cell(8192, 128, 0.92, 0.071, replicas=11),
            cell(8192, 256, 0.88, 0.075, replicas=None, replay_holds=False, replay_missed=0.0),
        ),
        bounds={
            "smaller_budget": "stability at 512/256",
            "larger_budget": "chat tpot_s p99 ≤ 0.05 s at 8192/256",
            "fewer_seqs": "",
            "more_seqs": "",
        },
    )


def class_cost(name: str, share: float) -> ClassCost:
    return ClassCost(
        class_name=name,
        gpu_time_share=share,
        mean_tokens_per_s=80_000.0,
        usd_per_hour=share * 14.07,
        usd_per_million_tokens_mean=share * 14.07 * 1e6 / 3600 / 80_000.0,
    )


def variants() -> tuple[Variant, ...]:
    moved = (
        ("routing", "least_loaded", "random", "saves", "", 6, 4),
        ("routing", "cache_aware", "random", "cannot_win", "no_prefix_ids", None, 0),
        ("gpu_memory_utilization", "0.97", "0.92", "no_fewer", "", None, 1),
    )
    return tuple(
        Variant(
            dimension=dimension,
            value=value,
            planned=planned,
            outcome=outcome,
            reason=reason,
            replicas=replicas,
            gpus=replicas,
            usd_per_hour=None if replicas is None else replicas * 2.01,
            replays=replays,
        )
        for dimension, value, planned, outcome, reason, replicas, replays in moved
    )


def sharing() -> Sharing:
    return Sharing(
        shared_gpus=7,
        shared_usd_per_hour=14.07,
        priority=Priority(
            classes=("chat", "rag"),
            declared=False,
            outcome="cheaper",
            deployment=DEPLOYMENT,
            replicas=6,
            gpus=6,
            usd_per_hour=12.06,
            replays=9,
        ),
        splits=(
            Split(
                pools=(pool("chat", 6.03, 4), pool("rag", 4.02, 4)),
                outcome="no_cheaper",
                gpus=8,
                usd_per_hour=16.08,
                least_gpus=None,
                least_usd_per_hour=10.05,
            ),
        ),
        cheapest=None,
    )


def findings() -> tuple[Finding, ...]:
    supply = {row.max_num_batched_tokens: row for row in budgets()}

    def say(name: str, /, **values: float | int | str) -> Finding:
        return Finding(id=name, values=values)

    return (
        say(
            "prefix_cache_assumption",
            reusable_share=0.22,
            used_share=0.11,
            replicas=7,
        ),
        say(
            "target_nearest",
            class_name="chat",
            metric="tpot_s",
            percentile=99.0,
            worst_s=0.0468,
            limit_s=0.05,
            window="Tue 2026-10-13 10:00",
        ),
        say(
            "decode_memory_bound",
            context_tokens=S,
            threshold_tokens=2 * P / (K * RIDGE),
            decode_seqs=D,
        ),
        say(
            "above_balance_point",
            chosen_tokens=1475,
            balance_tokens=BALANCE,
            step_ratio=step_s(1475) / step_s(BALANCE),
        ),
        say(
            "chunking_matters",
            one_step_share=0.71,
            unchunked_gap_s=step_s(16_000),
            chosen_gap_s=step_s(1475),
            longest_prompt_tokens=16_000,
        ),
        say("budget_counts_tokens", chosen_tokens=1475, decode_seqs=D, flag_tokens=1536),
        say(
            "context_used_vs_2048",
            context_tokens=S,
            balance_tokens=BALANCE,
            balance_at_2048_tokens=RIDGE * (1 + D * 2048 * K / (2 * P)) - D,
        ),
        say(
            "best_measured_chunk_below_analytic",
            balance_tokens=BALANCE,
            largest_graph_tokens=512,
        ),
        say(
            "sampler_sets_activation",
            activation_bytes=ACTIVATION,
            max_num_seqs=256,
            kv_tokens=16 * BLOCKS,
            kv_tokens_at_half_seqs=456_000,
            source_at_half_seqs="forward pass at max_num_batched_tokens",
        ),
        say(
            "utilization_fixes_slots",
            gpu_memory_utilization=0.92,
            kv_tokens=16 * BLOCKS,
            resident_at_mean=16 * BLOCKS / 1870,
            max_num_seqs=256,
        ),
        say(
            "preemption_far",
            load_factor=1.73,
            kv_use_share=0.33,
            window="Tue 2026-10-13 11:00–12:00",
            probability_share=2e-7,
            recompute_s=0.061,
        ),
        say(
            "surge_does_not_decide",
            mean_prompt_tokens_per_s=MEAN,
            busiest_10min_prompt_tokens_per_s=TEN_MINUTES,
            busiest_minute_prompt_tokens_per_s=MINUTE,
        ),
        say(
            "budget_overloads",
            max_num_batched_tokens=256,
            supply_tokens_per_s=supply[256].prompt_tokens_per_s,
            demand_tokens_per_s=TEN_MINUTES / 7,
        ),
        say(
            "knife_edge",
            max_num_batched_tokens=512,
            step_s=supply[512].step_s,
            supply_tokens_per_s=supply[512].prompt_tokens_per_s,
            low_supply_tokens_per_s=supply[512].low_prompt_tokens_per_s,
            high_supply_tokens_per_s=supply[512].high_prompt_tokens_per_s,
            demand_tokens_per_s=TEN_MINUTES / 7,
            fast_end="launch_hidden",
            launch_s=0.0074,
        ),
        say(
            "mixed_class_interference",
            long_class="code",
            short_class="chat",
            long_prompt_tokens=16_000,
            gap_s=step_s(1475),
        ),
        say("few_requests_windows_merged", class_name="code", requests=1_012, windows=2),
        say(
            "sampling_thins_bursts",
            sample_rate=0.005,
            load_factor=1 / (7 * 0.005),
            raw_10min_tokens_per_s=260_000.0,
            raw_minute_tokens_per_s=410_000.0,
            raw_10min_use_share=0.62,
            raw_minute_use_share=0.97,
        ),
        say(
            "one_replica_lost",
            class_name="chat",
            metric="tpot_s",
            percentile=99.0,
            limit_s=0.05,
            attainment_share=0.981,
            replicas=7,
        ),
        say(
            "load_test_decides",
            low_tokens=890,
            chosen_tokens=1475,
            high_tokens=1620,
            half_tokens=737,
        ),
        say("replay_pending"),
        say("published_gains_are_evidence"),
    )


def example(**changes: object) -> Plan:
    """Return the example plan with some parts replaced."""
    plan = Plan(
        schema_version="1",
        name="week42-h100",
        gpu_name="H100-80GB-SXM",
        model_name="meta-llama/Llama-3.1-8B-Instruct",
        deployment=DEPLOYMENT,
        launch=(
            "vllm",
            "serve",
            "meta-llama/Llama-3.1-8B-Instruct",
            "--dtype",
            "bfloat16",
            "--kv-cache-dtype",
            "auto",
            "--tensor-parallel-size",
            "1",
            "--pipeline-parallel-size",
            "1",
            "--max-num-batched-tokens",
            "1536",
            "--max-num-seqs",
            "256",
            "--max-model-len",
            "131072",
            "--gpu-memory-utilization",
            "0.92",
            "--enable-prefix-caching",
            "--async-scheduling",
        ),
        replicas=Count(value=7, low=6, high=8),
        gpus=Count(value=7, low=6, high=8),
        cost=Cost(
            usd_per_gpu_hour=2.01,
            price_source="catalogue, typical, 2026-10-02",
            usd_per_hour=14.07,
            usd_per_month=14.07 * 730,
            usd_per_million_tokens_mean=0.024,
            usd_per_million_tokens_peak=0.0105,
            mean_tokens_per_s=14.07 / 0.024 * 1e6 / 3600,
            peak_tokens_per_s=14.07 / 0.0105 * 1e6 / 3600,
        ),
        cost_at_load=CostAtLoad(
            p95_tokens_per_s=320_000.0,
            usd_per_million_tokens_p95=14.07 * 1e6 / 3600 / 320_000.0,
            usd_per_hour_by_price={"low": 10.5, "typical": 14.07},
            classes=(class_cost("chat", 0.7), class_cost("code", 0.3)),
            tdp_kw=4.9,
            kwh_per_million_tokens_mean=0.0083,
        ),
        verified="closed_form",
        latency=(
            row("chat", "ttft_s", 99, 2.0, 1.42),
            row("chat", "tpot_s", 99, 0.05, 0.0468, binds=True),
            row("code", "ttft_s", 95, 4.0, 2.2, requests_in_window=1_012, merged_windows=2),
            row("code", "e2e_s", 95, 20.0, 9.3, requests_in_window=1_012, merged_windows=2),
            row("batch", "e2e_s", 90, 120.0, 38.0, worst_window="Wed 2026-10-14 21:00"),
        ),
        batch_map=batch_map(),
        chunk=ChunkAnalysis(
            decode_seqs=D,
            context_tokens=S,
            ridge_flops_per_byte=RIDGE,
            balance_chunk_tokens=BALANCE,
            balance_flag_tokens=BALANCE + D,
            memory_floor_s=FLOOR_S,
            floor_weights_s=WEIGHTS_S,
            floor_kv_s=KV_S,
            low_tokens=890,
            high_tokens=1_620,
            low_from="chat ttft_s p99 ≤ 2 s",
            high_from="chat tpot_s p99 ≤ 0.05 s",
            chosen_tokens=1_475,
            chosen_flag_tokens=1_536,
            default_flag_tokens=8_192,
            matters=True,
            reason="above_balance_point",
            prompt_tokens=1_600.0,
            curve=curve(),
            missed_below_flag_tokens=None,
            missed_above_flag_tokens=None,
        ),
        surge=Surge(
            mean_prompt_tokens_per_s=MEAN,
            busiest_10min_prompt_tokens_per_s=TEN_MINUTES,
            busiest_minute_prompt_tokens_per_s=MINUTE,
            busiest_10min_start_s=122_700.0,
            busiest_minute_start_s=123_060.0,
            decides=False,
            mean_requests_per_s=79.8,
            even_capacity_requests_per_s=36.0,
            replicas_for_mean=3,
            replicas=7,
            band_share=0.09,
            launch_s=0.0074,
            budgets=budgets(),
        ),
        concurrency=Concurrency(
            memory=MemoryBudget(
                visible_bytes=VISIBLE,
                visible_known=True,
                gpu_memory_utilization=0.92,
                weights_bytes=WEIGHTS,
                activation_bytes=ACTIVATION,
                activation_source="sampler at max_num_seqs",
                non_torch_bytes=NON_TORCH,
                graphs_bytes=GRAPHS,
                graphs_in_budget=True,
                kv_bytes=KV_BYTES,
                kv_bytes_per_token=float(K),
                block_tokens=16,
                num_blocks=BLOCKS,
                kv_tokens=16 * BLOCKS,
            ),
            mean_context_tokens=1_870.0,
            p95_context_tokens=3_900.0,
            resident_at_mean=16 * BLOCKS / 1870,
            resident_at_p95=16 * BLOCKS / 3900,
            window="Tue 2026-10-13 11:00–12:00",
            held_tokens_worst=D * S * 1.3,
            kv_use_worst=D * S * 1.3 / (16 * BLOCKS),
            preemption_probability=2e-7,
            preemption_load_factor=1.73,
            preemption_cost_s=0.061,
            first_preemption=None,
        ),
        replica_terms=ReplicaTerms(
            window="Tue 2026-10-13 10:00–11:00",
            peak_requests_per_s=177.2,
            growth=0.1,
            headroom=0.1,
            capacity_requests_per_s=32.1,
            exact=177.2 * 1.1 / (0.9 * 32.1),
            for_load=7,
            spare=0,
            band_terms={"step_time": 1 / 7, "context": 1 / 7},
            band_counts={"step_time": (6, 8), "context": (7, 8)},
            mean_input_tokens=1_712.0,
            mean_output_tokens=248.0,
            one_fewer=missed("ttft_s", 1.7, 1.5),
        ),
        load_test=constant_load(),
        ingest=IngestSummary(
            files=("traces/week42.parquet",),
            format="canonical",
            format_reason="columns arrival_s, input_tokens, output_tokens, class",
            time_unit="s",
            assumptions=("times without a zone are UTC",),
            rows_read=214_880,
            rows_used=214_568,
            rejected=(
                {
                    "reason": "output_tokens is zero",
                    "count": 312,
                    "example": "week42.parquet row 4411: 2026-10-12T03:11:09, in 1200, out 0",
                    "effect": "left out of rates and lengths",
                },
            ),
            flagged=(
                {
                    "reason": "identical neighbour",
                    "count": 12,
                    "example": "row 99",
                    "effect": "kept",
                },
            ),
        ),
        profile=profile(),
        slo=SLO,
        defaulted=(
            "engine.name",
            "engine.version",
            "evaluation_window_s",
            "min_requests_per_window",
            "headroom",
            "weight_dtypes",
            "gpu_memory_utilization",
            "prices_usd_per_hour",
            "seed",
            "spare_replicas",
        ),
        alternatives=alternatives(),
        sensitivity=(
            moved("load", "+20 %", 9, exact=1.2 * 177.2 * 1.1 / (0.9 * 32.1)),
            moved("output_tokens", "+20 %", 8, miss=missed("tpot_s", 0.0521, 0.05)),
            moved("output_tokens", "−20 %", 6, miss=missed("ttft_s", 2.11, 2.0)),
            moved("step_time", "+9 %", 8, miss=missed("tpot_s", 0.0533, 0.05)),
            moved("headroom", "none", 7, exact=6.07),
            moved("tpot_s p99 target of chat", "−20 %", None),
        ),
        findings=findings(),
        search=(
            group(1, "chosen", 5),
            group(1, "misses_where_cheaper", 4, weight_dtype="fp8"),
            group(2, "no_cheaper_at_best", 8, dropped=96),
            group(8, "does_not_fit", None, dropped=128),
        ),
        search_totals=SearchTotals(
            enumerated=512,
            fit=288,
            could_be_cheaper=256,
            replayed=32,
            replays=611,
            stopped_early=214,
            requests=31_400_000,
            compared=2,
            ruled_out=1,
        ),
        sharing=sharing(),
        variants=variants(),
        evidence=(
            Evidence(
                quantity="step time",
                grade="calibrated",
                source="operator measurements of H100 SXM",
                band=0.09,
            ),
            Evidence(
                quantity="latency percentiles",
                grade="closed_form",
                source="queueing approximation",
                band=None,
            ),
            Evidence(
                quantity="visible memory", grade="measured", source="driver reports", band=0.0
            ),
        ),
        not_modelled=("network and tokenizer time", "image inputs"),
        warnings=(),
        provenance=Provenance(
            command="planner recommend --trace traces/week42.parquet --gpu h100 --slo slo.yaml",
            planner_version="0.1.0",
            inputs_sha256={"slo.yaml": "a" * 64, "traces/week42.parquet": "b" * 64},
            catalogue_sha256={
                "gpus/h100-sxm": "c" * 64,
                "models/meta-llama/Llama-3.1-8B-Instruct": "d" * 64,
            },
            library_versions={"numpy": "2.4.6", "scipy": "1.17.1"},
            seed=42,
        ),
    )
    return replace(plan, **changes)
