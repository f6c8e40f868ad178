"""The answer with its reasons (`schemas/plan.schema.json`). `plan.json` is its only truth.

Every figure that a report shows is a field here; every sentence is the report's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.perf.memory_types import MemoryBudget
from planner.profile.types import TraceProfile
from planner.solve.plan_search import SearchGroup, SearchTotals, Sharing, Variant
from planner.spec.deployment import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of replicas or GPUs with its band."""

    value: int
    low: int
    high: int | None  # None: at that end of the band nothing that was asked holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the plan costs. None everywhere when no price is known."""

    usd_per_gpu_hour: float | None
    price_source: str  # "slo.yaml", or the catalogue's source and date
    usd_per_hour: float | None
    usd_per_month: float | None
    usd_per_million_tokens_mean: float | None  # at mean_tokens_per_s; None: trace below a minute
    usd_per_million_tokens_peak: float | None  # at peak_tokens_per_s; None: trace below a window
    mean_tokens_per_s: float | None  # served input + output of the fleet, the trace's mean, grown
    peak_tokens_per_s: float | None  # the same in the busiest evaluation window


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCost:
    """A class's part of the fleet's cost, shared out by the GPU time of its tokens."""

    class_name: str
    gpu_time_share: float
    mean_tokens_per_s: float | None  # served input + output at the trace's mean rate, grown
    usd_per_hour: float | None
    usd_per_million_tokens_mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAtLoad:
    """The fleet's cost at the traffic's own rates. Energy is an estimate: every GPU at its TDP."""

    p95_tokens_per_s: float | None  # served, in the evaluation window at the 95th percentile
    usd_per_million_tokens_p95: float | None
    usd_per_hour_by_price: Mapping[str, float]  # kind of price -> the whole fleet
    classes: tuple[ClassCost, ...]
    tdp_kw: float | None  # of the fleet's GPUs; hosts, cooling and idle hours left out
    kwh_per_million_tokens_mean: float | None  # at that power and the mean rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """One target of one class: what was promised and what is expected.

    `worst_s` is the percentile in the worst evaluation window, `low_s`/`high_s` its band,
    `whole_s` over the whole trace; `attainment` the share of requests within `limit_s` in the worst
    window. `margin` is (limit − worst)/limit. None: nothing to measure (no such requests).
    """

    class_name: str
    metric: str
    percentile: float
    limit_s: float
    worst_s: float
    low_s: float
    high_s: float
    high_by_doubt_s: Mapping[
        str, float
    ]  # the value under each doubt that raises it: "step_time", …
    whole_s: float
    attainment: float
    margin: float
    worst_window: str  # "Tue 2023-11-14 10:00" or "hour 3 (10800–14400 s)"
    requests_in_window: int
    merged_windows: int  # > 1: windows were merged to reach enough requests
    holds: bool
    binds: bool  # the tightest of all


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPoint:
    """One point of the chunk figure at the plan's concurrency and context."""

    chunk_tokens: int
    step_s: float  # calibrated
    compute_s: float  # theory: 2P(C + D)/F
    floor_s: float  # theory: (weights + D·S·k)/W
    ttft_s: float  # ⌈T/C⌉ steps for a mean prompt of the binding class, the last with the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkAnalysis:
    """Why this token budget. C counts prefill tokens: max_num_batched_tokens = C + D·(γ + 1)."""

    decode_seqs: float  # D, mean in the binding window per replica
    context_tokens: float  # S, mean over decodes as measured
    ridge_flops_per_byte: float
    balance_chunk_tokens: float  # C* of the theory, ideal roofline, this D and S
    balance_flag_tokens: float  # C* + D
    memory_floor_s: float
    floor_weights_s: float
    floor_kv_s: float
    low_tokens: int | None  # smallest chunk that meets every TTFT target (and is stable)
    high_tokens: int | None  # largest chunk that meets every TPOT/ITL target
    low_from: str  # "chat ttft_s p99 ≤ 2 s" or "stability"
    high_from: str
    chosen_tokens: int
    chosen_flag_tokens: int
    default_flag_tokens: int  # the engine's own default on this GPU
    matters: bool  # False: chunking changes nothing for this traffic
    reason: str  # id of the finding that says why it does or does not matter
    prompt_tokens: float  # mean prompt of the binding class, for the curve's TTFT
    curve: tuple[ChunkPoint, ...]
    missed_below_flag_tokens: int | None  # nearest smaller budget known to miss at this count
    missed_above_flag_tokens: int | None  # the same of the larger ones; None: none is known
    # What C* is computed from; plans of older versions lack it.
    token_flops: float | None = None  # φ, 2P over active parameters
    weight_bytes: float | None = None  # w as stored, all GPUs of the replica together
    kv_read_bytes_per_token: float | None = None  # k at S: window layers read their window alone


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCell:
    """One pair of max_num_batched_tokens and max_num_seqs at the load the plan must carry.

    `holds` and the latencies are the equations', `replay_holds` the replay's where it was asked.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    holds: bool
    stable: bool  # the load stays below what every step full would carry
    ttft_s: float  # at the percentile of `BatchMap.ttft_target`; not finite: none, or out of reach
    gap_s: float  # TPOT or ITL at that of `BatchMap.gap_target`
    limit: str  # the target missed most, or nearest to being missed; "stability"
    replicas: int | None  # that this pair needs in the window that decides, spares included
    replay_holds: bool | None
    replay_margin: float | None  # load above what is needed that replay found to hold
    replay_missed: float | None  # the least above it at which replay found a target missed


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMap:
    """Budget × slots around the chosen pair, in the window that decides."""

    load: float  # of each replica over the trace's own, headroom included, as equations see it
    ttft_target: str  # "" where no class has one
    gap_target: str
    cells: tuple[BatchCell, ...]
    bounds: Mapping[str, str]  # side -> what ends the feasible region there, "" nothing does


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """What one max_num_batched_tokens can sustain in the surge, beside its decodes."""

    max_num_batched_tokens: int
    step_s: float
    decode_seqs: float
    prompt_tokens_per_s: float  # per replica
    low_prompt_tokens_per_s: float
    high_prompt_tokens_per_s: float
    utilization_mean: float  # fleet demand / fleet supply at this replica count
    utilization_busiest_10min: float
    utilization_busiest_minute: float
    fast_end: str  # what the upper end assumes: "step_time" (the band), "launch_hidden"
    verdict: str  # "holds", "knife_edge" (overload inside the band), "overloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surge:
    """Prompt-token demand at three time scales against what each budget sustains."""

    mean_prompt_tokens_per_s: float  # after sample rate and growth, whole fleet
    busiest_10min_prompt_tokens_per_s: float
    busiest_minute_prompt_tokens_per_s: float
    busiest_10min_start_s: float
    busiest_minute_start_s: float
    decides: bool  # the surge, not the mean, sets the replica count
    mean_requests_per_s: float  # after sample rate and growth, whole fleet
    even_capacity_requests_per_s: float  # of one replica if the same requests came evenly
    replicas_for_mean: int
    replicas: int
    band_share: float  # of the step time: the lower end of every budget, and most upper ends
    launch_s: float  # host time to launch a prefill step, fitted; hidden at the other upper ends
    budgets: tuple[BudgetRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPeak:
    """When a replica's KV cache is fullest in the replay of the plan's load, and of what.

    The class is the one whose requests hold most of the prompt tokens there.
    """

    at: str  # "Tue 2026-10-13 10:03:20" or "36200 s after the first arrival"
    running: int  # requests on that replica
    class_name: str
    class_requests: int  # of those running
    class_input_tokens: float  # their mean prompt
    class_share: float  # of the prompt tokens of all that run
    high_use_share: float  # of the blocks: from here on an operator is told
    high_s: float  # longest time without a break that a replica holds so many
    preemptions: int  # in the replay of the whole trace
    preemptions_10min: int  # most in any ten minutes, all simulated replicas together


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPreemption:
    """Between which multiples of the plan's load the replay preempts first.

    A replay in which the cache is full to within a percent counts as one that preempts. The plan's
    own load is asked over the whole trace, larger ones in the window that holds the peak.
    """

    window: str  # that holds the peak; replayed with its lead-in
    without_factor: float  # the largest multiple asked that goes without; 0: not even the plan's
    with_factor: float | None  # the least multiple asked with a preemption; None: none has one
    peak_use_share: float  # of the KV blocks, at the plan's load, in the whole trace or the window
    peak: KvPeak | None = None  # plans of older versions lack it


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """KV capacity against what the traffic holds."""

    memory: MemoryBudget
    mean_context_tokens: float  # H: held by a running request, over the whole trace
    p95_context_tokens: float
    resident_at_mean: float  # kv_tokens / mean context
    resident_at_p95: float
    window: str  # the worst one: in which most is held
    held_tokens_worst: float  # mean KV tokens held in the worst window, per replica
    kv_use_worst: float  # held / capacity
    preemption_probability: float  # that a step in the worst window overflows
    preemption_load_factor: float  # load multiple at which the mean use reaches capacity
    preemption_cost_s: float  # recompute of a mean victim
    first_preemption: FirstPreemption | None  # by replay; None where there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTerms:
    """From demand to replicas, term by term, in the window that decides."""

    window: str
    peak_requests_per_s: float  # of that window, after the sample rate
    growth: float
    headroom: float
    capacity_requests_per_s: float  # of one replica within every target, same mix
    exact: float  # demand · (1 + growth) / ((1 − headroom) · capacity)
    for_load: int  # ceil(exact)
    spare: int
    band_terms: Mapping[str, float]  # name -> relative half-width, e.g. "step_time": 0.09
    band_counts: Mapping[str, tuple[int | None, ...]]  # name -> least and most for the load
    mean_input_tokens: float  # of the requests in that window, all classes
    mean_output_tokens: float
    one_fewer: Miss | None  # what one replica fewer would miss most; None: nothing, or not asked
    unheld: tuple[Unheld, ...] = ()  # doubts under which no count of this configuration holds


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTestRow:
    """One figure that the load test prints, as replayed. NaN: no replay stands behind the plan.

    `expected_s` is the mean of the runs, `low_s` the least with steps at the fast end of their
    band, `high_s` the most with steps at the slow end. A run above `refuted_above_s` refutes the
    plan: the slow end, or the limit where that is less and expected to be kept.
    """

    metric: str
    percentile: float | None  # None: the mean
    expected_s: float
    low_s: float
    high_s: float
    limit_s: float | None  # the tightest that a class sets for it; None: none does
    limit_class: str
    refuted_above_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """One replica under constant load: prompts of equal length at Poisson arrivals."""

    requests_per_s: float  # as the command states it
    input_tokens: int  # less what the plan takes from the prefix cache
    output_tokens: int
    prompts: int
    runs: int  # replays at each step time, each with arrivals of its own; 0: no replay
    band_share: float  # of the step time
    rows: tuple[LoadTestRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another deployment and the reason it lost."""

    deployment: Deployment
    replicas: int | None  # None: no replica count holds
    gpus: int | None
    usd_per_hour: float | None
    reason: str  # "costs_more", "violates", "overloads", "does_not_fit", "engine_default", …
    detail: str  # what exactly: "chat tpot_s p99 0.071 > 0.050"
    label: str  # "same settings, TP2", "engine defaults", "next GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A target that does not hold: the percentile in its worst window, and its limit."""

    class_name: str
    metric: str
    percentile: float
    value_s: float  # NaN: unbounded, requests are turned away or never finish
    limit_s: float
    window: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheld:
    """A doubt under which no number of the plan's replicas holds, and what would hold then.

    `miss` is what `tried` replicas still miss most. `deployment`, `replicas` and `gpus` are the
    cheapest configuration under that doubt, spares included; None: none that was asked holds.
    """

    doubt: str  # "step_time", "draw", "bursts_of_the_sample"
    step_factor: float  # every step's time over the expected one
    tried: int
    miss: Miss
    deployment: Deployment | None
    replicas: int | None
    gpus: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """One assumption, moved: what the count becomes.

    `exact` is the count for the load before rounding, where it follows from the plan's own by
    arithmetic; `miss` what one replica fewer would miss, where that was asked.
    """

    assumption: str  # "output_tokens", "step_time", "tpot_s target of chat", "growth", …
    change: str  # "+20 %"
    replicas: int | None
    gpus: int | None
    flips: bool
    exact: float | None = None
    miss: Miss | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that must be said, as an id and its numbers; the report holds the sentence."""

    id: str
    values: Mapping[str, float | int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How sure a number is: measured elsewhere, calibrated model, datasheet or closed form."""

    quantity: str
    grade: str  # "measured", "calibrated", "datasheet", "closed_form", "replayed", "declared"
    source: str
    band: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Enough to reproduce the plan byte for byte. No clock, no absolute path."""

    command: str
    planner_version: str
    inputs_sha256: Mapping[str, str]  # name as typed -> hash
    catalogue_sha256: Mapping[str, str]  # "gpus/h100-sxm" -> hash
    library_versions: Mapping[str, str]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSummary:
    """How the files were read and what was set aside."""

    files: tuple[str, ...]
    format: str
    format_reason: str
    time_unit: str
    assumptions: tuple[str, ...]
    rows_read: int
    rows_used: int
    rejected: tuple[Mapping[str, object], ...]  # {"reason", "count", "example", "effect"}
    flagged: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A recommendation: the decision, why, and how sure."""

    schema_version: str
    name: str  # "week42-h100"
    gpu_name: str
    model_name: str
    deployment: Deployment
    launch: tuple[str, ...]  # argv whose flags are exactly the deployment's
    replicas: Count
    gpus: Count
    cost: Cost
    cost_at_load: CostAtLoad
    verified: str  # "closed_form" or "replay"
    latency: tuple[LatencyRow, ...]
    chunk: ChunkAnalysis
    batch_map: BatchMap | None
    surge: Surge
    concurrency: Concurrency
    replica_terms: ReplicaTerms
    load_test: LoadTest | None = None  # plans of older versions lack it
    ingest: IngestSummary
    profile: TraceProfile
    slo: Mapping[str, object]  # every declared and defaulted value, as in slo.yaml
    defaulted: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    sensitivity: tuple[Sensitivity, ...]
    findings: tuple[Finding, ...]
    search: tuple[SearchGroup, ...]
    search_totals: SearchTotals
    sharing: Sharing | None
    variants: tuple[Variant, ...] = ()  # settings beside the plan, one moved at a time
    evidence: tuple[Evidence, ...]
    not_modelled: tuple[str, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
