"""The fleet example in reports/ is what the code writes today from the fleet.yaml at the top."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from planner.report.fleet import read_fleet_plan, render_fleet, summary
from planner.report.fleet_remarks import remarks

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "reports" / "fleet-example"


def contents(directory):
    return {p.name: p.read_text(encoding="utf-8") for p in directory.iterdir() if p.is_file()}


def test_it_has_four_services_three_gpu_types_and_four_quarters():
    plan = read_fleet_plan(EXAMPLE / "fleet.json")
    assert len(plan.forecasts) == 4
    assert len({stock.gpu for stock in plan.quarters[0].stocks}) == 3
    assert len(plan.quarters) == 4


def test_it_is_the_rendering_of_its_fleet_json():
    assert render_fleet(read_fleet_plan(EXAMPLE / "fleet.json")) == contents(EXAMPLE)


@pytest.mark.slow
def test_it_comes_out_of_its_own_command(tmp_path, monkeypatch):
    """Run its command in a folder that has only the inputs it names."""
    from planner.cli.main import cli

    plan = read_fleet_plan(EXAMPLE / "fleet.json")
    for name in plan.inputs_sha256:
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    argv = shlex.split(plan.command)
    cli.main(args=argv[1:], prog_name="planner", standalone_mode=False)
    assert contents(tmp_path / argv[-1]) == contents(EXAMPLE)


def tables(text):
    """Every table as (heading above it, rows of {column: cell})."""
    found, heading, rows = [], "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.removesuffix("|").split("|")[1:]])
        elif rows:
            found.append((heading, [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]))
            rows = []
    return found


def amount(cell):
    return float(re.sub(r"[$,]", "", cell) or 0)


def total(rows, column):
    return sum(amount(row[column]) for row in rows)


@pytest.fixture(scope="module")
def page():
    return tables((EXAMPLE / "report.md").read_text(encoding="utf-8"))


def test_the_money_of_the_page_adds_up_to_the_cent(page):
    *quarters, everything = page[0][1]
    for row in quarters:
        whole = 3 * amount(row["cost a month"]) + amount(row["once"])
        assert amount(row["cost of the quarter"]) == whole
        name = row["quarter"].split("]")[0].removeprefix("[")
        (*stocks, all_stocks), services, placements = (rows for at, rows in page if at == name)
        for stock in stocks:
            assert amount(stock["a month"]) == amount(stock["one a month"]) * amount(stock["held"])
            assert amount(stock["held"]) == amount(stock["keep"]) + amount(stock["buy"])
        for column in ("keep", "buy", "release", "held", "a month"):
            assert amount(all_stocks[column]) == total(stocks, column)
        assert all_stocks["a month"] == row["cost a month"]
        # The example holds nothing idle: its services pay for every GPU.
        assert total(services, "a month") == total(placements, "a month")
        assert total(services, "a month") == amount(row["cost a month"])
    assert amount(everything["once"]) == total(quarters, "once")
    assert amount(everything["cost of the quarter"]) == total(quarters, "cost of the quarter")


def test_what_a_service_carries_is_the_sum_of_its_replicas(page):
    """Rates are printed with three digits, so sums agree to 1 %."""
    (replicas,) = (rows for at, rows in page if at == "What one replica carries")
    one = {(row["service"], row["GPU"]): row["carries, requests/s"] for row in replicas}
    for name in ("2027 Q1", "2027 Q2", "2027 Q3", "2027 Q4"):
        _, services, placements = (rows for at, rows in page if at == name)
        for row in placements:
            assert row["one carries"] == one[row["service"], row["runs on"]]
        for service in services:
            mine = [p for p in placements if p["service"] == service["service"].split(" (")[0]]
            assert total(mine, "a month") == amount(service["a month"])
            assert total(mine, "GPUs") == amount(service["GPUs"])
            carried = sum(amount(p["replicas"]) * amount(p["one carries"]) for p in mine)
            assert carried == pytest.approx(amount(service["carries"]), rel=0.01)
            if service["carries after it"]:
                assert amount(service["carries after it"]) >= amount(service["with headroom"])
            else:
                assert service["largest loss planned for"] == "not asked to survive one"


def test_the_page_shows_how_demand_comes_about(page):
    _, rows, _ = (rows for at, rows in page if at == "Forecasts")
    for row in rows:
        growth = 1.0 + float(row["growth"].removesuffix(" %")) / 100.0
        grown = amount(row["from"]) * growth ** amount(row["quarters"])
        expected = grown * amount(row["× launches"]) + amount(row["+ launches"])
        assert expected == pytest.approx(amount(row["expected"]), rel=0.01)


def test_the_remarks_name_what_speaks_against_the_plan():
    plan = read_fleet_plan(EXAMPLE / "fleet.json")
    text = "\n".join(remarks(plan))
    assert "All a100-80gb-sxm that can be had in us are held in every quarter" in text
    assert "extract is not asked to survive a loss (no spare_replicas)" in text
    assert "extract: its forecast has no band, so its risk is unknown, not zero." in text
    assert "assistant: its 80 % band held 4 of 6 back-tests (67 %)" in text
    assert "14.9 on 2026-10-13 and 14.9 on 2026-12-08" in text
    for each in plan.configurations:
        again = each.redrawn
        unsure = again is not None and again.hold_with_headroom_free < again.draws
        assert (f"{each.service} on {each.gpu}: with other draws" in text) is unsure
    (row, *_) = plan.bought_back
    assert f"bought back in {row.bought_in}" in text
    # Nothing of it where nothing is to be said.
    steady = replace(plan.forecasts[0], tests=(), last_growth_per_quarter=0.143)
    sure = tuple(replace(each, redrawn=None) for each in plan.configurations)
    calm = replace(plan, forecasts=(steady,), exhausted=(), bought_back=(), requirements=())
    calm = replace(calm, configurations=sure)
    assert [line for line in remarks(calm) if not line.startswith("extract")] == []


def test_the_terminal_says_the_same_as_the_page():
    plan = read_fleet_plan(EXAMPLE / "fleet.json")
    lines = summary(plan).splitlines()
    report = render_fleet(plan)["report.md"]
    assert lines[0].replace("$", "\\$") in report
    assert all("unknown (extract)" in line for line in lines if "risk" in line)
