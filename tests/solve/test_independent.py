"""Plans on real traffic in a simulator that was written apart: the count holds, fewer do not.

The step-by-step reference of `tests/sim` knows nothing of the planner's kernel, its windows or its
percentiles. The count is the bare one: no growth, no headroom, no spares.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from solve_cases import LLAMA_8B, LLAMA_70B, slo_of

from planner.ingest.load import load_trace
from planner.sim.routing import assign
from planner.solve.recommend import chosen
from planner.solve.stretch import LEAD_S

sys.path.append(str(Path(__file__).parents[1] / "sim"))

from reference_vllm_v1 import Engine, Job

CONVERSATION = "azure2023/AzureLLMInferenceTrace_conv.csv"
CODE = "azure2023/AzureLLMInferenceTrace_code.csv"
SERVEGEN_DAY = "servegen/servegen_deepseek-r1_1day_full.parquet"

STRICT = (("ttft_s", 99.0, 2.0), ("tpot_s", 99.0, 0.06))
EASY = (("ttft_s", 95.0, 2.0), ("tpot_s", 95.0, 0.1))


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A plan to make, and how many of its replicas the slow reference can follow."""

    name: str
    trace: str
    model: str
    gpu: str
    targets: tuple[tuple[str, float, float], ...]
    followed: int


CLAIMS = (
    Claim(
        name="conversation-8b-l40s",
        trace=CONVERSATION,
        model=LLAMA_8B,
        gpu="l40s",
        targets=EASY,
        followed=99,
    ),
    Claim(
        name="conversation-70b-h100",
        trace=CONVERSATION,
        model=LLAMA_70B,
        gpu="h100",
        targets=STRICT,
        followed=99,
    ),
    Claim(name="code-8b-l40s", trace=CODE, model=LLAMA_8B, gpu="l40s", targets=EASY, followed=99),
    Claim(
        name="code-70b-h100", trace=CODE, model=LLAMA_70B, gpu="h100", targets=STRICT, followed=99
    ),
    Claim(
        name="servegen-day-8b-h100",
        trace=SERVEGEN_DAY,
        model=LLAMA_8B,
        gpu="h100",
        targets=STRICT,
        followed=1,
    ),
)


def fewer(count: int) -> int:
    """One fewer, or 5 % fewer above twenty."""
    return count - max(1, math.floor(0.05 * count)) if count > 20 else count - 1


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered) - 1e-9) - 1]


def measured(jobs: list[Job], metric: str) -> list[float]:
    if metric == "ttft_s":
        return [job.token_s[0] - job.arrival_s for job in jobs]
    return [(job.token_s[-1] - job.token_s[0]) / (job.output - 1) for job in jobs if job.output > 1]


def replicas_of(trial, span, count: int, followed: int) -> list[list[Job]]:
    """Return the jobs of the replicas that are followed, entered with a lead-in."""
    trace = trial.requests
    inside = (trace.arrival_s >= span[0] - LEAD_S) & (trace.arrival_s <= span[1])
    rows = np.flatnonzero(inside)
    owner = assign(len(rows), count, "random", trial.seed)
    return [
        [
            Job(
                arrival_s=float(trace.arrival_s[row]),
                prompt=int(trace.input_tokens[row]),
                output=int(trace.output_tokens[row]),
            )
            for row in rows[owner == replica]
        ]
        for replica in range(min(count, followed))
    ]


def holds(decision, count: int, followed: int) -> bool:
    """Return whether the reference keeps every target in every window that decides."""
    trial = decision.confirmed.trial
    for span in decision.confirmed.spans:
        judged: list[Job] = []
        for jobs in replicas_of(trial, span, count, followed):
            engine = Engine(jobs, trial.settings, trial.cost)
            engine.run()
            judged += [job for job in jobs if job.arrival_s >= span[0]]
        for target in decision.case.slo.classes[0].targets:
            value = percentile(measured(judged, target.metric), target.percentile / 100.0)
            if value > target.limit_s:
                return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_count_holds_and_fewer_do_not(make_case, shared, claim):
    slo = slo_of(*claim.targets, model=claim.model)
    requests = load_trace([str(shared / "traces" / claim.trace)], classes=slo.classes).requests
    decision, _, _ = chosen(make_case(requests, slo, claim.gpu))
    assert decision.replicas > 1
    assert holds(decision, decision.replicas, claim.followed)
    assert not holds(decision, fewer(decision.replicas), claim.followed)
