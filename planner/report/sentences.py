"""The sentence of each finding, from templates/findings/sentences.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from markupsafe import Markup

from planner.report.environment import markdown_environment
from planner.report.words import word
from planner.resources import resource_dir
from planner.solve.plan import Finding, Plan
from planner.spec.load import read_document

SECTIONS = (
    "decision",
    "binds",
    "chunk",
    "concurrency",
    "replicas",
    "surge",
    "demand",
    "data",
    "latency",
    "alternatives",
    "sensitivity",
    "evidence",
    "load_test",
    "operation",
    "assumptions",
)
FALLBACK_SECTION = "evidence"


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Return finding id → {"section", "sentence"[, "leads_when_chosen"]}."""
    data = read_document(resource_dir("templates") / "findings" / "sentences.yaml").data
    assert isinstance(data, dict)
    return data


def by_section(plan: Plan) -> dict[str, list[Markup]]:
    """Return the plan's sentences, in the plan's order, under the section they belong to."""
    sections: dict[str, list[Markup]] = {name: [] for name in SECTIONS}
    for finding in plan.findings:
        sections[_section(finding, plan)].append(sentence(finding))
    return sections


def _section(finding: Finding, plan: Plan) -> str:
    """Return where a finding is said: what the answer rests on comes first."""
    entry = catalogue().get(finding.id, {})
    budget = finding.values.get("max_num_batched_tokens")
    if entry.get("leads_when_chosen") and budget == plan.deployment.max_num_batched_tokens:
        return "decision"
    return entry.get("section", FALLBACK_SECTION)


def sentence(finding: Finding) -> Markup:
    """Return a finding in words; one without a sentence is shown as id and values, not dropped."""
    entry = catalogue().get(finding.id)
    if entry is None:
        values = ", ".join(f"{key} = {value}" for key, value in sorted(finding.values.items()))
        return Markup("{}: {}.").format(word({}, finding.id), values)
    template = markdown_environment().from_string(entry["sentence"])
    return Markup(" ".join(template.render(finding.values).split()))
