"""How sure each number is, and what the model leaves out."""

from __future__ import annotations

from planner.solve.case import Decision
from planner.solve.plan import Evidence

NOT_MODELLED = (
    "Percentiles are closed-form estimates; no replay has confirmed them yet.",
    "Requests are split over replicas at random; load-aware or prefix-aware routing does better.",
    "Preemption is kept away from, not simulated: its recompute work is not in the latencies.",
    "Client cancellations, retries and network time are not in the trace and not in the model.",
    "Replica start-up, rolling upgrades and autoscaling lag are covered by spares only.",
    "Speculative decoding and disaggregated prefill are not considered here.",
)

# P99 of TTFT and TPOT against a replay of two recorded traces on five GPUs and of a synthetic one
# with very long prompts: within 15 % mostly, TPOT up to 30 % low beside very long prompts.
CLOSED_FORM_BAND = 0.2

GRADES = {"measured_operators": "calibrated", "generic": "datasheet", "ideal": "datasheet"}


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
        Evidence(
            quantity="latency percentiles",
            grade="closed_form",
            source="Little's law, fluid-flow queue and Poisson tails over the trace's own requests",
            band=CLOSED_FORM_BAND,
        ),
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
            grade="measured",
            source=f"{case.model.source} {case.model.date}",
            band=None,
        ),
        Evidence(quantity="demand", grade="measured", source="the trace itself", band=None),
    ]
    if price is not None:
        grade = "declared" if source == "slo.yaml" else "datasheet"
        rows.append(Evidence(quantity="price", grade=grade, source=source, band=None))
    return tuple(rows)
