"""How sure each number is, and what the model leaves out."""

from __future__ import annotations

from planner.solve.case import Decision
from planner.solve.plan import Evidence

NOT_MODELLED = (
    "Client cancellations, retries and network time are not in the trace and not in the model.",
    "Replica start-up, rolling upgrades and autoscaling lag are covered by spares only.",
    "Speculative decoding and disaggregated prefill are not considered here.",
)

AT_RANDOM = (
    "Requests are split over replicas at random, as slo.yaml has it; the rows beside the search say"
    " what other routing would save."
)
ROUTED = (
    "The router sees every replica's state at once, and of a large fleet only the replicas that are"
    " replayed."
)
BY_EQUATIONS_ONLY = (
    "Percentiles are closed-form estimates: replay does not know this engine or layout.",
    "Preemption is kept away from, not simulated: its recompute work is not in the latencies.",
)
BY_REPLAY = (
    "Rows of section 6 not asked by replay and the count for even traffic: equations, then scaled.",
    "Cached prefixes are those the log reports; the replay evicts none of them.",
)

# P99 of TTFT and TPOT against a replay of two recorded traces on five GPUs and of a synthetic one
# with very long prompts: within 15 % mostly, TPOT up to 30 % low beside very long prompts.
CLOSED_FORM_BAND = 0.2

GRADES = {"measured_operators": "calibrated", "generic": "datasheet", "ideal": "datasheet"}


def not_modelled(decision: Decision) -> tuple[str, ...]:
    """Return what the model leaves out of this plan."""
    if decision.confirmed is None:
        return (*BY_EQUATIONS_ONLY, *NOT_MODELLED)
    routing = decision.confirmed.trial.routing
    split = ROUTED if routing in ("least_loaded", "cache_aware") else AT_RANDOM
    split = split.replace("at random", "in turn") if routing == "round_robin" else split
    requests = decision.confirmed.trial.requests
    stated = not len(requests.block_ids) and bool(requests.cached_tokens.any())
    return (*(BY_REPLAY if stated else BY_REPLAY[:1]), split, *NOT_MODELLED)


def _percentiles(decision: Decision) -> Evidence:
    """Return how the latency percentiles were found."""
    confirmed = decision.confirmed
    if confirmed is None:
        return Evidence(
            quantity="latency percentiles",
            grade="closed_form",
            source="Little's law, fluid-flow queue and Poisson tails over the trace's own requests",
            band=CLOSED_FORM_BAND,
        )
    return Evidence(
        quantity="latency percentiles",
        grade="replayed",
        source=(
            f"every request through {decision.case.engine.id} {decision.case.engine.version}'s"
            " scheduler as modelled, event by event; bands in the latency table"
        ),
        band=None,
    )


def evidence(decision: Decision) -> tuple[Evidence, ...]:
    """Return where each kind of number comes from, with its band where one is known."""
    case = decision.case
    gpu = case.gpu(decision.deployment.gpu)
    calibration = case.calibrations[gpu.id]
    price, source = case.price(gpu)
    rows = [
        Evidence(
            quantity="step time",
            grade=GRADES.get(calibration.evidence, "calibrated"),
            source=f"{calibration.id}: {calibration.source}",
            band=decision.cost.band,
        ),
        _percentiles(decision),
        Evidence(
            quantity="GPU figures", grade="datasheet", source=f"{gpu.source} {gpu.date}", band=None
        ),
        Evidence(
            quantity="KV capacity",
            grade="calibrated" if decision.candidate.memory.visible_known else "datasheet",
            source=f"memory rule of {case.engine.id} {case.engine.version}: {case.engine.source}",
            band=None,
        ),
        Evidence(
            quantity="model architecture",
            grade="published",
            source=f"{case.model.source} {case.model.date}",
            band=None,
        ),
        Evidence(quantity="demand", grade="measured", source="the trace itself", band=None),
    ]
    if price is not None:
        grade = "declared" if source == "slo.yaml" else "published"
        rows.append(Evidence(quantity="price", grade=grade, source=source, band=None))
    return tuple(rows)
