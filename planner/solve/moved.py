"""What would change the answer, asked by replay: one assumption moved, the count found again.

The count is sought as the plan's own was: the fewest replicas at which every target holds, with
headroom, in the windows that decide. What one replica fewer would miss says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.solve.case import Decision
from planner.solve.confirm import Confirmed
from planner.solve.counts import fewest_that_hold
from planner.solve.fleet import exact_replicas, fleet_load
from planner.solve.misses import Limit, as_declared, missed
from planner.solve.plan import Miss, Sensitivity
from planner.solve.sensitivity import KV_MOVE, MOVE
from planner.solve.steps import stretched
from planner.solve.verify import Span, Trial
from planner.spec.slo import Target

Ints = NDArray[np.int64]
Named = tuple[str, Target]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Questions to one configuration in the windows that decide, by replicas for load."""

    trial: Trial
    fleet: float  # load of the whole fleet over the trace's own, headroom included
    spans: tuple[Span, ...]

    def of(self, trial: Trial) -> Asked:
        """Return the same questions for another trial."""
        return replace(self, trial=trial)

    def holds(self, count: int) -> bool:
        """Return whether every declared target holds; asks no more than is needed to know."""
        return self.trial.holds(self.fleet / count, count, self.spans)

    def misses(self, count: int, limit: Limit, *, all_spans: bool = True) -> list[Miss]:
        """Return what does not hold with `count` replicas, furthest above its limit first.

        In every span, or in those that were asked already.
        """
        load = self.fleet / count
        found: list[Miss] = []
        for span in self.spans:
            if all_spans or self.trial.knows(load, count, span):
                verdict = self.trial.probed(load, count, span, to_the_end=True)
                found += missed(verdict, limit, self.trial.requests.origin)
        return sorted(found, key=lambda miss: -miss.value_s / miss.limit_s)

    def fewest(
        self, start: int, limit: Limit | None = None, *, easier: bool = False
    ) -> tuple[int | None, Miss | None]:
        """Return the fewest replicas that hold, None if too many, and what one fewer misses.

        With `limit` the limits are moved; without, they are the declared ones. `easier` says that
        `start` holds because it did so before a move that makes nothing harder.
        """
        if limit is None:
            count, fails = fewest_that_hold(
                lambda n: (easier and n == start) or self.holds(n), start
            )
        else:
            count, fails = fewest_that_hold(lambda n: not self.misses(n, limit), start)
        if not fails:
            return count, None
        return count, self.misses(fails, limit or as_declared, all_spans=limit is not None)[0]


def asked_of(decision: Decision, confirmed: Confirmed) -> Asked:
    """Return the questions to the plan's own configuration."""
    return Asked(
        trial=confirmed.trial,
        fleet=fleet_load(decision.case.needs),
        spans=(*confirmed.spans, *confirmed.near),
    )


def one_fewer(decision: Decision) -> Miss | None:
    """Return what one replica fewer would miss most in the windows that decide.

    None where one replica is the least there can be, where replay has not spoken, and where one
    fewer would hold too (the count came from a capacity rounded up).
    """
    confirmed, count = decision.confirmed, decision.replicas
    if confirmed is None or count == 1:
        return None
    deciding = replace(asked_of(decision, confirmed), spans=confirmed.spans)
    misses = deciding.misses(count - 1, as_declared)
    return misses[0] if misses else None


def replayed_sensitivities(decision: Decision, confirmed: Confirmed) -> tuple[Sensitivity, ...]:
    """Return the plan's count under each moved assumption, every one asked by replay.

    Load and headroom follow from the replayed capacity of one replica by arithmetic; bursts, slower
    and faster steps from the counts that make the plan's band.
    """
    asked = asked_of(decision, confirmed)
    return (
        *_loads(decision),
        *_bursts(decision, confirmed, asked),
        *_step_times(decision, confirmed, asked),
        *_lengths(decision, asked),
        *_session_reuse(decision, asked),
        *_memory(decision, asked),
        *_targets(decision, asked),
    )


def _row(
    decision: Decision,
    assumption: str,
    change: str,
    count: int | None,
    *,
    exact: float | None = None,
    miss: Miss | None = None,
) -> Sensitivity:
    """Return a row; counts are for load, the plan's spares are added."""
    spare = decision.case.slo.spare_replicas
    replicas = None if count is None else count + spare
    return Sensitivity(
        assumption=assumption,
        change=change,
        replicas=replicas,
        gpus=None if replicas is None else replicas * decision.deployment.gpus,
        flips=count != decision.replicas,
        exact=exact,
        miss=miss,
    )


def _loads(decision: Decision) -> Iterator[Sensitivity]:
    """Yield more and less load, and no headroom: arithmetic on the capacity of one replica."""
    needs = decision.case.needs
    exact = exact_replicas(needs, decision.factor)
    moves = [("load", "+20 %", 1.0 + MOVE), ("load", "−20 %", 1.0 - MOVE)]
    if needs.headroom > 0.0:
        moves.append(("headroom", "none", 1.0 - needs.headroom))
    for name, change, factor in moves:
        moved = exact * factor
        count = max(1, int(np.ceil(moved - 1e-9)))
        yield _row(decision, name, change, count, exact=moved)


