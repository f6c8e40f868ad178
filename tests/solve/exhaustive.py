"""Small search spaces whose every member can be replayed at every cheaper count."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from solve_cases import LLAMA_8B, LLAMA_70B

from planner.ingest.requests import Requests
from planner.solve.candidates import Candidate, Family
from planner.solve.case import Case, Decision
from planner.solve.fleet import fleet_load
from planner.solve.verify import WHOLE_REQUESTS, Trial, trial_of
from planner.spec.slo import Slo, Target, WorkloadClass
from planner.synth.generate import class_turns
from planner.synth.recipe import (
    Arrivals,
    ClassRecipe,
    Faults,
    Incident,
    LogNormal,
    Recipe,
    Service,
    Sessions,
)

BUDGETS = (512, 1024, 2048, 4096, 8192)
SLOTS = (32, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One class of a small case: medians of its lengths, its burstiness and its targets."""

    per_s: float
    prompt: float
    answer: float
    targets: tuple[tuple[str, float, float], ...]
    gap_cv: float = 1.0
    rate_cv: float = 0.0
    sigma: float = 0.8
    turns: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A small case: traffic, what may be used, and the seed of the generator."""

    name: str
    seed: int
    streams: tuple[Stream, ...]
    model: str = LLAMA_8B
    gpus: tuple[str, ...] = ("h100",)
    tensor: tuple[int, ...] = (1, 2)
    budgets: tuple[int, ...] = BUDGETS
    slots: tuple[int, ...] = SLOTS
    weights: tuple[str, ...] = ()
    kv: tuple[str, ...] = ()
    minutes: float = 20.0
    surge: float = 1.0  # factor on the rate for four minutes in the middle
    headroom: float = 0.0
    sample_rate: float = 1.0
    spares: int = 0
    prices: tuple[tuple[str, float], ...] = ()

    @property
    def slo(self) -> Slo:
        return Slo(
            model=self.model,
            classes=tuple(
                WorkloadClass(
                    name=f"c{i}",
                    targets=tuple(
                        Target(metric=m, percentile=p, limit_s=x) for m, p, x in stream.targets
                    ),
                )
                for i, stream in enumerate(self.streams)
            ),
            headroom=self.headroom,
            sample_rate=self.sample_rate,
            spare_replicas=self.spares,
            tensor_parallel_sizes=self.tensor,
            max_num_batched_tokens=self.budgets,
            max_num_seqs=self.slots,
            weight_dtypes=self.weights,
            kv_cache_dtypes=self.kv,
            prices_usd_per_hour=dict(self.prices),
            seed=self.seed,
        )

    def requests(self) -> Requests:
        """Return the trace that the generator draws."""
        recipe = self._recipe()
        turns = [class_turns(recipe, item) for item in recipe.classes]
        arrival = np.concatenate([t.arrival_s for t in turns])
        order = np.argsort(arrival, kind="stable")
        zeros = np.zeros(len(arrival), dtype=np.int64)
        owner = np.repeat(np.arange(len(turns)), [len(t.arrival_s) for t in turns])
        return Requests(
            arrival_s=(arrival - arrival.min())[order],
            input_tokens=np.concatenate([t.input_tokens for t in turns])[order].astype(np.int64),
            output_tokens=np.concatenate([t.output_tokens for t in turns])[order].astype(np.int64),
            class_id=owner[order].astype(np.int64),
            class_names=tuple(item.name for item in recipe.classes),
            cached_tokens=zeros,
            session_id=zeros - 1,
        )

    def _recipe(self) -> Recipe:
        middle = 30.0 * self.minutes
        surge = Incident(start_s=middle, duration_s=240.0, rate_factor=self.surge, classes=())
        return Recipe(
            start=datetime(2026, 3, 2, tzinfo=UTC),
            duration_s=60.0 * self.minutes,
            seed=self.seed,
            sample_rate=1.0,
            service=Service(ttft_s=0.5, tpot_s=0.02),
            classes=tuple(_item(f"c{i}", s) for i, s in enumerate(self.streams)),
            incidents=(surge,) if self.surge != 1.0 else (),
            faults=Faults(
                failed_share=0.0, cancelled_share=0.0, unknown_input_share=0.0, duplicate_share=0.0
            ),
        )


def _item(name: str, stream: Stream) -> ClassRecipe:
    return ClassRecipe(
        name=name,
        arrivals=Arrivals(
            requests_per_s=stream.per_s,
            hour_of_day=(1.0,) * 24,
            day_of_week=(1.0,) * 7,
            gap_family="gamma",
            gap_cv=stream.gap_cv,
            rate_cv=stream.rate_cv,
            rate_correlation_s=300.0,
        ),
        sessions=Sessions(
            turns_mean=stream.turns,
            turns_max=8,
            think_s=LogNormal(median=10.0, sigma=0.7, minimum=1.0, maximum=60.0),
            carries_history=stream.turns > 1.0,
            logged=False,
        ),
        fixed_tokens=50,
        turn_tokens=LogNormal(median=stream.prompt, sigma=stream.sigma, minimum=8, maximum=24_000),
        output_tokens=LogNormal(median=stream.answer, sigma=stream.sigma, minimum=2, maximum=4_000),
        length_correlation=0.0,
        context_max_tokens=24_000,
    )


def expense(case: Case, candidate: Candidate, replicas: int) -> float:
    """Return $/h of a fleet, spares included."""
    price = case.price(case.gpu(candidate.deployment.gpu))[0]
    assert price is not None
    return (replicas + case.slo.spare_replicas) * candidate.deployment.gpus * price


def members(found: tuple[Family, ...]) -> Iterator[tuple[Family, Candidate]]:
    """Yield every member that fits, of every family."""
    for family in found:
        for candidate in family.candidates:
            yield family, candidate


def cheaper_that_hold(
    case: Case, decision: Decision, found: tuple[Family, ...]
) -> tuple[list[tuple[Candidate, int]], int]:
    """Return every member and count that is cheaper and holds everywhere, and the replays it took.

    Nothing is pruned: each member is replayed over the whole trace at every count that costs less.
    """
    limit = expense(case, decision.candidate, decision.replicas)
    holding: list[tuple[Candidate, int]] = []
    replays = 0
    costs = {id(family): case.cost(family.widest) for family in found if family.candidates}
    for family, candidate in members(found):
        trial = trial_of(
            case,
            decision.demand.traffic,
            decision.demand.windows,
            candidate,
            costs[id(family)],
            0.0,
        )
        assert trial is not None
        unit = expense(case, candidate, 1) - expense(case, candidate, 0)
        most = math.ceil(limit / unit - 1e-9) - 1 - case.slo.spare_replicas
        for count in range(most, 0, -1):
            replays += 1
            if holds_everywhere(case, trial, count):
                holding.append((candidate, count))
    return holding, replays


def holds_everywhere(case: Case, trial: Trial, count: int) -> bool:
    """Return whether a fleet of `count` keeps every target in every window of the trace.

    Once with the whole trace on all its replicas, and once window by window as probes are, which
    simulate no more replicas than their budget allows.
    """
    load = fleet_load(case.needs) / count
    if not trial.replayed(load, count, budget=WHOLE_REQUESTS, stop_when_lost=True).holds:
        return False
    return trial.holds(load, count, sorted({(w.start_s, w.end_s) for w in trial.windows}))


CHAT = (("ttft_s", 99.0, 1.5), ("tpot_s", 99.0, 0.05))
SPACES = (
    Space(name="chat", seed=1, streams=(Stream(per_s=30, prompt=600, answer=200, targets=CHAT),)),
    Space(
        name="tight-tpot-loose-ttft",
        seed=2,
        streams=(
            Stream(
                per_s=30,
                prompt=800,
                answer=250,
                targets=(("ttft_s", 90.0, 20.0), ("tpot_s", 99.0, 0.018)),
            ),
        ),
    ),
    Space(
        name="tight-itl",
        seed=3,
        streams=(
            Stream(
                per_s=20,
                prompt=1500,
                answer=150,
                targets=(("itl_s", 99.0, 0.04), ("ttft_s", 95.0, 5.0)),
            ),
        ),
    ),
    Space(
        name="batch-only",
        seed=4,
        streams=(Stream(per_s=15, prompt=3000, answer=300, targets=(("e2e_s", 90.0, 120.0),)),),
    ),
    Space(
        name="batch-with-a-surge",
        seed=5,
        surge=4.0,
        streams=(Stream(per_s=10, prompt=2000, answer=300, targets=(("e2e_s", 90.0, 400.0),)),),
    ),
    Space(
        name="long-prompts",
        seed=6,
        streams=(
            Stream(
                per_s=4,
                prompt=8000,
                answer=200,
                sigma=0.5,
                targets=(("ttft_s", 95.0, 3.0), ("tpot_s", 95.0, 0.06)),
            ),
        ),
    ),
    Space(
        name="long-answers",
        seed=7,
        streams=(
            Stream(
                per_s=6,
                prompt=300,
                answer=900,
                targets=(("ttft_s", 99.0, 2.0), ("tpot_s", 99.0, 0.03)),
            ),
        ),
    ),
    Space(
        name="two-classes",
        seed=8,
        streams=(
            Stream(per_s=20, prompt=500, answer=150, targets=CHAT),
            Stream(per_s=2, prompt=6000, answer=300, targets=(("ttft_s", 90.0, 8.0),)),
        ),
    ),
    Space(
        name="bursty",
        seed=9,
        streams=(Stream(per_s=20, prompt=700, answer=200, gap_cv=3.0, rate_cv=0.4, targets=CHAT),),
    ),
    Space(
        name="surge",
        seed=10,
        surge=3.0,
        streams=(Stream(per_s=12, prompt=900, answer=200, targets=CHAT),),
    ),
    Space(
        name="h100-or-l40s",
        seed=11,
        gpus=("h100", "l40s"),
        budgets=(512, 2048, 8192),
        slots=(64, 256),
        streams=(Stream(per_s=20, prompt=600, answer=200, targets=CHAT),),
    ),
    Space(
        name="three-gpus-loose",
        seed=12,
        gpus=("h100", "l40s", "a100"),
        budgets=(512, 2048, 8192),
        slots=(32, 64, 256),
        streams=(
            Stream(
                per_s=15,
                prompt=500,
                answer=300,
                targets=(("ttft_s", 99.0, 4.0), ("tpot_s", 99.0, 0.1)),
            ),
        ),
    ),
    Space(
        name="h100-or-h200",
        seed=13,
        gpus=("h100", "h200"),
        budgets=(1024, 4096),
        streams=(Stream(per_s=25, prompt=2000, answer=400, targets=CHAT),),
    ),
    Space(
        name="dtypes",
        seed=14,
        weights=("bf16", "fp8"),
        kv=("bf16", "fp8"),
        budgets=(1024, 2048, 8192),
        slots=(64, 256),
        streams=(Stream(per_s=30, prompt=900, answer=250, targets=CHAT),),
    ),
    Space(
        name="large-model",
        seed=15,
        model=LLAMA_70B,
        tensor=(2, 4, 8),
        budgets=(512, 2048, 8192),
        slots=(32, 128, 256),
        streams=(
            Stream(
                per_s=5,
                prompt=800,
                answer=200,
                targets=(("ttft_s", 95.0, 3.0), ("tpot_s", 95.0, 0.06)),
            ),
        ),
    ),
    Space(
        name="large-model-tight-tpot",
        seed=16,
        model=LLAMA_70B,
        tensor=(2, 4, 8),
        budgets=(512, 2048, 8192),
        slots=(16, 64, 256),
        streams=(
            Stream(
                per_s=4,
                prompt=500,
                answer=300,
                targets=(("ttft_s", 90.0, 15.0), ("tpot_s", 99.0, 0.03)),
            ),
        ),
    ),
    Space(
        name="small-memory",
        seed=17,
        gpus=("l40s",),
        tensor=(1, 2, 4),
        budgets=(512, 2048, 8192),
        streams=(
            Stream(
                per_s=4,
                prompt=3000,
                answer=500,
                targets=(("ttft_s", 95.0, 5.0), ("tpot_s", 95.0, 0.1)),
            ),
        ),
    ),
    Space(
        name="headroom-and-spare",
        seed=18,
        headroom=0.1,
        spares=1,
        streams=(Stream(per_s=30, prompt=700, answer=150, targets=CHAT),),
    ),
    Space(
        name="sampled",
        seed=19,
        sample_rate=0.25,
        streams=(Stream(per_s=8, prompt=700, answer=150, targets=CHAT),),
    ),
    Space(
        name="priced-against-the-larger",
        seed=20,
        gpus=("h100", "l40s"),
        budgets=(512, 2048, 8192),
        slots=(64, 256),
        prices=(("h100-sxm", 4.0), ("l40s", 0.7)),
        streams=(
            Stream(
                per_s=12,
                prompt=400,
                answer=200,
                targets=(("ttft_s", 99.0, 3.0), ("tpot_s", 99.0, 0.08)),
            ),
        ),
    ),
    Space(
        name="sessions",
        seed=21,
        streams=(Stream(per_s=15, prompt=300, answer=150, turns=4.0, targets=CHAT),),
    ),
    Space(
        name="three-classes",
        seed=22,
        budgets=(512, 2048, 8192),
        streams=(
            Stream(per_s=10, prompt=400, answer=150, targets=CHAT),
            Stream(per_s=3, prompt=3000, answer=200, targets=(("ttft_s", 95.0, 4.0),)),
            Stream(per_s=2, prompt=2000, answer=600, targets=(("e2e_s", 90.0, 120.0),)),
        ),
    ),
    Space(
        name="median-targets",
        seed=23,
        streams=(
            Stream(
                per_s=25,
                prompt=800,
                answer=200,
                targets=(("ttft_s", 50.0, 0.15), ("tpot_s", 50.0, 0.02)),
            ),
        ),
    ),
    Space(
        name="end-to-end-and-tpot",
        seed=24,
        slots=(16, 32, 64, 128, 256),
        streams=(
            Stream(
                per_s=20,
                prompt=1200,
                answer=300,
                targets=(("e2e_s", 95.0, 40.0), ("tpot_s", 95.0, 0.015)),
            ),
        ),
    ),
)
