"""Priority scheduling on one pool: the third way beside plain sharing and splitting.

Every configuration that throughput does not rule out is asked whether it holds for less when the
engine admits by priority; what holds is then replayed over the whole trace, like a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.errors import InputError
from planner.sim.settings import SchedulerSettings
from planner.solve.candidates import Candidate, Family
from planner.solve.case import Case, Decision
from planner.solve.confirm import ROUNDS, Confirmed, harder_spans
from planner.solve.finalists import Finalist, cheapest_by_replay, replayed_option
from planner.solve.plan_search import Priority
from planner.solve.search import Priced, optimistic_cost, option
from planner.solve.verify import Trial, trial_of
from planner.spec.slo import WorkloadClass

SAME = 1e-9  # of a cost


def by_priority(decision: Decision, found: Sequence[Family], *, ask: bool) -> Priority | None:
    """Return what one pool under priority scheduling would cost; None without a replay.

    Parameters
    ----------
    decision
        The shared plan, first come, first served.
    found
        Everything enumerated for it.
    ask
        Replay it; without, throughput alone speaks.
    """
    confirmed = decision.confirmed
    if confirmed is None:
        return None
    classes, declared = ranked(decision.case)
    order = tuple(each.name for each in sorted(classes, key=lambda each: each.priority))
    case, priced = decision.case, _priced(decision, found)
    least = min(optimistic_cost(each, case.needs, case.by_price) for each in priced)
    outcome = _unasked(decision, confirmed, ask)
    if least >= _expense(decision, decision.replicas) * (1.0 - SAME):
        outcome = "no_cheaper_at_best"
    if outcome:
        return _answer(order, declared, outcome)
    tally = confirmed.trial.tally
    before = tally.replays
    mine = _mine(decision, priced)
    first = Finalist(
        option=option(decision.candidate, mine, decision.factor, case.needs),
        trial=confirmed.trial,
        spare=case.slo.spare_replicas,
    )
    best = _best(decision, confirmed, priced, first, _make_trial(decision, confirmed, classes))
    replays = tally.replays - before
    if best is None:
        return _answer(order, declared, "no_cheaper", replays=replays)
    return _answer(order, declared, "cheaper", replays=replays, best=best, case=case)


def ranked(case: Case) -> tuple[tuple[WorkloadClass, ...], bool]:
    """Return the classes with priorities, and whether slo.yaml declares them.

    Where every class has the same, the tighter targets go first: by the least TTFT limit, then the
    least time per token, then E2E; a class without a target of a kind comes after those with one.
    """
    classes = case.slo.classes
    if len({each.priority for each in classes}) > 1:
        return classes, True
    order = sorted(range(len(classes)), key=lambda i: (_tightness(classes[i]), i))
    place = {which: rank for rank, which in enumerate(order)}
    return tuple(replace(each, priority=place[i]) for i, each in enumerate(classes)), False


def _tightness(declared: WorkloadClass) -> tuple[float, float, float]:
    def least(*metrics: str) -> float:
        limits = (t.limit_s for t in declared.targets if t.metric in metrics)
        return min(limits, default=math.inf)

    return least("ttft_s"), least("tpot_s", "itl_s"), least("e2e_s")


def _unasked(decision: Decision, confirmed: Confirmed, ask: bool) -> str:
    """Return why priority scheduling is not replayed; "" where it is."""
    trial = confirmed.trial
    reuse = decision.case.profile.total.reuse is not None and trial.settings.enable_prefix_caching
    stages = decision.deployment.pipeline_parallel_size > 1
    if reuse or stages or trial.routing == "cache_aware" or _prioritised(trial.settings) is None:
        return "not_replayed"
    return "" if ask else "not_asked"


def _prioritised(settings: SchedulerSettings) -> SchedulerSettings | None:
    """Return the settings under vLLM's priority policy; None where the engine has none."""
    if settings.policy != "vllm_v1":
        return None
    try:
        return settings.under(None, "priority")
    except InputError:
        return None


def _make_trial(
    decision: Decision, confirmed: Confirmed, classes: tuple[WorkloadClass, ...]
) -> Callable[[Priced, Candidate], Trial | None]:
    """Return what builds a candidate's trial under priority scheduling."""
    case, demand, tally = decision.case, decision.demand, confirmed.trial.tally

    def make(priced: Priced, candidate: Candidate) -> Trial | None:
        if candidate.deployment.pipeline_parallel_size > 1:
            return None
        made = trial_of(
            case, demand.traffic, demand.windows, candidate, priced.cost, 0.0, tally=tally
        )
        settings = None if made is None else _prioritised(made.settings)
        if made is None or settings is None:
            return None
        return replace(made, settings=settings, classes=classes)

    return make


def _best(
    decision: Decision,
    confirmed: Confirmed,
    priced: Sequence[Priced],
    first: Finalist,
    make_trial: Callable[[Priced, Candidate], Trial | None],
) -> Finalist | None:
    """Return the cheapest that holds under priority over the whole trace; None: none is cheaper."""
    case, spans = decision.case, confirmed.spans
    found = cheapest_by_replay(case, priced, first, make_trial, spans, guess=decision.replicas)
    if found is first:
        return None
    for _ in range(ROUNDS):
        harder = harder_spans(case, found, spans)
        if not harder:
            break
        spans = (*spans, *harder)
        again = found.option
        found = replayed_option(case, again.priced, found.trial, again.factor, spans)
        if found.option.replicas is None:
            return None
    cheaper = found.option.expense(case.by_price)[0] < first.option.expense(case.by_price)[0]
    return found if cheaper else None


def _priced(decision: Decision, found: Sequence[Family]) -> tuple[Priced, ...]:
    case = decision.case
    return tuple(
        Priced(
            family=family,
            cost=case.cost(family.widest),
            judged=decision.judged,
            usd_per_gpu_hour=case.price(family.gpu)[0],
        )
        for family in found
        if family.candidates and not family.slower_everywhere
    )


def _mine(decision: Decision, priced: Sequence[Priced]) -> Priced:
    return next(each for each in priced if decision.candidate in each.family.candidates)


def _expense(decision: Decision, replicas: int) -> float:
    case = decision.case
    gpus = (replicas + case.slo.spare_replicas) * decision.deployment.gpus
    price = case.price(case.gpu(decision.deployment.gpu))[0] if case.by_price else 1.0
    return gpus * (price or 0.0)


def _answer(
    order: tuple[str, ...],
    declared: bool,
    outcome: str,
    *,
    replays: int = 0,
    best: Finalist | None = None,
    case: Case | None = None,
) -> Priority:
    made = None if best is None else best.option
    priced = made is not None and case is not None and case.by_price
    return Priority(
        classes=order,
        declared=declared,
        outcome=outcome,
        deployment=None if made is None else made.candidate.deployment,
        replicas=None if made is None else made.replicas,
        gpus=None if made is None else made.gpus,
        usd_per_hour=made.expense(True)[0] if made is not None and priced else None,
        replays=replays,
    )
