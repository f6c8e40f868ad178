"""`planner reproduce` and docs/validation.md."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from planner.cli.main import cli
from planner.reproduce.claim import Inputs
from planner.reproduce.document import sections
from planner.reproduce.papers import PAPERS, findings
from planner.reproduce.table import alternatives, claim_rows, figure

VERDICTS = {"pass", "fail", "not_reproducible"}


def test_json_lists_claim_published_ours_band_and_verdict():
    result = CliRunner().invoke(cli, ["reproduce", "sarathi", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["claims"]
    first = next(row for row in rows if row["id"] == "sarathi-s2")
    assert first["published"] == 69.8
    assert first["verdict"] == "pass"
    assert first["band"][0] < first["ours"] < first["band"][1]
    assert {row["verdict"] for row in rows} <= VERDICTS
    assert all(row["reason"] for row in rows if row["verdict"] == "not_reproducible")


def test_text_names_the_file_that_is_absent():
    result = CliRunner().invoke(cli, ["reproduce", "vllm"])
    assert result.exit_code == 0, result.output
    assert "not reproducible" in result.stdout
    assert "sharegpt_8k.csv" in result.stdout


def test_an_unknown_paper_is_refused():
    result = CliRunner().invoke(cli, ["reproduce", "orca"])
    assert result.exit_code == 2
    assert "sarathi-serve" in result.output


def test_the_document_shows_what_the_claims_give(root: Path):
    """Every row that takes neither a file nor a replay is in docs/validation.md to the letter."""
    text = (root / "docs" / "validation.md").read_text(encoding="utf-8").splitlines()
    found = list(findings(PAPERS, Inputs(), replays=False))
    cheap = [
        line
        for line, each in zip(claim_rows(found), found, strict=True)
        if each.claim.ours is None or each.ours is not None
    ]
    assert len(cheap) > 100
    others = [line for line in alternatives(found) if line.startswith("| `")]
    assert len(others) > 40
    missing = [line for line in cheap + others if line not in text]
    assert not missing, "docs/validation.md is stale: run `make docs`\n" + "\n".join(missing)


def test_the_document_has_every_claim(root: Path):
    text = (root / "docs" / "validation.md").read_text(encoding="utf-8")
    for paper in PAPERS:
        for each in findings([paper], Inputs(), replays=False):
            assert f"| `{each.claim.id}` |" in text


def test_sections_count_all_papers():
    found = {"sarathi": tuple(findings(["sarathi"], Inputs(), replays=False))}
    assert sections(found).count("claims hold") == 2


def test_figures():
    assert [figure(value) for value in (0.0, 1e-6, 0.5254, 1234.5, 66_144.0)] == [
        "0.00",
        "1e-06",
        "0.525",
        "1,234",
        "66,140",
    ]
