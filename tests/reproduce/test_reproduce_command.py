"""`planner reproduce` and docs/validation.md."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from planner.cli.main import cli
from planner.reproduce import distserve_steps, sarathi_pipeline, sarathi_steps
from planner.reproduce.claim import Inputs
from planner.reproduce.document import sections
from planner.reproduce.papers import PAPERS, findings
from planner.reproduce.table import alternatives, as_data, claim_rows, decisive, figure

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


def test_json_of_every_claim_is_complete_and_the_same_twice():
    """What needs no replay, twice from cold caches; and one pipeline of the replays."""

    def whole() -> str:
        for cached in (distserve_steps.fitted, distserve_steps.cost, sarathi_steps.a6000):
            cached.cache_clear()
        found = [as_data(each) for each in findings(PAPERS, Inputs(), replays=False)]
        return json.dumps(found, sort_keys=True, allow_nan=False)

    first = whole()
    assert first == whole()
    rows = json.loads(first)
    assert len({row["id"] for row in rows}) == len(rows) > 150
    for row in rows:
        assert {"claim", "published", "ours", "band", "verdict", "alternatives"} <= set(row)
        assert row["verdict"] in VERDICTS
        assert row["cause"] or row["verdict"] != "fail", row["id"]
        assert row["reason"] or row["verdict"] == "pass", row["id"]
    bubbles = []
    for _ in range(2):
        sarathi_pipeline.run.cache_clear()
        bubbles.append(sarathi_pipeline.run("sarathi", sarathi_pipeline.STAGES).bubble_s.tobytes())
    assert bubbles[0] == bubbles[1]


def test_what_other_settings_decide():
    found = list(findings(["sarathi"], Inputs(), replays=False))
    # The bare engine loses the step of 128 tokens, the SXM part two gains, all of the memory four
    # batches; either would save the decode speed-up of the last row.
    assert decisive(found).endswith("would pass: 1; passing claims that would fail: 7")
