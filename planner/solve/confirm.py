"""The replay's verdict on what the equations chose, and a better choice where it finds one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.sim.replay import Replay
from planner.solve.candidates import Candidate, Family, default_deployment
from planner.solve.capacity import capacity_factors
from planner.solve.case import Case, Decision
from planner.solve.decide import check_practical
from planner.solve.demand import Demand, in_detail, with_spans
from planner.solve.doubts import Asking, doubts
from planner.solve.finalists import (
    Finalist,
    best_settings,
    cheapest_by_replay,
    known_margin,
    replayed_option,
)
from planner.solve.fleet import fleet_load, replica_factor
from planner.solve.infeasible import TargetsError
from planner.solve.plan import Unheld
from planner.solve.search import Option, Priced, configs_of
from planner.solve.verify import Span, Tally, Trial, trial_of
from planner.spec.deployment import Deployment
from planner.text import counted

Progress = Callable[[str], None]

ROUNDS = 4  # times the whole trace may reveal windows harder than those probed
NEW_SPANS = 2  # windows added at a time
SUSPECTS = 3  # windows that are asked again
NEAR = 0.7  # of a limit: a window that comes nearer may decide once something is moved
NEAR_SPANS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """What replay says about the plan.

    `whole` is the whole trace at the plan's load, `spans` the windows that decide, `near` those
    that hold with little to spare and may decide once something is moved, `asked` the
    configurations that were replayed. `counts` holds the least and most replicas for load under
    each named doubt (None: no count tried holds, `unheld` says what is missed), `margins` the load
    above what the plan needs that a configuration is known to hold and to miss; `screen_ratio` is
    the replayed capacity over the equations'.
    """

    trial: Trial
    spans: tuple[Span, ...]
    near: tuple[Span, ...]
    whole: Replay
    asked: frozenset[Deployment]
    counts: dict[str, tuple[int, int | None]]
    unheld: tuple[Unheld, ...]
    margins: dict[Deployment, tuple[float | None, float | None]]
    screen_ratio: float


def confirm(
    decision: Decision,
    fitting: Sequence[Family],
    progress: Progress,
    note: Callable[[Option], None] = lambda _: None,
) -> tuple[Decision, list[Option]]:
    """Return the decision that replay supports, and the options it replayed.

    The equations' choice is replayed in the windows that bind; every configuration that could be
    cheaper is asked by replay; the winner is replayed over the whole trace, and windows in which it
    fails join the probes until none does. Where replay does not know the engine or the layout, the
    equations' decision stands as it is. `note` is told the best option as often as it changes.

    Raises
    ------
    TargetsError
        No load that the equations allow survives the replay, or only one that leaves the
        replicas idle.
    """
    case = decision.case
    all_priced = _priced(decision, fitting)

    trials: dict[Deployment, Trial | None] = {}  # a trial remembers what it was asked
    tally = Tally()

    def trial(priced: Priced, candidate: Candidate) -> Trial | None:
        if candidate.deployment not in trials:
            trials[candidate.deployment] = _trial(decision, priced, candidate, tally)
        return trials[candidate.deployment]

    mine = next(p for p in all_priced if decision.candidate in p.family.candidates)
    chosen = trial(mine, decision.candidate)
    if chosen is None:
        return decision, []
    spans = tuple(decision.demand.spans)
    first = best = replayed_option(case, mine, chosen, decision.factor, spans)
    note(best.option)
    stale = True  # the count changed since everything cheaper was asked
    for _ in range(ROUNDS):
        if stale:
            progress("replaying the finalists")
            found = cheapest_by_replay(
                case, all_priced, best, trial, spans, guess=decision.replicas
            )
            if found.option.replicas is None:
                raise _nothing_survives(decision)
            best = best_settings(case, found, trial, spans, _defaults(case, fitting))
            note(best.option)
        progress("replaying the whole trace")
        harder = harder_spans(case, best, spans)
        if not harder:
            break
        spans = (*spans, *harder)
        last = best
        best = replayed_option(case, last.option.priced, last.trial, last.option.factor, spans)
        stale = best.option.replicas != last.option.replicas
        note(best.option)
    made = {each: trial for each, trial in trials.items() if trial is not None}
    asking = Asking(
        case=case, best=best, all_priced=all_priced, make_trial=trial, spans=tuple(spans)
    )
    decided = _decided(decision, asking, made)
    check_practical(decided, best.option)
    return decided, [first.option, best.option]


def _priced(decision: Decision, fitting: Sequence[Family]) -> tuple[Priced, ...]:
    case = decision.case
    return tuple(
        Priced(
            family=family,
            cost=case.cost(family.widest),
            judged=decision.demand.judged,
            usd_per_gpu_hour=case.price(family.gpu)[0],
        )
        for family in fitting
    )


def _trial(decision: Decision, priced: Priced, candidate: Candidate, tally: Tally) -> Trial | None:
    case, demand = decision.case, decision.demand
    cached = _cached(decision, candidate)
    return trial_of(
        case, demand.traffic, demand.windows, candidate, priced.cost, cached, tally=tally
    )


def _cached(decision: Decision, candidate: Candidate) -> float:
    return decision.case.cached(float(candidate.memory.kv_tokens), decision.load)


def _defaults(case: Case, fitting: Sequence[Family]) -> dict[str, Deployment]:
    return {
        f.gpu.id: default_deployment(case.model, f.gpu, case.engine, f.candidates[0].deployment)
        for f in fitting
    }


def harder_spans(case: Case, best: Finalist, spans: Sequence[Span]) -> list[Span]:
    """Return windows not probed yet in which a finalist misses a target, the worst first.

    The whole trace is replayed on few replicas, so a window that fails there is asked again on
    more of them: what only the luck of two replicas broke is not a harder window.
    """
    count = best.replicas_for_load
    load = fleet_load(case.needs) / count
    whole = best.trial.scouted(load, count)
    missed: dict[Span, float] = {}
    for result in whole.targets:
        allowed = 1.0 - result.target.percentile / 100.0
        for window in result.windows:
            span = (window.start_s, window.end_s)
            if not window.holds and span not in spans:
                missed[span] = max(missed.get(span, 0.0), (1.0 - window.attainment) / allowed)
    worst = sorted(missed, key=lambda span: -missed[span])[:SUSPECTS]
    return [span for span in worst if not best.trial.holds(load, count, [span])][:NEW_SPANS]


def near_spans(case: Case, best: Finalist, whole: Replay, spans: Sequence[Span]) -> list[Span]:
    """Return windows that hold with little to spare at the plan's load, the nearest first.

    They do not decide the count, but may once an assumption is moved. Each target names the two in
    which it is worst in the replay of the whole trace; those are asked again on more replicas.
    """
    count, trial = best.replicas_for_load, best.trial
    planned, needed = replica_factor(case.needs, count), fleet_load(case.needs) / count
    suspects: set[Span] = set()
    for result in whole.targets:
        worst = sorted(result.windows, key=lambda window: -window.value_s)[:2]
        near = (w for w in worst if w.value_s > NEAR * result.target.limit_s)
        suspects |= {(window.start_s, window.end_s) for window in near}
    found: dict[Span, float] = {}
    for span in sorted(suspects - set(spans)):
        verdict = trial.probed(planned, count, span, to_the_end=True)
        found[span] = max(
            (w.value_s / each.target.limit_s for each in verdict.targets for w in each.windows),
            default=0.0,
        )
    nearest = sorted(found, key=lambda span: -found[span])[:NEAR_SPANS]
    return [s for s in nearest if found[s] > NEAR and trial.holds(needed, count, [s])]


def _nothing_survives(decision: Decision) -> TargetsError:
    deployment = decision.deployment
    return TargetsError(
        f"the equations would allow {counted(decision.replicas, 'replica')} of TP"
        f"{deployment.tensor_parallel_size} on {deployment.gpu}, but the replay of the trace breaks"
        " a target at every load near that",
        nearest="Relax the target nearest to its limit on an idle replica, or try another GPU.",
    )


def _decided(decision: Decision, asking: Asking, asked: Mapping[Deployment, Trial]) -> Decision:
    """Return the decision for the winner, with everything the plan needs to explain it."""
    case, spans = decision.case, asking.spans
    count = asking.best.replicas_for_load
    load = replica_factor(case.needs, count)
    whole = asking.best.trial.whole(load, count)
    near = tuple(near_spans(case, asking.best, whole, spans))
    best = _with_near(case, asking.best, (*spans, *near)) if near else asking.best
    asking = replace(asking, best=best, spans=(*spans, *near))
    candidate = best.trial.candidate
    cost, cached = case.cost(candidate.deployment), _cached(decision, candidate)
    demand = with_spans(_demand(decision, best, cached), case.slo, spans)
    judged = in_detail(demand, case.slo)
    screen = float(capacity_factors(cost, judged, configs_of([candidate]), mixes=case.mixes)[0])
    ratio = best.option.factor / screen if screen > 0.0 else 1.0
    doubted = doubts(asking, cost.band)
    confirmed = Confirmed(
        trial=best.trial,
        spans=spans,
        near=near,
        whole=whole,
        asked=frozenset(asked),
        counts=doubted.counts,
        unheld=doubted.unheld,
        margins={
            deployment: known_margin(trial, case, count, spans)
            for deployment, trial in asked.items()
            if deployment.gpu == candidate.deployment.gpu
            and deployment.gpus == candidate.deployment.gpus
        },
        screen_ratio=ratio,
    )
    return Decision(
        case=replace(case, correction=ratio),
        candidate=candidate,
        cost=cost,
        demand=demand,
        judged=judged,
        whole=demand.whole,
        cached=cached,
        factor=best.option.factor,
        replicas=count,
        confirmed=confirmed,
    )


def _with_near(case: Case, best: Finalist, spans: Sequence[Span]) -> Finalist:
    """Return the finalist with the capacity that holds in windows that are near their limits too.

    Its count stands: those windows hold at the load that it needs.
    """
    found = replayed_option(case, best.option.priced, best.trial, best.option.factor, spans)
    return found if found.option.replicas == best.option.replicas else best


def _demand(decision: Decision, best: Finalist, cached: float) -> Demand:
    family = best.option.priced.family
    same = decision.candidate in family.candidates
    if same and abs(cached - decision.cached) < 1e-3:
        return decision.demand
    return decision.case.demand(family.served_tokens, cached)
