"""Settings that the search leaves as they are, compared at the plan: routing, prefix cache, memory.

One setting is moved at a time and the count sought again by replay in the windows that decide.
What cannot save a replica is told apart before any replay: where throughput alone needs as many,
where the trace shows no reuse, where the KV cache never fills.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.errors import InputError
from planner.perf.startable import highest_utilization
from planner.sim.blocks import has_ids
from planner.sim.pipes import is_stepped
from planner.sim.refusals import refuse
from planner.sim.routing import ROUTINGS
from planner.sim.settings import SchedulerSettings
from planner.solve.candidates import BUDGETS, Candidate, sized
from planner.solve.capacity import throughput_bound
from planner.solve.case import Decision
from planner.solve.confirm import Confirmed
from planner.solve.counts import fewest_that_hold
from planner.solve.fleet import fleet_load, for_load
from planner.solve.plan_search import Variant
from planner.solve.search import configs_of
from planner.solve.verify import Span, Trial, trial_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One setting at another value than the plan's."""

    dimension: str
    value: str
    planned: str


def variants(decision: Decision) -> tuple[Variant, ...]:
    """Return what other settings would need at the plan's configuration; () without a replay."""
    if decision.confirmed is None:
        return ()
    return (
        *_routings(decision, decision.confirmed),
        *_prefix_caching(decision, decision.confirmed),
        *_memory(decision, decision.confirmed),
        *_attention(decision, decision.confirmed),
    )


def _routings(decision: Decision, confirmed: Confirmed) -> Iterator[Variant]:
    """Yield every other way to send requests to the same replicas."""
    trial = confirmed.trial
    for routing in ROUTINGS:
        if routing == trial.routing:
            continue
        moved = Moved(dimension="routing", value=routing, planned=trial.routing)
        reason = "one_replica" if decision.replicas == 1 else ""
        if not reason and routing == "cache_aware":
            reason = _no_prefixes(trial)
        if not reason and routing != "cache_aware":
            reason = _no_fewer_at_best(decision, decision.candidate)
        if reason:
            yield _unasked(moved, "cannot_win", reason)
        elif not _replays(trial, routing):
            yield _unasked(moved, "not_replayed", "not_combined")
        else:
            yield fewer(decision, confirmed, replace(trial, routing=routing), moved)


def _no_prefixes(trial: Trial) -> str:
    """Return why a router finds no prefix cache to look into; "" where it finds one."""
    if not has_ids(trial.requests):
        return "no_prefix_ids"
    return "" if trial.settings.enable_prefix_caching else "prefix_cache_off"


def _replays(trial: Trial, routing: str) -> bool:
    """Whether replay knows a routing together with the rest of the plan."""
    stepped = is_stepped(trial.cost, trial.settings)
    try:
        refuse(trial.requests, trial.settings, routing, stepped=stepped, follows_ends=False)
    except InputError:
        return False
    return True


def _prefix_caching(decision: Decision, confirmed: Confirmed) -> Iterator[Variant]:
    """Yield the prefix cache switched the other way, where the engine can and the trace tells."""
    on = decision.deployment.enable_prefix_caching
    moved = Moved(
        dimension="prefix_caching", value="off" if on else "on", planned="on" if on else "off"
    )
    if decision.case.profile.total.reuse is None:
        # A cache that nothing is found in changes no step: its blocks are given up when needed.
        yield _unasked(moved, "cannot_win", "no_prefix_ids")
    elif on:
        yield more(decision, confirmed, uncached(confirmed.trial), moved)
    elif decision.replicas == 1:
        yield _unasked(moved, "cannot_win", "one_replica")
    else:
        trial = _cached(decision, confirmed.trial)
        if trial is not None:
            yield fewer(decision, confirmed, trial, moved)


def uncached(trial: Trial) -> Trial:
    """Return a trial whose replicas compute every prompt in full."""
    requests = replace(trial.requests, cached_tokens=0 * trial.requests.cached_tokens)
    settings = replace(trial.settings, enable_prefix_caching=False)
    routing = "least_loaded" if trial.routing == "cache_aware" else trial.routing
    return replace(trial, requests=requests, settings=settings, routing=routing)


