from __future__ import annotations

import re
from dataclasses import replace

import pytest
from jinja2 import meta

from planner.report.environment import markdown_environment
from planner.report.sentences import SECTIONS, by_section, catalogue, sentence
from planner.solve.findings import FINDINGS
from planner.solve.plan import Finding

NAMES = {
    "class_name",
    "metric",
    "window",
    "long_class",
    "short_class",
    "gpu",
    "source_at_half_seqs",
    "fast_end",
    "at",
    "mean_window",
    "first_limit",
}


def made(name, **changes):
    """A finding with every value that its id documents."""
    values = {key: "ttft_s" if key == "metric" else f"<{key}>" for key in FINDINGS[name]}
    values |= {key: 0.5 if key.endswith("share") else 128.0 for key in values if key not in NAMES}
    return Finding(id=name, values={**values, **changes})


def test_every_finding_has_a_sentence_and_every_sentence_a_finding():
    assert set(catalogue()) == set(FINDINGS)


@pytest.mark.parametrize("name", sorted(FINDINGS))
def test_a_sentence_uses_every_value_of_its_finding_and_no_other(name):
    template = markdown_environment().parse(catalogue()[name]["sentence"])
    assert meta.find_undeclared_variables(template) == set(FINDINGS[name])


@pytest.mark.parametrize("name", sorted(FINDINGS))
def test_a_sentence_is_one_paragraph_of_plain_sentences_with_escaped_names(name):
    text = str(sentence(made(name)))
    assert "\n" not in text
    assert "  " not in text
    assert text.endswith((".", "%.")), text
    assert text[0].isupper() or text[0] in "`&<0123456789"
    assert not re.search(r"\{|\}|None|Undefined", text)
    assert "<" not in text  # names come in as <name> and must leave as &lt;name>
    assert not re.search(r"\b(very|significantly|huge|dramatic|excellent|robust|best-in)\b", text)


@pytest.mark.parametrize("name", sorted(FINDINGS))
def test_a_sentence_lands_in_a_section_of_the_report(name, example):
    sections = by_section(example(findings=(made(name),)))
    assert catalogue()[name]["section"] in SECTIONS
    assert [len(found) for found in sections.values()].count(1) == 1


@pytest.mark.parametrize("name", sorted(FINDINGS))
def test_a_value_that_is_not_known_is_said_to_be_so(name):
    """NaN reaches the report as null, and null as None."""
    values = {key: None if key not in NAMES else "x" for key in FINDINGS[name]}
    text = str(sentence(Finding(id=name, values=values)))
    assert ("n/a" in text) == (None in values.values())


def test_what_the_chosen_budget_rests_on_comes_first(example):
    plan = example()
    chosen = plan.deployment.max_num_batched_tokens
    here = made("knife_edge", max_num_batched_tokens=chosen)
    other = made("knife_edge", max_num_batched_tokens=chosen + 1)
    sections = by_section(replace(plan, findings=(here, other)))
    assert len(sections["decision"]) == 1
    assert len(sections["surge"]) == 1


def test_a_finding_without_a_sentence_is_shown_not_dropped(example):
    unknown = Finding(id="new_kind_of_thing", values={"a_s": 1.5, "who": "<b>"})
    (text,) = by_section(example(findings=(unknown,)))["evidence"]
    assert text == "new kind of thing: a_s = 1.5, who = &lt;b&gt;."
