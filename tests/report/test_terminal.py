from __future__ import annotations

import re
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
    assert "chat TPOT p99 46.8 ms of 50 ms" in text
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


def test_where_one_replica_is_the_least_nothing_binds(example, edge):
    text = summary(edge("one_gpu_without_dates"))
    assert "Nearest       chat TPOT p99 46.8 ms of 50 ms" in text
    assert "one replica is the least there can be" in " ".join(text.split())
    assert "Binds" not in text
    assert "Binds" in summary(example())


def test_one_of_anything_is_singular(edge):
    plan = edge("one_gpu_without_dates")
    one = replace(plan.alternatives[0], replicas=1, gpus=1)
    text = summary(replace(plan, alternatives=(one,), sensitivity=()))
    assert "(1 replica, TP1, bf16)" in text
    assert "(1 GPU):" in text
    assert not re.search(r"(?<![\d,.])1 (GPUs|replicas|requests|rows|classes)\b", text)


def test_cuts_fall_between_words_and_warnings_are_whole_or_counted(example):
    first = "the log says nothing about prefix reuse, so the prefill load is taken in full"
    plan = example(warnings=(first, "second " + "word " * 40, "third"))
    words = set(" ".join(plan.warnings).split()) | {"2", "more", "in", "the", "report"}
    text = summary(plan)
    block = text.split("Check")[1].split("Sure")[0]
    assert first in " ".join(block.split())
    assert "2 more in the report" in " ".join(block.split())
    assert {word.strip(";") for word in block.split()} <= {word.strip(";") for word in words}


def test_a_number_keeps_its_unit_beside_it(plan):
    for line in summary(plan).splitlines():
        assert not re.match(r"\s*(%|ms|µs|GPUs?|replicas?)(\s|:|$)", line), line


def test_the_reasons_of_rows_set_aside_are_named(example):
    assert "312 rows set aside (312 output tokens is zero)" in " ".join(summary(example()).split())


def test_a_band_beyond_a_limit_is_said(example):
    text = " ".join(summary(example()).split())
    assert "the error band of chat TPOT p99 reaches beyond the limit" in text
    rows = tuple(replace(row, high_s=row.worst_s) for row in example().latency)
    assert "beyond the limit" not in summary(replace(example(), latency=rows))