def _cached(decision: Decision, trial: Trial) -> Trial | None:
    """Return the plan's trial with the engine's prefix cache switched on."""
    case = replace(decision.case, slo=replace(decision.case.slo, prefix_caching=True))
    deployment = replace(decision.deployment, enable_prefix_caching=True)
    candidate = replace(decision.candidate, deployment=deployment)
    cached = case.cached(float(candidate.memory.kv_tokens), decision.load)
    demand = decision.demand
    return trial_of(
        case, demand.traffic, demand.windows, candidate, trial.cost, cached, tally=trial.tally
    )


def _memory(decision: Decision, confirmed: Confirmed) -> Iterator[Variant]:
    """Yield the largest share of memory with which a replica still starts."""
    case, deployment = decision.case, decision.deployment
    share = highest_utilization(decision.candidate.memory, case.engine)
    if share is None:
        return
    planned = f"{deployment.gpu_memory_utilization:g}"
    moved = Moved(dimension="gpu_memory_utilization", value=f"{share:g}", planned=planned)
    gpu = case.gpu(deployment.gpu)
    wider = replace(deployment, gpu_memory_utilization=share)
    candidate = sized(case.model, gpu, case.engine, wider)
    reason = _kv_cannot_help(decision, candidate)
    if reason:
        yield _unasked(moved, "cannot_win", reason)
        return
    settings = SchedulerSettings.of(candidate.deployment, case.engine, candidate.memory)
    trial = replace(confirmed.trial, candidate=candidate, settings=settings)
    yield fewer(decision, confirmed, trial, moved)


