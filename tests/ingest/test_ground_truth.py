"""Reference samples against their independent ground truth, real traces against statistics."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.ingest.load import load_trace

NO_PLAN = {  # recognised, and refused with the reason
    "azure_openai_diag.jsonl": "no token counts",
    "genai_perf_profile_export.json": "no token counts",
    "nginx_llm.jsonl": "no token counts",
    "openai_usage_completions.json": "sums many requests",
    "sglang_bench_serving.jsonl": "no arrival times",
    "sglang_request_metrics.log": "no arrival times",
    "trtllm_perf_metrics.json": "no token counts",
}
FORMATS = {
    "azure2023.csv": "azure-2023",
    "azure2024.csv": "azure-2024",
    "azure_multimodal.csv": "azure-multimodal",
    "burstgpt_v1.csv": "burstgpt-v1",
    "burstgpt_v2.csv": "burstgpt-v2",
    "mooncake.jsonl": "mooncake",
    "qwen_bailian.jsonl": "qwen-bailian",
    "vllm_otlp_spans.json": "vllm-otlp",
    "otel_genai_spans.jsonl": "otel-genai",
    "litellm_spendlogs.csv": "litellm",
    "langfuse_observations.jsonl": "langfuse",
    "helicone.jsonl": "helicone",
    "kong_ai.jsonl": "kong",
    "envoy_aigw.jsonl": "envoy",
    "openrouter_activity.csv": "openrouter",
    "portkey_logs.jsonl": "portkey",
    "aiperf_profile_export.jsonl": "aiperf",
    "inference_perf_per_request.json": "inference-perf",
    "vllm_bench_serve.json": "vllm-bench",
    "aibrix_workload.jsonl": "aibrix",
    "vidur_trace.csv": "vidur",
    "splitwise_sim.csv": "splitwise-sim",
    "llmservingsim.jsonl": "llmservingsim",
    "dirty_generic.csv": "canonical",
}
# Documents whose rows_in counts the document; every request in it is a row to us.
ONE_DOCUMENT = {"vllm_bench_serve.json", "aibrix_workload.jsonl"}


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, dict[str, object]]:
    text = (shared / "traces" / "format_samples" / "expected.json").read_text(encoding="utf-8")
    files: dict[str, dict[str, object]] = json.loads(text)["files"]
    return files


def test_every_reference_sample_is_covered(expected: dict[str, dict[str, object]]) -> None:
    assert set(expected) == set(FORMATS) | set(NO_PLAN)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_counts_and_sums(shared: Path, expected: dict[str, dict[str, object]], name: str) -> None:
    truth = expected[name]
    trace = load_trace([str(shared / "traces" / "format_samples" / name)])
    report = trace.report
    assert report.format == FORMATS[name]
    if name not in ONE_DOCUMENT:
        assert report.rows_read == truth["rows_in"]
    assert report.requests_seen == truth["requests_out"]
    # Where a log loses the prompt of failed rows, the truth gives the recoverable sum beside it.
    assert report.input_tokens_seen in {
        truth["input_tokens"],
        truth.get("recoverable_input", truth["input_tokens"]),
    }
    assert report.output_tokens_seen == truth["output_tokens"]
    assert trace.requests.output_tokens.sum() == truth["output_tokens"]
    assert len(trace.requests) == report.rows_used
    assert report.rows_read == report.rows_used + report.rejected_count()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_arrivals_and_lengths_of_finished_requests(
    shared: Path, expected: dict[str, dict[str, object]], name: str
) -> None:
    folder = shared / "traces" / "format_samples"
    truth = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["truth"]
    finished = [row for row in truth if row["out"]]
    requests = load_trace([str(folder / name)]).requests
    if name == "dirty_generic.csv":  # has a row of its own, and cuts fractions of some times
        keep = requests.input_tokens != 12
        assert sorted(requests.input_tokens[keep]) == sorted(row["inp"] for row in finished)
        return
    assert requests.input_tokens.tolist() == [row["inp"] for row in finished]
    assert requests.output_tokens.tolist() == [row["out"] for row in finished]
    # Tolerances: 1 s where the format writes whole seconds, 3 s for Mooncake's batches,
    # 0.25 s for the row that Azure 2024 writes without its fraction, else float noise.
    coarse = {"burstgpt_v1.csv": 1.0, "burstgpt_v2.csv": 1.0, "aibrix_workload.jsonl": 1.0,
              "mooncake.jsonl": 3.0, "azure2024.csv": 0.251}  # fmt: skip
    times = [row["dt"] - finished[0]["dt"] for row in finished]
    np.testing.assert_allclose(requests.arrival_s, times, atol=coarse.get(name, 1.1e-6))


@pytest.mark.parametrize("name", sorted(NO_PLAN))
def test_formats_without_tokens_or_times_say_so(shared: Path, name: str) -> None:
    with pytest.raises(InputError, match=NO_PLAN[name]) as caught:
        load_trace([str(shared / "traces" / "format_samples" / name)])
    assert caught.value.problems[0].hint


def test_unknown_outputs_are_told_apart(
    shared: Path, expected: dict[str, dict[str, object]]
) -> None:
    """The cancelled request's output is unknown in every log that holds the request."""
    unknown = ("output_unknown_cancelled", "output_tokens_missing", "output_tokens_zero",
               "output_tokens_minus_one", "input_tokens_missing")  # fmt: skip
    for name in FORMATS:
        if not expected[name]["output_unknown"] or name in {
            "inference_perf_per_request.json",  # both say only "error" for the cancelled request
            "vllm_bench_serve.json",
        }:
            continue
        report = load_trace([str(shared / "traces" / "format_samples" / name)]).report
        assert report.rejected_count(*unknown) == expected[name]["output_unknown"], name


