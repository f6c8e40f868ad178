"""Plans at the edges: what a report must survive without nonsense on the page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from planner.solve.plan import CostAtLoad, Count, Finding, FirstPreemption, KvPeak, Plan
from planner.solve.plan_search import Sharing

HOSTILE = "a|b <img src=x onerror=alert(1)> `c` [d](javascript:e) **f**"
LONG = "a-class-with-<&>\"'-and-more-than-40-characters-in-it"


def no_price(plan: Plan) -> Plan:
    names = ("gpu_hour", "hour", "month", "million_tokens_mean", "million_tokens_peak")
    unknown = {f"usd_per_{name}": None for name in names}
    unknown |= {"mean_tokens_per_s": None, "peak_tokens_per_s": None}
    cost = replace(plan.cost, price_source="", **unknown)
    others = tuple(replace(other, usd_per_hour=None) for other in plan.alternatives)
    search = tuple(replace(group, least_usd_per_hour=None) for group in plan.search)
    return replace(
        plan,
        cost=cost,
        alternatives=others,
        search=search,
        sharing=_unpriced(plan),
        variants=tuple(replace(each, usd_per_hour=None) for each in plan.variants),
        cost_at_load=_at_load(plan),
    )


def _at_load(plan: Plan) -> CostAtLoad:
    unknown = {"usd_per_hour": None, "usd_per_million_tokens_mean": None}
    return replace(
        plan.cost_at_load,
        usd_per_million_tokens_p95=None,
        usd_per_hour_by_price={},
        classes=tuple(replace(each, **unknown) for each in plan.cost_at_load.classes),
    )


def _unpriced(plan: Plan) -> Sharing | None:
    sharing = plan.sharing
    if sharing is None:
        return None
    unknown = {"usd_per_hour": None, "least_usd_per_hour": None}
    splits = tuple(
        replace(
            split,
            least_gpus=5,
            pools=tuple(replace(pool, least_gpus=3, **unknown) for pool in split.pools),
            **unknown,
        )
        for split in sharing.splits
    )
    third = None if sharing.priority is None else replace(sharing.priority, usd_per_hour=None)
    return replace(sharing, shared_usd_per_hour=None, splits=splits, priority=third)


def one_class(plan: Plan) -> Plan:
    only = plan.profile.classes[0]
    return replace(plan, profile=replace(plan.profile, classes=(only,), total=only))


def no_budgets(plan: Plan) -> Plan:
    return replace(plan, surge=replace(plan.surge, budgets=()))


def idle(plan: Plan) -> Plan:
    uses = ("mean", "busiest_10min", "busiest_minute")
    tiny = {f"utilization_{name}": 1e-4 for name in uses}
    budgets = tuple(replace(row, verdict="holds", **tiny) for row in plan.surge.budgets)
    return replace(plan, surge=replace(plan.surge, budgets=budgets))


def surge_decides(plan: Plan) -> Plan:
    budgets = tuple(replace(row, verdict="knife_edge") for row in plan.surge.budgets)
    finding = Finding(
        id="knife_edge",
        values={
            "max_num_batched_tokens": plan.deployment.max_num_batched_tokens,
            "step_s": 0.0376,
            "supply_tokens_per_s": 35_900.0,
            "low_supply_tokens_per_s": 33_000.0,
            "high_supply_tokens_per_s": 39_400.0,
            "demand_tokens_per_s": 35_900.0,
            "fast_end": "step_time",
            "launch_s": 0.0074,
        },
    )
    surge = replace(plan.surge, budgets=budgets, decides=True)
    return replace(plan, surge=surge, findings=(finding,))


def nothing_else(plan: Plan) -> Plan:
    empty: dict[str, tuple[()]] = dict.fromkeys(
        ("alternatives", "sensitivity", "search", "findings", "evidence", "not_modelled"), ()
    )
    return replace(plan, **empty)


def one_gpu_without_dates(plan: Plan) -> Plan:
    one = Count(value=1, low=1, high=1)
    classes = tuple(replace(c, hour_of_week=()) for c in plan.profile.classes)
    profile = replace(plan.profile, origin="", classes=classes)
    terms = replace(plan.replica_terms, exact=0.8, for_load=1, band_counts={"step_time": (1, 1)})
    alone = {"replicas": one, "gpus": one, "variants": ()}  # nothing can be saved
    return replace(plan, profile=profile, replica_terms=terms, **alone)


def chunking_does_not_matter(plan: Plan) -> Plan:
    values = {"one_step_share": 1.0, "chosen_tokens": 1475, "longest_prompt_tokens": 900}
    finding = Finding(id="chunking_does_not_matter", values=values)
    chunk = replace(plan.chunk, matters=False, low_tokens=None, high_tokens=None)
    return replace(plan, chunk=chunk, findings=(finding,))


def empty_interval(plan: Plan) -> Plan:
    return replace(plan, chunk=replace(plan.chunk, low_tokens=2000, high_tokens=900))


def one_point(plan: Plan) -> Plan:
    return replace(plan, chunk=replace(plan.chunk, curve=plan.chunk.curve[:1]))


def no_curve(plan: Plan) -> Plan:
    return replace(plan, chunk=replace(plan.chunk, curve=()))


def no_free_chunk(plan: Plan) -> Plan:
    chunk = replace(plan.chunk, balance_chunk_tokens=-12.0, balance_flag_tokens=49.0)
    return replace(plan, chunk=chunk)


def missed(plan: Plan) -> Plan:
    first, second = plan.latency[:2]
    endless = replace(first, worst_s=math.inf, high_s=math.inf, holds=False, margin=-math.inf)
    unknown = replace(second, worst_s=math.nan, low_s=math.nan, high_s=math.nan, whole_s=math.nan)
    far = replace(first, worst_s=300.0, low_s=200.0, high_s=400.0, holds=False, margin=-149.0)
    return replace(plan, latency=(endless, unknown, far))


def hostile(plan: Plan) -> Plan:
    """Make every string that a log, a file name or slo.yaml can bring as bad as it can be."""
    classes = tuple(replace(c, name=HOSTILE) for c in plan.profile.classes)
    row = {"reason": "x|y", "count": 3, "example": "```\n# head <script>", "effect": "|"}
    return replace(
        plan,
        name="trace <b>|# x",
        profile=replace(plan.profile, classes=classes),
        latency=tuple(
            replace(row, class_name=HOSTILE, worst_window=HOSTILE) for row in plan.latency
        ),
        ingest=replace(
            plan.ingest,
            files=("logs/`rm -rf`|<b>.csv\nsecond",),
            rejected=(row,),
            assumptions=("<i>a</i>|",),
            format_reason="|<u>",
        ),
        slo={**plan.slo, "classes": ({"name": HOSTILE, "targets": (), "match": {HOSTILE: 1}},)},
        launch=(*plan.launch, "```\n<script>alert(1)</script>"),
        warnings=("<script>alert(2)</script>|",),
        not_modelled=("<!-- x",),
        findings=(
            Finding(id="class_without_target", values={"class_name": HOSTILE, "requests": 4}),
        ),
    )


def long_names(plan: Plan) -> Plan:
    named = replace(plan.profile.classes[0], name=LONG)
    profile = replace(plan.profile, classes=(named,) * 8)
    latency = tuple(replace(row, class_name=LONG) for row in plan.latency)
    return replace(plan, profile=profile, latency=latency)


def almost_no_kv(plan: Plan) -> Plan:
    memory = replace(plan.concurrency.memory, kv_bytes=2.0**30, graphs_in_budget=False)
    concurrency = replace(
        plan.concurrency, memory=memory, preemption_probability=0.031, preemption_load_factor=1.02
    )
    return replace(plan, concurrency=concurrency)


def flat_week(plan: Plan) -> Plan:
    flat = replace(plan.profile.classes[0], hour_of_week=(0.0,) * 168)
    return replace(plan, profile=replace(plan.profile, classes=(flat,)))


def big_replica(plan: Plan) -> Plan:
    deployment = replace(
        plan.deployment,
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
        expert_parallel=True,
        num_speculative_tokens=2,
    )
    return replace(plan, deployment=deployment)


def bare_slo(plan: Plan) -> Plan:
    return replace(plan, slo={"model": "m"}, defaulted=())


def peak(preemptions: int = 0) -> KvPeak:
    return KvPeak(
        at="Tue 2026-10-13 11:23:20",
        running=96,
        class_name="code",
        class_requests=31,
        class_input_tokens=4_812.0,
        class_share=0.71,
        high_use_share=0.9,
        high_s=740.0 if preemptions else 0.0,
        preemptions=preemptions,
        preemptions_10min=preemptions // 2,
    )


def first_preemption(without: float, with_one: float | None, use: float, **how) -> FirstPreemption:
    return FirstPreemption(
        window="Tue 2026-10-13 11:00–12:00",
        without_factor=without,
        with_factor=with_one,
        peak_use_share=use,
        peak=peak(**how),
    )


def said_of(first: FirstPreemption, first_limit: str) -> Finding:
    seen = first.peak
    values = {
        "without_factor": first.without_factor,
        "with_factor": first.with_factor,
        "window": first.window,
        "at": seen.at,
        "peak_use_share": first.peak_use_share,
        "running": seen.running,
        "class_name": seen.class_name,
        "class_requests": seen.class_requests,
        "class_input_tokens": seen.class_input_tokens,
        "class_share": seen.class_share,
        "kv_use_share": 0.33,
        "mean_window": "Tue 2026-10-13 10:00–11:00",
        "targets_factor": 1.15,
        "recompute_s": 0.061,
    }
    if first.with_factor is None:
        del values["with_factor"]
        return Finding(id="no_preemption_replayed", values=values)
    return Finding(
        id="first_preemption",
        values=values | {"first_limit": first_limit, "preemptions": seen.preemptions},
    )


def with_first(plan: Plan, first: FirstPreemption, first_limit: str = "latency") -> Plan:
    said = tuple(
        said_of(first, first_limit) if each.id == "preemption_far" else each
        for each in plan.findings
    )
    concurrency = replace(plan.concurrency, first_preemption=first)
    return replace(plan, verified="replay", concurrency=concurrency, findings=said)


def replayed(plan: Plan) -> Plan:
    return with_first(plan, first_preemption(1.54, 1.61, 0.48))


def never_preempts(plan: Plan) -> Plan:
    return with_first(plan, first_preemption(4.0, None, 0.1))


def full_already(plan: Plan) -> Plan:
    return with_first(plan, first_preemption(0.0, 1.0, 0.9961), "kv_cache")


def preempts_already(plan: Plan) -> Plan:
    return with_first(plan, first_preemption(0.0, 1.0, 1.0, preemptions=12), "kv_cache")


def preempts_in_an_older_plan(plan: Plan) -> Plan:
    first = replace(first_preemption(0.0, 1.0, 1.0), peak=None)
    concurrency = replace(plan.concurrency, first_preemption=first)
    return replace(plan, verified="replay", concurrency=concurrency, findings=())


def on_sglang(plan: Plan) -> Plan:
    return replace(plan, deployment=replace(plan.deployment, engine="sglang"))


def unknown_engine(plan: Plan) -> Plan:
    return replace(plan, deployment=replace(plan.deployment, engine="new"))


EDGES: tuple[Callable[[Plan], Plan], ...] = (
    no_price,
    one_class,
    no_budgets,
    idle,
    surge_decides,
    nothing_else,
    one_gpu_without_dates,
    chunking_does_not_matter,
    empty_interval,
    one_point,
    no_curve,
    no_free_chunk,
    missed,
    hostile,
    long_names,
    almost_no_kv,
    flat_week,
    big_replica,
    bare_slo,
    replayed,
    never_preempts,
    full_already,
    preempts_already,
    preempts_in_an_older_plan,
    on_sglang,
    unknown_engine,
)
