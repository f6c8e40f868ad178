"""fleet.yaml: what it means, and every problem with its place."""

from __future__ import annotations

from datetime import date

import pytest

from planner.errors import InputError
from planner.spec.fleet import quarter_name, quarter_start
from planner.spec.fleet_file import load_fleet

SLO = "model: meta-llama/Llama-3.1-8B-Instruct\nslo: {ttft_s: {p99: 2.0}}\ngrowth: 0.5\n"
GOOD = """start: "2027-01-01"
quarters: 2
inventory:
  h100:
    eu: {held: 4, committed: 4, available: [8, 16]}
    us: {available: 8, usd_per_hour: 2.5, term_quarters: 2}
services:
  chat:
    slo: slo.yaml
    traffic: day.csv
    growth_per_quarter: 0.1
"""


@pytest.fixture
def load(tmp_path):
    (tmp_path / "slo.yaml").write_text(SLO, encoding="utf-8")

    def load(text):
        (tmp_path / "fleet.yaml").write_text(text, encoding="utf-8")
        return load_fleet(tmp_path / "fleet.yaml")

    return load


def problems(load, text):
    with pytest.raises(InputError) as caught:
        load(text)
    return [f"{p.line}:{p.column} {p.path}: {p.message}" for p in caught.value.problems]


def test_a_good_file_is_read_with_its_defaults(load, tmp_path):
    fleet, warnings = load(GOOD)
    assert warnings == ()
    assert fleet.start == date(2027, 1, 1)
    assert (fleet.quarters, fleet.confidence, fleet.provision_for) == (2, 0.8, "high")
    assert fleet.change_cost_hours == 168.0
    eu, us = fleet.stocks
    assert (eu.gpu, eu.region, eu.held, eu.available) == ("h100-sxm", "eu", 4, (8, 16))
    assert eu.usd_per_hour > 0
    assert eu.price_source != "fleet.yaml"
    assert (us.available, us.usd_per_hour, us.term_quarters) == ((8, 8), 2.5, 2)
    (chat,) = fleet.services
    assert chat.gpus == ("h100-sxm",)
    assert chat.regions == ("eu", "us")
    assert chat.slo.growth == 0.0  # the forecast takes its place
    assert chat.traffic == (str(tmp_path / "day.csv"),)
    assert fleet.files == (tmp_path / "slo.yaml",)


def test_all_problems_are_reported_at_once_with_their_places(load):
    text = GOOD.replace("[8, 16]", "[8, 16, 24]").replace("2027-01-01", "2027-02-30")
    text = text.replace("growth_per_quarter: 0.1", "regions: [asia]\n    gpus: [l40s, h1000]")
    text += '    launches:\n      - {name: x, date: "2027-03-01"}\n'
    text += "    history:\n      - {requests_per_s: 3}\n"
    found = problems(load, text)
    assert [line.split(" ")[0] for line in found] == sorted(
        (line.split(" ")[0] for line in found), key=lambda place: int(place.split(":")[0])
    )
    for expected in (
        "1:8 start: there is no day 2027-02-30",
        "5:44 inventory.h100.eu.available: has 3 entries, the plan has 2 quarters",
        "services.chat: neither growth_per_quarter nor a history",
        "services.chat.regions[0]: the inventory has no 'asia'",
        "services.chat.gpus[0]: the inventory has no l40s",
        "services.chat.gpus[1]: ",
        "services.chat.launches[0]: needs either factor or requests_per_s",
        "services.chat.history[0]: requests_per_s needs its date",
    ):
        assert any(expected in line for line in found), (expected, found)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("committed: 4", "committed: 12", "12 GPUs are committed, but only 8 can be had"),
        ("slo: slo.yaml", "slo: none.yaml", "no such file: none.yaml"),
        ("  h100:", "  h1oo:", "inventory.h1oo"),
        ("0.1", "{expected: 0.1, low: 0.2, high: 0.3}", "must be in order: low, expected, high"),
        ("quarters: 2", "quarters: 0", "must be at least 1"),
        ("held: 4", "holds: 4", "unknown key"),
        ("held: 4", "held: 2", "4 GPUs are committed, but only 2 are held"),
        ("0.1\n", "0.1\n    regions: [eu]\n    survives: region\n", "the loss of the only region"),
        ("0.1\n", "15\n", "must be at most 10"),
    ],
)
def test_one_problem(load, old, new, expected):
    assert old in GOOD
    assert any(expected in line for line in problems(load, GOOD.replace(old, new)))


def test_problems_of_an_slo_keep_their_own_place(load, tmp_path):
    (tmp_path / "slo.yaml").write_text(SLO + "groth: 1\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_fleet(_written(tmp_path))
    (problem,) = caught.value.problems
    assert problem.file.endswith("slo.yaml")
    assert problem.line == 4


def _written(tmp_path):
    (tmp_path / "fleet.yaml").write_text(GOOD, encoding="utf-8")
    return tmp_path / "fleet.yaml"


def test_a_growth_that_is_probably_percent_is_warned_about(load):
    _, warnings = load(GOOD.replace("growth_per_quarter: 0.1", "growth_per_quarter: 8"))
    assert any("growth_per_quarter" in line for line in warnings)


def test_quarters_follow_the_calendar():
    starts = [quarter_start(date(2026, 11, 1), q) for q in range(4)]
    assert [d.isoformat() for d in starts] == [
        "2026-11-01",
        "2027-02-01",
        "2027-05-01",
        "2027-08-01",
    ]
    assert quarter_start(date(2027, 8, 31), 1) == date(2027, 11, 30)
    assert [quarter_name(date(2027, 10, 1), q) for q in range(2)] == ["2027 Q4", "2028 Q1"]