@pytest.mark.parametrize(
    ("path", "rows", "span_h", "input_mean", "output_mean"),
    [
        ("azure2023/AzureLLMInferenceTrace_conv.csv", 19_366, 0.97, 1_155, 211),
        ("azure2023/AzureLLMInferenceTrace_code.csv", 8_819, 0.95, 2_048, 28),
        ("mooncake/conversation_trace.jsonl", 12_031, 0.98, 12_035, 343),
        ("mooncake/synthetic_trace.jsonl", 3_993, 0.28, 15_325, 149),
        ("servegen/servegen_m-large_7day_100k.parquet", 101_088, 168, 783, 118),
    ],
)
def test_real_traces_agree_with_published_statistics(
    shared: Path, path: str, rows: int, span_h: float, input_mean: int, output_mean: int
) -> None:
    trace = load_trace([str(shared / "traces" / path)])
    requests = trace.requests
    assert len(requests) == rows == trace.report.rows_read
    assert requests.span_s / 3600 == pytest.approx(span_h, abs=0.006)  # printed with two decimals
    assert requests.input_tokens.mean() == pytest.approx(input_mean, abs=0.51)  # printed rounded
    assert requests.output_tokens.mean() == pytest.approx(output_mean, abs=0.51)
    assert (np.diff(requests.arrival_s) >= 0).all()


@pytest.mark.parametrize(
    ("name", "blocks", "unique", "hit_requests", "reuse"),
    [
        ("conversation", 288_500, 182_790, 0.9999, 0.3736),
        ("synthetic", 121_877, 43_924, 0.4463, 0.6512),
    ],
)
def test_prefix_reuse_of_an_infinite_cache(
    shared: Path, name: str, blocks: int, unique: int, hit_requests: float, reuse: float
) -> None:
    requests = load_trace([str(shared / "traces" / "mooncake" / f"{name}_trace.jsonl")]).requests
    assert requests.block_tokens == 512
    assert len(requests.block_ids) == requests.block_offset[-1] == blocks
    assert len(np.unique(requests.block_ids)) == unique == requests.block_ids.max() + 1
    share = requests.cached_tokens.sum() / requests.input_tokens.sum()
    assert share == pytest.approx(reuse, abs=5.1e-5)  # printed with two decimals of a per cent
    assert (requests.cached_tokens > 0).mean() == pytest.approx(hit_requests, abs=5.1e-5)


def test_the_large_day_is_fast_and_in_order(shared: Path) -> None:
    path = shared / "traces" / "servegen" / "servegen_deepseek-r1_1day_full.parquet"
    begin = time.perf_counter()
    trace = load_trace([str(path)])
    elapsed = time.perf_counter() - begin
    assert len(trace.requests) == 1_382_674
    # The file is sorted: any disorder would have been made while reading it.
    assert not [mark for mark in trace.report.flagged if mark["reason"] == "out_of_order"]
    # About 0.4 s alone on one core: the bound only catches a change of order, whatever else runs.
    assert elapsed < 6


def test_servegen_makes_no_calendar_of_its_invented_date(shared: Path) -> None:
    path = shared / "traces" / "servegen" / "servegen_m-large_7day_100k.parquet"
    trace = load_trace([str(path)])
    assert trace.requests.origin == ""
    assert any("invented date" in text for text in trace.report.assumptions)
