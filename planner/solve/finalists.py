"""The cheapest configuration by replay, starting from the one the equations chose.

Every member of every family whose throughput alone does not rule it out is asked one question:
does it hold for fewer dollars than the best so far? Most say no within a fraction of a replay,
because a probe stops when a target is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planner.solve.candidates import Candidate
from planner.solve.case import Case
from planner.solve.fleet import fleet_load, for_load
from planner.solve.search import Option, Priced, changes, optimistic_cost, option
from planner.solve.verify import Span, Trial, carried
from planner.spec.deployment import Deployment

SLOTS = 2  # of a family's max_num_seqs the largest are tried: fewer only lower the capacity
NEAR = 3  # doublings of the budget that are compared
MORE = 8  # counts above the computed one that are tried
MARGINS = (0.05, 0.15, 0.4)  # load above what is needed, to tell equal costs apart
SAME_KV = 1.02  # KV caches that differ by less are one size
USUAL_BUDGET = 2048  # budgets near it are asked first: most answers are there

MakeTrial = Callable[[Priced, Candidate], Trial | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """An option whose capacity was replayed, and the trial that did it."""

    option: Option
    trial: Trial
    spare: int

    @property
    def replicas_for_load(self) -> int:
        """Replicas without spares; 0 where none holds."""
        return 0 if self.option.replicas is None else self.option.replicas - self.spare


def replayed_option(
    case: Case, priced: Priced, trial: Trial, guess: float, spans: Sequence[Span]
) -> Finalist:
    """Return a candidate with the capacity that replay gives it, sought around a guess.

    The count that follows from the capacity is replayed as a fleet of that many; where rounding or
    luck broke a target, the next count is tried.
    """
    needs = case.needs
    factor = carried(trial, guess, fleet_load(needs), spans)
    for _ in range(MORE):
        count = for_load(needs, factor)
        if count is None or trial.holds(fleet_load(needs) / count, count, spans):
            break
        factor = fleet_load(needs) / (count + 1)
    return Finalist(
        option=option(trial.candidate, priced, factor, needs),
        trial=trial,
        spare=needs.spare_replicas,
    )


def cheapest_by_replay(
    case: Case,
    all_priced: Sequence[Priced],
    first: Finalist,
    make_trial: MakeTrial,
    spans: Sequence[Span],
    *,
    guess: int,
) -> Finalist:
    """Return the cheapest finalist.

    Parameters
    ----------
    case
        What is declared.
    all_priced
        Families with prices.
    first
        The equations' choice, replayed.
    make_trial
        Builds a candidate's trial, None where replay does not know it.
    spans
        Stretches to judge.
    guess
        Replicas to try where nothing is known to hold yet.
    """
    best = first
    needs, by_price = case.needs, case.by_price
    queue = sorted((optimistic_cost(p, needs, by_price), i) for i, p in enumerate(all_priced))
    for lower, index in queue:
        priced = all_priced[index]
        refuted: dict[tuple[int, int], int] = {}  # budget and count -> KV tokens of what failed
        for candidate in _worth_trying(priced):
            if lower >= best.option.expense(by_price)[0]:
                break
            count = _affordable(case, priced, candidate, best, guess)
            # With fewer slots and as much KV, what fails with more slots fails as well.
            asked = (candidate.deployment.max_num_batched_tokens, count)
            if candidate.memory.kv_tokens <= SAME_KV * refuted.get(asked, 0):
                continue
            trial = make_trial(priced, candidate) if count >= 1 else None
            if trial is None:
                continue
            load = fleet_load(needs) / count
            if trial.holds(load, count, spans):
                best = replayed_option(case, priced, trial, load, spans)
            else:
                refuted[asked] = candidate.memory.kv_tokens
    return best


def _worth_trying(priced: Priced) -> list[Candidate]:
    """Return a family's members with the most slots, usual budgets and more slots first."""
    members = priced.family.candidates
    slots = sorted({c.deployment.max_num_seqs for c in members})[-SLOTS:]
    some = [c for c in members if c.deployment.max_num_seqs in slots]
    return sorted(
        some,
        key=lambda c: (
            abs(math.log2(c.deployment.max_num_batched_tokens / USUAL_BUDGET)),
            -c.deployment.max_num_seqs,
        ),
    )