def _attention(decision: Decision, confirmed: Confirmed) -> Iterator[Variant]:
    """Yield data-parallel attention on the same GPUs, whole experts spread over them.

    Only where tensor parallelism copies the KV cache to every GPU (MLA) and there are experts to
    share: each rank then holds the cache of its own requests. Ranks are replayed as replicas that
    step by themselves; the lockstep of their experts is not.
    """
    case, deployment = decision.case, decision.deployment
    ranks = deployment.tensor_parallel_size
    whole = case.model.moe is not None and case.model.moe.num_experts % ranks == 0
    flagged = {"data_parallel_size", "expert_parallel"} <= set(case.engine.flags)
    alone = deployment.pipeline_parallel_size == 1 and deployment.data_parallel_size == 1
    if case.model.mla is None or not (whole and flagged and alone) or ranks == 1:
        return
    moved = Moved(dimension="attention", value=f"DP{ranks}, EP", planned=f"TP{ranks}")
    budget = max(BUDGETS[0], deployment.max_num_batched_tokens // ranks)  # the replica's stays
    spread = replace(
        deployment,
        tensor_parallel_size=1,
        data_parallel_size=ranks,
        expert_parallel=True,
        max_num_batched_tokens=budget,
        max_num_seqs=min(deployment.max_num_seqs, budget),
    )
    candidate = sized(case.model, case.gpu(deployment.gpu), case.engine, spread)
    if not candidate.memory.fits or _of_one_rank(candidate) < case.longest_tokens:
        yield _unasked(moved, "cannot_win", "does_not_fit")
    elif decision.replicas == 1:
        yield _unasked(moved, "cannot_win", "one_replica")
    else:
        settings = SchedulerSettings.of(candidate.deployment, case.engine, candidate.memory)
        cost = case.cost(candidate.deployment)
        trial = replace(confirmed.trial, candidate=candidate, settings=settings, cost=cost)
        yield fewer(decision, confirmed, trial, moved, ranks=ranks)


def _of_one_rank(candidate: Candidate) -> float:
    """Return the tokens that the KV cache of one data-parallel rank holds."""
    return candidate.memory.kv_tokens / candidate.deployment.data_parallel_size


def _kv_cannot_help(decision: Decision, candidate: Candidate) -> str:
    """Return why more KV cache saves no replica; "" where only a replay can tell."""
    mine = decision.candidate
    if candidate.memory.kv_tokens <= mine.memory.kv_tokens:
        return "already_highest"
    if decision.replicas == 1:
        return "one_replica"
    longest = min(decision.case.longest_tokens, mine.deployment.max_model_len)
    slots = mine.deployment.max_num_seqs * (longest + mine.memory.block_tokens)
    if slots <= mine.memory.kv_tokens and decision.cached <= 0.0:
        return "kv_never_full"
    return _no_fewer_at_best(decision, candidate)


def _no_fewer_at_best(decision: Decision, candidate: Candidate) -> str:
    """Return "throughput" where that alone, latency apart, already needs the plan's replicas.

    Where a prefix cache serves part of the prompts the equations only estimate how much, so they
    rule nothing out.
    """
    if decision.cached > 0.0:
        return ""
    configs = configs_of([candidate])
    bound = min(
        float(throughput_bound(decision.cost, part.stretch, configs)[0]) for part in decision.judged
    )
    count = for_load(decision.case.needs, bound)
    return "throughput" if count is not None and count >= decision.replicas else ""


def fewer(
    decision: Decision, confirmed: Confirmed, trial: Trial, moved: Moved, *, ranks: int = 1
) -> Variant:
    """Return whether the plan's load holds on fewer replicas, and on how many.

    Only that is asked: most settings say no within a part of one replay. Each of `ranks` schedulers
    of a replica takes its part of the load.
    """
    before, count = trial.tally.replays, decision.replicas
    spans = hard_first(decision, confirmed)

    def holds(replicas: int) -> bool:
        schedulers = replicas * ranks
        return trial.holds(fleet_load(decision.case.needs) / schedulers, schedulers, spans)

    if count == 1 or not holds(count - 1):
        return _answered(decision, moved, "no_fewer", None, trial.tally.replays - before)
    found, _ = fewest_that_hold(holds, count - 1)
    return _answered(decision, moved, "saves", found, trial.tally.replays - before)


def more(decision: Decision, confirmed: Confirmed, trial: Trial, moved: Moved) -> Variant:
    """Return how many replicas a setting needs that can only be worse than the plan's."""
    before, count = trial.tally.replays, decision.replicas
    spans = hard_first(decision, confirmed)

    def holds(replicas: int) -> bool:
        return trial.holds(fleet_load(decision.case.needs) / replicas, replicas, spans)

    if holds(count):
        return _answered(decision, moved, "same", count, trial.tally.replays - before)
    found, _ = fewest_that_hold(holds, count + 1)
    outcome = "misses" if found is None else "costs_more"
    return _answered(decision, moved, outcome, found, trial.tally.replays - before)


def hard_first(decision: Decision, confirmed: Confirmed) -> tuple[Span, ...]:
    """Return the windows that decide, first those in which one fewer of the plan's misses."""
    count = decision.replicas - 1
    load = fleet_load(decision.case.needs) / max(1, count)
    trial = confirmed.trial

    def held(span: Span) -> bool:
        return not trial.knows(load, count, span) or trial.probed(load, count, span).holds

    return tuple(sorted((*confirmed.spans, *confirmed.near), key=held))


def _answered(
    decision: Decision, moved: Moved, outcome: str, count: int | None, replays: int
) -> Variant:
    """Return the row of a setting that was replayed; `count` is for the load."""
    case, deployment = decision.case, decision.deployment
    replicas = None if count is None else count + case.slo.spare_replicas
    gpus = None if replicas is None else replicas * deployment.gpus
    price = case.price(case.gpu(deployment.gpu))[0]
    return Variant(
        dimension=moved.dimension,
        value=moved.value,
        planned=moved.planned,
        outcome=outcome,
        reason="",
        replicas=replicas,
        gpus=gpus,
        usd_per_hour=None if gpus is None or price is None else gpus * price,
        replays=replays,
    )


def _unasked(moved: Moved, outcome: str, reason: str) -> Variant:
    return Variant(
        dimension=moved.dimension,
        value=moved.value,
        planned=moved.planned,
        outcome=outcome,
        reason=reason,
        replicas=None,
        gpus=None,
        usd_per_hour=None,
        replays=0,
    )
