from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.report.terminal import COLUMNS, LINES, summary


def test_the_example_summary(example, file_regression):
    text = summary(example(), Path("reports/week42-h100"))
    file_regression.check(text, extension=".txt", encoding="utf-8")


def test_it_fits_one_screen(plan):
    lines = summary(plan, Path("reports") / ("x" * 90)).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert all(line == line.rstrip() and line.isprintable() for line in lines)


def test_it_says_what_is_recommended_what_binds_and_where_the_report_is(example):
    text = summary(example(), Path("reports/week42-h100"))
    assert "7 × H100-80GB-SXM" in text
    assert "[6–8]" in text
    assert "chat: TPOT p99 46.8 ms of 50 ms" in text
    assert text.endswith("reports/week42-h100/report.md\n")


def test_long_commands_and_many_warnings_are_cut_not_spilled(example):
    plan = example(warnings=("w" * 300,) * 5)
    plan = replace(plan, launch=(*plan.launch, *(f"--flag-{i}=x" for i in range(200))))
    text = summary(plan, Path("r"))
    assert len(text.splitlines()) <= LINES
    assert "…" in text
    assert text.splitlines()[-1].endswith("r/report.md")


def test_the_whole_command_is_shown_where_it_fits(example):
    text = summary(example())
    assert all(word in text for word in example().launch)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_price", "no price known"),
        ("surge_decides", "knife's edge"),
        ("missed", "2 of 3 targets missed"),
        ("replayed", "percentiles replayed"),
        ("big_replica", "TP8 PP2"),
    ],
)
def test_what_differs_is_said(edge, name, words):
    assert words in summary(edge(name))


def test_a_closed_form_plan_says_so(example):
    assert "closed-form estimates" in summary(example())