def _affordable(
    case: Case, priced: Priced, candidate: Candidate, best: Finalist, guess: int
) -> int:
    """Return the most replicas for load that still cost less than the best so far."""
    expense = best.option.expense(case.by_price)[0]
    if math.isinf(expense):
        return guess
    each = candidate.deployment.gpus
    unit = each * (priced.usd_per_gpu_hour or 0.0) if case.by_price else float(each)
    return math.ceil(expense / unit - 1e-9) - 1 - case.needs.spare_replicas


def best_settings(
    case: Case,
    best: Finalist,
    make_trial: MakeTrial,
    spans: Sequence[Span],
    defaults: Mapping[str, Deployment],
) -> Finalist:
    """Return, among settings of equal cost on the same GPUs, the one to recommend.

    The larger margin wins, in the steps of MARGINS; then fewer changes from the engine's defaults;
    then the smaller budget.
    """
    priced, count = best.option.priced, best.replicas_for_load
    needed = fleet_load(case.needs) / count

    def preferred(candidate: Candidate) -> tuple[int, int, int]:
        deployment = candidate.deployment
        changed = changes(deployment, defaults[deployment.gpu])
        return changed, deployment.max_num_batched_tokens, deployment.max_num_seqs

    chosen, step = None, -1
    for candidate in sorted(_neighbours(best.trial.candidate, priced), key=preferred):
        trial = best.trial if candidate == best.trial.candidate else make_trial(priced, candidate)
        # One that is less preferred must hold at a margin that the one so far does not hold.
        if trial is None or step >= len(MARGINS) or not _holds(trial, needed, step, count, spans):
            continue
        found = _margin_step(trial, needed, count, spans, least=step + 1)
        if found > step:
            chosen, step = trial, found
    if chosen is None or chosen is best.trial:
        return best
    return replayed_option(case, priced, chosen, max(best.option.factor, needed), spans)


def _holds(trial: Trial, needed: float, step: int, count: int, spans: Sequence[Span]) -> bool:
    """Return whether the needed load holds (step −1), or with the margin of a step on top."""
    margin = MARGINS[step] if step >= 0 else 0.0
    return trial.holds(needed * (1.0 + margin), count, spans)


def known_margin(
    trial: Trial, case: Case, count: int, spans: Sequence[Span]
) -> tuple[float | None, float | None]:
    """Return the largest margin that a trial is known to hold and the least it is known to miss.

    Only what it was asked before counts; None: nothing of the kind.
    """
    needed = fleet_load(case.needs) / count
    holds, misses = None, None
    for margin in (0.0, *MARGINS):
        load = needed * (1.0 + margin)
        asked = [span for span in spans if trial.knows(load, count, span)]
        verdicts = [trial.probed(load, count, span).holds for span in asked]
        if not all(verdicts):
            misses = margin if misses is None else misses
        elif len(asked) == len(spans):
            holds = margin
    return holds, misses


def _neighbours(candidate: Candidate, priced: Priced) -> list[Candidate]:
    """Return members with nearby budgets and the same slots, and the one with the next fewer."""
    mine = candidate.deployment
    members = priced.family.candidates
    fewer = [
        c
        for c in members
        if c.deployment.max_num_batched_tokens == mine.max_num_batched_tokens
        and c.deployment.max_num_seqs < mine.max_num_seqs
    ]
    near = [
        c
        for c in members
        if c.deployment.max_num_seqs == mine.max_num_seqs
        and abs(math.log2(c.deployment.max_num_batched_tokens / mine.max_num_batched_tokens))
        <= NEAR
    ]
    return near + fewer[-1:]


def _margin_step(
    trial: Trial, needed: float, count: int, spans: Sequence[Span], *, least: int
) -> int:
    """Return how many of MARGINS above the needed load hold, by halving from `least` upwards."""
    low, high = least, len(MARGINS)
    while low < high:
        middle = (low + high) // 2
        if _holds(trial, needed, middle, count, spans):
            low = middle + 1
        else:
            high = middle
    return low