def _step_times(decision: Decision, confirmed: Confirmed, asked: Asked) -> Iterator[Sensitivity]:
    """Yield every step faster and slower by the calibration's band."""
    band = decision.cost.band
    for sign, factor, count in zip(
        "−+", (1.0 - band, 1.0 + band), confirmed.counts["step_time"], strict=True
    ):
        change = f"{sign}{100 * band:.0f} %"
        if count is None:
            miss = next(each.miss for each in confirmed.unheld if each.doubt == "step_time")
            yield _row(decision, "step_time", change, None, miss=miss)
            continue
        trial = replace(asked.trial, cost=stretched(asked.trial.cost, factor))
        misses = asked.of(trial).misses(count - 1, as_declared) if count > 1 else []
        yield _row(decision, "step_time", change, count, miss=misses[0] if misses else None)


def _bursts(decision: Decision, confirmed: Confirmed, asked: Asked) -> Iterator[Sensitivity]:
    """Yield a sample's bursts read as the service's own, where the trace is laid over itself."""
    counts = confirmed.counts.get("bursts_of_the_sample")
    if counts is None or counts[1] == decision.replicas:
        return
    name, most = "bursts_of_the_sample", counts[1]
    if most is None:
        miss = next((each.miss for each in confirmed.unheld if each.doubt == name), None)
    else:
        misses = asked.of(asked.trial.burstier).misses(most - 1, as_declared)
        miss = misses[0] if misses else None
    yield _row(decision, name, "as the service's own", most, miss=miss)


def _session_reuse(decision: Decision, asked: Asked) -> Iterator[Sensitivity]:
    """Yield every turn finding its session's history cached, where the log does not tell."""
    requests = asked.trial.requests
    told = len(requests.block_ids) or bool(requests.cached_tokens.any())
    if told or not decision.deployment.enable_prefix_caching:
        return
    resent = history_cached(requests)
    if resent.cached_tokens.any():
        count, miss = asked.of(replace(asked.trial, requests=resent)).fewest(
            decision.replicas, easier=True
        )
        yield _row(decision, "session_reuse", "cached", count, miss=miss)


def history_cached(requests: Requests) -> Requests:
    """Return the trace with each turn's prompt cached as far as the turn before it reached.

    A turn whose prompt is shorter than the prompt and answer before it starts anew. At best: the
    router keeps a session on its replica, and nothing is evicted between two turns.
    """
    order = np.argsort(requests.session_id, kind="stable")  # in order of arrival within a session
    session, length = requests.session_id[order], requests.input_tokens[order]
    reached = np.zeros(len(order), np.int64)
    reached[1:] = (length + requests.output_tokens[order])[:-1]
    follows = np.zeros(len(order), np.bool_)
    follows[1:] = (session[1:] == session[:-1]) & (session[1:] >= 0) & (reached[1:] <= length[1:])
    cached = np.zeros(len(order), np.int64)
    cached[order] = np.where(follows, np.minimum(reached, length - 1), 0)
    return replace(requests, cached_tokens=cached)


def _lengths(decision: Decision, asked: Asked) -> Iterator[Sensitivity]:
    """Yield longer and shorter answers and prompts."""
    requests = asked.trial.requests
    for name, scaled in (("output_tokens", longer_answers), ("input_tokens", longer_prompts)):
        for change, factor in (("+20 %", 1.0 + MOVE), ("−20 %", 1.0 - MOVE)):
            trial = replace(asked.trial, requests=scaled(requests, factor))
            count, miss = asked.of(trial).fewest(decision.replicas, easier=factor < 1.0)
            yield _row(decision, name, change, count, miss=miss)


def longer_answers(requests: Requests, factor: float) -> Requests:
    """Return the trace with every answer `factor` as long, at least one token."""
    return replace(requests, output_tokens=_scaled(requests.output_tokens, factor))


def longer_prompts(requests: Requests, factor: float) -> Requests:
    """Return the trace with every prompt `factor` as long, what is cached of it in proportion.

    Block ids stay: what a prompt gains is shared with no other.
    """
    prompts = _scaled(requests.input_tokens, factor)
    cached = np.floor(requests.cached_tokens * factor).astype(np.int64)
    return replace(
        requests, input_tokens=prompts, cached_tokens=np.minimum(cached, np.maximum(0, prompts - 1))
    )


def _scaled(tokens: Ints, factor: float) -> Ints:
    """Return token counts times a factor, to the nearest token; what was there keeps one."""
    scaled: Ints = np.maximum(np.minimum(tokens, 1), np.rint(tokens * factor)).astype(np.int64)
    return scaled


def _memory(decision: Decision, asked: Asked) -> Iterator[Sensitivity]:
    """Yield more and less KV cache."""
    settings = asked.trial.settings
    for change, factor in (("+10 %", 1.0 + KV_MOVE), ("−10 %", 1.0 - KV_MOVE)):
        trial = replace(asked.trial, settings=settings.with_kv_cache(factor))
        count, miss = asked.of(trial).fewest(decision.replicas, easier=factor > 1.0)
        yield _row(decision, "kv_capacity", change, count, miss=miss)


def _targets(decision: Decision, asked: Asked) -> Iterator[Sensitivity]:
    """Yield each target made looser and tighter by a fifth; the replays are the plan's own."""
    for declared in decision.case.slo.classes:
        for target in declared.targets:
            label = f"{target.metric} p{target.percentile:g} target of {declared.name}"
            for change, factor in (("+20 %", 1.0 + MOVE), ("−20 %", 1.0 - MOVE)):
                limit = moved_limit((declared.name, target), factor)
                count, miss = asked.fewest(decision.replicas, limit)
                yield _row(decision, label, change, count, miss=miss)


def moved_limit(which: Named, factor: float) -> Limit:
    """Return limits of which one is moved by a factor."""

    def limit(class_name: str, target: Target) -> float:
        same = (class_name, target) == which
        return target.limit_s * factor if same else target.limit_s

    return limit
