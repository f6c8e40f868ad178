"""Row by row: each check finds what was planted, and nothing where nothing is."""

import re

import pytest

from planner.calibrate import document_rows, row_checks, row_neighbours
from planner.calibrate.row_miss import TARGETS, Compared, compared
from planner.calibrate.row_neighbours import Neighbours
from planner.calibrate.runs import Predicted
from planner.calibrate.scoring import Scored

TPOT, RATE, TTFT = TARGETS
PLAIN = {
    "point_id": "P1",
    "load_type": "closed-loop",
    "engine": "sglang",
    "engine_version": "0.5.6",
    "gpu": "H100-SXM-80GB",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "weight_dtype": "bf16",
    "input_tokens": "1000",
    "output_tokens": "101",
    "concurrency": "16",
    "n_requests": "160",
    "ttft_mean_ms": "200",
    "ttft_median_ms": "190",
    "tpot_mean_ms": "10",
}


def case(target=TPOT, measured=10.0, predicted=20.0, ttft_s=0.2, tpot_s=0.02, **row: str):
    found = Scored(
        row={**PLAIN, **row},
        predicted=Predicted(ttft_s=ttft_s, tpot_s=tpot_s, output_tokens_per_s=1.0),
    )
    return Compared(item=found, target=target, measured=measured, predicted=predicted)


@pytest.mark.parametrize("check", document_rows.OWN.values())
def test_a_plain_row_has_no_finding(check):
    assert check(case()) == ""


def test_little_compares_implied_with_stated_clients():
    """16 clients, 1.2 s each, 101 tokens: 1,347 tok/s; a third of it implies 5 clients."""
    assert row_checks.little(case(out_tok_s="1347")) == ""
    assert "imply 5 clients, 16 are stated" in row_checks.little(case(out_tok_s="450"))


def test_admission_compares_running_requests():
    """2 s of 3 s waiting: 5 of 16 run; the prediction has 16·2/2.2 = 15."""
    found = row_checks.admission(case(ttft_mean_ms="2000"))
    assert "5 of 16 ran at a time, the memory account holds 15" in found
    both_queue = case(ttft_mean_ms="2000", ttft_s=2.0, tpot_s=0.01)
    assert row_checks.admission(both_queue) == ""


def test_weights_that_do_not_fit():
    large = case(model="zai-org/GLM-5", gpu="H200-SXM-141GB", tp="8", weight_dtype="bf16")
    assert re.match(
        r"weights of bf16 take \d+ GiB a GPU, it has 1\d\d", row_checks.does_not_fit(large)
    )


def test_a_stall_counts_where_it_explains_the_row():
    """10 requests of one client waited 4 s more on average: 40 s of 68 s."""
    stalled = {
        "concurrency": "1",
        "n_requests": "10",
        "duration_s": "68",
        "ttft_mean_ms": "4060",
        "ttft_median_ms": "60",
    }
    slow = case(RATE, measured=62.0, predicted=130.0, **stalled)
    assert "59 % of the run; 151 tok/s without" in row_checks.stall(slow)
    assert row_checks.stall(case(RATE, measured=62.0, predicted=600.0, **stalled)) == ""
    assert row_checks.stall(case(TTFT, measured=4060.0, predicted=70.0, **stalled))
    assert row_checks.stall(case(TTFT, measured=4060.0, predicted=900.0, **stalled)) == ""


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        ({"gpu": "MI300X-192GB"}, "no operator tables of mi300x"),
        (
            {"gpu": "A100-SXM-80GB", "model": "openai/gpt-oss-120b", "weight_dtype": "mxfp4"},
            "no table of mxfp4 experts",
        ),
        ({"gpu": "B200-SXM-180GB", "model": "zai-org/GLM-4.7-Flash"}, "with 20 heads"),
    ],
)
def test_missing_tables_are_named(row, finding):
    assert finding in row_checks.no_tables(case(**row))


