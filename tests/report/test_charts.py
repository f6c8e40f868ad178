from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from planner.report.charts import FIGURES, shorten
from planner.report.render import render
from planner.report.scales import Axis, linear_ticks, log_ticks

SVG = "{http://www.w3.org/2000/svg}"


def figures(plan):
    return {name: text for name, text in render(plan).items() if name.endswith(".svg")}


def test_figures_are_accessible_self_contained_svg_with_everything_inside(plan):
    for name, text in figures(plan).items():
        root = ET.fromstring(text)
        title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert root.get("role") == "img"
        assert root.get("aria-labelledby") == "title desc"
        assert title is not None
        assert title.text
        assert desc is not None
        assert desc.text
        assert not re.search(r"href|url\(|@import|@font-face|<script|<image", text)
        assert "nan" not in re.sub(r"<(title|desc|text)[^>]*>[^<]*", "", text).lower()
        width, height = (float(root.get(key, 0)) for key in ("width", "height"))
        for element in root.iter():
            check_inside(element, width, height, name)


def check_inside(element, width, height, where):
    """Coordinates lie in the picture; text by an estimate of 7.6 px a character at 13 px."""
    for key in ("x", "x1", "x2", "cx"):
        if element.get(key):
            assert 0 <= float(element.get(key)) <= width, (where, ET.tostring(element))
    for key in ("y", "y1", "y2", "cy"):
        if element.get(key):
            assert 0 <= float(element.get(key)) <= height, (where, ET.tostring(element))
    if element.tag == f"{SVG}rect":
        assert float(element.get("x")) + float(element.get("width")) <= width + 0.5, where
        assert float(element.get("width")) >= 0
    if element.tag == f"{SVG}text" and "head" not in element.get("class", ""):
        reach = 7.6 * len(element.text or "")
        x, style = float(element.get("x")), element.get("class", "")
        start = x - reach if "end" in style else x - reach / 2 if "middle" in style else x
        assert start >= 0, (where, element.text)
        assert start + reach <= width, (where, element.text)


def test_every_element_stands_on_its_own_line(example):
    for text in figures(example()).values():
        for line in text.splitlines():
            assert line.count("<text") + line.count("<rect") + line.count("<line ") <= 1


def test_figures_are_the_same_bytes_each_time(example):
    assert figures(example()) == figures(example())


def test_a_trace_without_dates_has_no_demand_figure(example):
    plan = example()
    classes = tuple(replace(c, hour_of_week=()) for c in plan.profile.classes)
    drawn = figures(replace(plan, profile=replace(plan.profile, classes=classes)))
    assert set(drawn) == set(FIGURES) - {"demand.svg"}


def test_the_step_figure_puts_the_balance_point_where_compute_meets_the_floor(example):
    """C* is 509 in the example and so is a point of the curve: all three meet there."""
    plan = example()
    figure = FIGURES["step_time.svg"](plan)
    assert figure is not None
    curves = {
        name: [
            tuple(map(float, pair.strip("ML ").split())) for pair in re.findall(r"[ML][^ML]+", d)
        ]
        for name, d in figure["curves"]
    }
    at = [p.chunk_tokens for p in plan.chunk.curve].index(509)
    mark = {name: x for name, x, *_ in figure["marks"]}["balance"]
    assert curves["compute_s"][at] == pytest.approx(curves["floor_s"][at], abs=0.3)
    assert curves["compute_s"][at][0] == pytest.approx(mark, abs=0.3)


def test_the_memory_bar_fills_the_visible_memory(example):
    figure = FIGURES["memory.svg"](example())
    assert figure is not None
    (_, start, *_), *_, (_, last, width, _) = figure["bars"]
    assert start == pytest.approx(24.0)
    assert last + width == pytest.approx(736.0, abs=0.01)


def test_log_axis_is_proportional_to_the_logarithm():
    axis = Axis(low=1.0, high=1000.0, start=0.0, end=300.0, log=True)
    assert [axis(v) for v in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])
    assert axis(1e9) == pytest.approx(300)
    assert axis(0.0) == pytest.approx(0)


def test_ticks_cover_the_axis():
    for high in (0.3, 1.0, 7.0, 99.0, 12_345.0):
        assert linear_ticks(high)[-1] >= high
        assert 2 <= len(linear_ticks(high)) <= 8
    assert log_ticks(0.9, 1.1) == [1.0]


def test_a_name_is_cut_in_its_middle():
    assert shorten("short") == "short"
    assert len(shorten("x" * 40)) == 30


def test_the_map_shows_every_pair_with_what_it_misses(example):
    plan = example()
    text = figures(plan)["batch_map.svg"]
    root = ET.fromstring(text)
    words = [element.text for element in root.iter(f"{SVG}text")]
    for cell in plan.batch_map.cells:
        count = "none" if cell.replicas is None else str(cell.replicas)
        assert any((word or "").split(" ")[0] == count for word in words)
    # One rectangle a cell, one for the page, six in the legend, and the chosen pair's outline.
    assert len(list(root.iter(f"{SVG}rect"))) == len(plan.batch_map.cells) + 1 + 6 + 1
    assert text.count('class="fill-grey"') == 2 + 1
    assert text.count('class="fill-green"') == 2 + 1
    assert "C* + D" in words
    assert "batch_map.svg" not in figures(replace(plan, batch_map=None))


def test_the_surge_chart_names_the_count_that_its_use_is_of(example):
    """Spares do not share the demand, and one replica is not many."""
    plan = example()
    spared = replace(plan, replicas=replace(plan.replicas, value=9))
    assert "of what 7 replicas for the load sustain, by token" in figures(spared)["surge.svg"]
    one = replace(plan, surge=replace(plan.surge, replicas=1))
    assert "of what 1 replica for the load sustains, by token" in figures(one)["surge.svg"]


def test_the_allowed_interval_ends_where_the_plan_refutes_it(example):
    plan = example()

    def start(chunk):
        figure = FIGURES["step_time.svg"](replace(plan, chunk=chunk))
        return figure["interval"]["x"]

    refuted = replace(plan.chunk, missed_below_flag_tokens=1024)
    assert start(refuted) > start(plan.chunk)
    assert start(refuted) == start(replace(plan.chunk, low_tokens=plan.chunk.chosen_tokens))
