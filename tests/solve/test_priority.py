"""Priority scheduling beside sharing and splitting: where it is cheaper, and where not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from exhaustive import Space, Stream
from solve_cases import slo_of

from planner.sim.replay import replay
from planner.solve.priority import by_priority, ranked
from planner.solve.recommend import chosen
from planner.solve.verify import _judged_classes
from planner.spec.slo import Slo, Target, WorkloadClass

# Short questions behind long jobs that come in bursts and take every slot for half a minute.
QUESTIONS = Stream(
    per_s=6, prompt=300, answer=100, targets=(("ttft_s", 99.0, 1.0), ("tpot_s", 99.0, 0.1))
)
JOBS = Stream(
    per_s=3,
    prompt=1500,
    answer=700,
    sigma=0.4,
    gap_cv=4,
    rate_cv=0.8,
    targets=(("e2e_s", 90.0, 400.0),),
)
SPACE = Space(
    name="questions-behind-jobs",
    seed=31,
    streams=(QUESTIONS, JOBS),
    budgets=(2048,),
    slots=(64,),
    tensor=(1,),
)


@pytest.fixture(scope="module")
def shared(make_case):
    return chosen(make_case(SPACE.requests(), SPACE.slo, *SPACE.gpus))


def held(decision, policy, classes, replicas):
    """Replay the whole trace without the solver: it is one window here."""
    trial = decision.confirmed.trial
    settings = replace(trial.settings, scheduling_policy=policy, enable_prefix_caching=False)
    found = replay(
        decision.case.requests,
        trial.cost,
        settings,
        replicas=replicas,
        seed=decision.case.slo.seed,
        classes=classes,
    )
    return all(target.holds for target in found.targets)


def test_priority_saves_the_replica_that_only_waiting_behind_jobs_needed(shared):
    decision, _, found = shared
    answer = by_priority(decision, found, ask=True)
    assert (answer.classes, answer.declared) == (("c0", "c1"), False)
    assert answer.outcome == "cheaper"
    assert answer.replicas < decision.replicas
    assert answer.gpus == answer.replicas
    price = decision.case.price(decision.case.gpus[0])[0]
    assert answer.usd_per_hour == pytest.approx(answer.gpus * price)
    classes, _ = ranked(decision.case)
    assert held(decision, "priority", classes, answer.replicas)
    assert not held(decision, "fcfs", classes, answer.replicas)


def test_jobs_first_saves_nothing(shared):
    decision, _, found = shared
    first = tuple(
        replace(each, priority=0 if each.name == "c1" else 1) for each in decision.case.slo.classes
    )
    case = replace(decision.case, slo=replace(decision.case.slo, classes=first))
    answer = by_priority(replace(decision, case=case), found, ask=True)
    assert (answer.classes, answer.declared) == (("c1", "c0"), True)
    assert (answer.outcome, answer.deployment, answer.gpus) == ("no_cheaper", None, None)
    assert answer.replays >= 1


def test_nothing_is_replayed_unasked_or_where_throughput_needs_as_many(shared):
    decision, _, found = shared
    before = decision.confirmed.trial.tally.replays
    assert by_priority(decision, found, ask=False).outcome == "not_asked"
    lean = replace(decision, replicas=1)
    assert by_priority(lean, found, ask=True).outcome == "no_cheaper_at_best"
    assert decision.confirmed.trial.tally.replays == before


def test_a_pipeline_is_not_replayed_by_priority(shared):
    decision, _, found = shared
    staged = replace(decision.deployment, pipeline_parallel_size=2)
    candidate = replace(decision.candidate, deployment=staged)
    families = [replace(found[0], candidates=(candidate,))]
    answer = by_priority(replace(decision, candidate=candidate), families, ask=True)
    assert answer.outcome == "not_replayed"


def test_tighter_targets_go_first_where_nothing_is_declared(shared):
    def named(name, *targets):
        made = tuple(Target(metric=m, percentile=99.0, limit_s=x) for m, x in targets)
        return WorkloadClass(name=name, targets=made)

    classes = (
        named("batch", ("e2e_s", 300.0)),
        named("rag", ("ttft_s", 3.0), ("tpot_s", 0.08)),
        named("free"),
        named("chat", ("ttft_s", 1.5), ("tpot_s", 0.05)),
        named("speech", ("tpot_s", 0.02)),
    )
    slo = replace(slo_of(("ttft_s", 99.0, 1.0)), classes=classes)
    found, declared = ranked(replace(shared[0].case, slo=slo))
    order = [each.name for each in sorted(found, key=lambda each: each.priority)]
    assert order == ["chat", "rag", "speech", "batch", "free"]
    assert not declared


def test_a_class_without_a_window_to_judge_keeps_its_priority():
    slo: Slo = SPACE.slo
    classes = (slo.classes[0], replace(slo.classes[1], priority=7))
    kept = _judged_classes(classes, {"c0"}, ("c0", "c1"))
    assert [(each.name, each.priority, len(each.targets)) for each in kept] == [
        ("c0", 0, 2),
        ("c1", 7, 0),
    ]
    assert _judged_classes(classes, {"c0"}, ("c0",)) == [classes[0]]