def test_small_runs_idle_ranks_and_unstated_lengths():
    assert "20 requests for 16 clients" in row_checks.few_requests(case(n_requests="20"))
    assert "1 client on 8" in row_checks.idle_ranks(case(concurrency="1", dp="8", tp="8"))
    assert row_checks.unstated_lengths(case(input_tokens="")) == "prompt length not stated"


def neighbours(*cases):
    return Neighbours(cases)


def test_repeats_and_versions_must_meet_the_prediction():
    missed = case()
    repeat = case(measured=19.0, point_id="P2")
    assert "P2, the same columns, has 19" in row_neighbours.repeats(
        missed, neighbours(missed, repeat)
    )
    as_far = case(measured=10.5, point_id="P2")
    assert row_neighbours.repeats(missed, neighbours(missed, as_far)) == ""
    newer = case(measured=19.0, point_id="P3", engine_version="0.5.9")
    assert "P3, version 0.5.9" in row_neighbours.versions(missed, neighbours(missed, newer))
    assert row_neighbours.repeats(missed, neighbours(missed, newer)) == ""
    other = case(measured=19.0, point_id="P4", weight_dtype="fp8")
    assert row_neighbours.versions(missed, neighbours(missed, other)) == ""


def test_a_series_that_is_not_monotone():
    """10 ms at 16 clients, predicted 20; 12 ms at 8 clients says the row is low, 9 ms does not."""
    missed = case()
    high, low = (case(measured=m, point_id="P2", concurrency="8") for m in (12.0, 9.0))
    assert "8 clients instead of 16" in row_neighbours.off_series(missed, neighbours(missed, high))
    assert row_neighbours.off_series(missed, neighbours(missed, low)) == ""
    slow = case(RATE, measured=100.0, predicted=200.0)
    faster = case(RATE, measured=120.0, point_id="P2", concurrency="8")
    assert row_neighbours.off_series(slow, neighbours(slow, faster))


def test_a_ttft_that_the_prompt_does_not_decide():
    missed = case(TTFT, measured=8000.0, predicted=500.0, input_tokens="8000")
    alike, scaled = (
        case(TTFT, measured=m, point_id="P2", input_tokens="1000") for m in (7000.0, 1000.0)
    )
    assert row_neighbours.prompt_alike(missed, neighbours(missed, alike))
    assert row_neighbours.prompt_alike(missed, neighbours(missed, scaled)) == ""


def test_another_engine_at_no_lighter_load():
    missed = case(measured=50.0, tpot_mean_ms="50")
    faster = case(engine="vllm", tpot_mean_ms="20", point_id="P2")
    assert "vllm with the same weights" in row_neighbours.other_engine(missed, [missed, faster])
    shorter = case(engine="vllm", tpot_mean_ms="20", point_id="P2", input_tokens="200")
    fewer = case(engine="vllm", tpot_mean_ms="20", point_id="P2", concurrency="8")  # 40 at 16
    assert row_neighbours.other_engine(missed, [shorter, fewer]) == ""


@pytest.mark.slow
def test_the_sections_name_every_missed_row_and_no_other(shared, root):
    """Counts of the document against the errors themselves, and the document in the repository."""
    text = document_rows.document(shared / "groundtruth")
    written = (root / "docs" / "accuracy-rows.md").read_text(encoding="utf-8")
    assert written == text, "run `make docs`"
    sections = text.split("\n## ")[1:]
    assert len(sections) == len(TARGETS)
    found = document_rows.main_set(shared / "groundtruth")
    for target, section in zip(TARGETS, sections, strict=True):
        cases = compared(found, target)
        listed = re.findall(r"^\| (P\d+) ", section, re.MULTILINE)
        assert sorted(listed) == sorted(c.row["point_id"] for c in cases if c.missed)
        assert section.count(document_rows.UNEXPLAINED) == int(
            re.search(r"(\d+) have none", section)[1]
        )
