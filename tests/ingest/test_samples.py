"""Every usable format, one tiny invented file each: detected by content, read to one truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.ingest.detect import NAMES
from planner.ingest.load import load_trace

SAMPLES = Path(__file__).parent / "samples"
FILES = sorted(SAMPLES.iterdir())

# The four requests that every sample holds, written once more by hand.
ARRIVAL_S = [0.0, 1.5, 1.5, 7.25]
INPUT = [100, 2000, 40, 640]
OUTPUT = [20, 300, 1, 64]
TTFT_S = [0.2, 0.4, 0.1, 0.3]
E2E_S = [1.0, 9.0, 0.1, 2.5]
CACHED = [0, 1024, 0, 512]
SESSIONS = [0, 1, 2, 0]
ORIGIN = "2025-05-05T12:00:00.000000+00:00"

CALENDAR = {
    "azure-2023", "azure-2024", "azure-multimodal", "canonical.jsonl", "litellm", "langfuse",
    "helicone", "kong", "envoy", "openrouter", "portkey", "otel-genai", "vllm-otlp", "aiperf",
}  # fmt: skip
WITH_TTFT = {
    "canonical.jsonl", "litellm", "langfuse", "helicone", "openrouter", "otel-genai", "vllm-otlp",
    "aiperf", "vllm-bench",
}  # fmt: skip
WITH_E2E = (WITH_TTFT - {"vllm-bench"}) | {
    "burstgpt-v2", "kong", "envoy", "portkey", "inference-perf",
}  # fmt: skip
WITH_CACHED = {
    "canonical.jsonl", "litellm", "langfuse", "helicone", "openrouter", "otel-genai",
    "inference-perf",
}  # fmt: skip
WITH_SESSIONS = {
    "canonical.jsonl", "canonical.csv", "litellm", "langfuse", "helicone", "portkey", "otel-genai",
    "aiperf", "inference-perf", "qwen-bailian",
}  # fmt: skip
ALTERNATING = {  # class of the first and third request, class of the second and fourth
    "burstgpt-v1": ("Conversation log", "API log"),
    "burstgpt-v2": ("Conversation log", "API log"),
    "canonical.csv": ("chat", "rag"),
    "canonical.jsonl": ("chat", "rag"),
    "qwen-bailian": ("text", "search"),
    "servegen": ("language", "language"),
}


def key(path: Path) -> str:
    return path.name if path.stem == "canonical" else path.stem


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_sample_reads_as_the_same_four_requests(path: Path) -> None:
    trace = load_trace([str(path)])
    requests, name = trace.requests, key(path)
    assert trace.report.format == path.stem
    assert trace.report.format_reason.startswith("detected by ")
    # Times are written with at least microseconds: 1e-6 s, and float noise of 9e3 s bases.
    np.testing.assert_allclose(requests.arrival_s, ARRIVAL_S, atol=1.1e-6)
    assert requests.input_tokens.tolist() == INPUT
    assert requests.output_tokens.tolist() == OUTPUT
    assert requests.origin == (ORIGIN if name in CALENDAR else "")
    odd, even = ALTERNATING.get(name, ("all", "all"))
    assert requests.class_names == tuple(sorted({odd, even}))
    classes = [requests.class_names[number] for number in requests.class_id]
    assert classes == [odd, even, odd, even]
    if name in WITH_TTFT:
        np.testing.assert_allclose(requests.observed_ttft_s, TTFT_S, atol=2e-6)
    else:
        assert np.isnan(requests.observed_ttft_s).all()
    if name in WITH_E2E:
        np.testing.assert_allclose(requests.observed_e2e_s, E2E_S, atol=2e-6)
    else:
        assert np.isnan(requests.observed_e2e_s).all()
    if name in WITH_CACHED:
        assert requests.cached_tokens.tolist() == CACHED
    if name in WITH_SESSIONS:
        assert requests.session_id.tolist() == SESSIONS
    elif name == "burstgpt-v2":  # blank on API rows: unknown, not a session of its own
        assert requests.session_id.tolist() == [0, -1, 1, -1]
    else:
        assert set(requests.session_id.tolist()) == {-1}


def test_there_is_a_sample_of_every_usable_format() -> None:
    assert {path.stem for path in FILES} == set(NAMES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_format_can_be_named_instead(path: Path) -> None:
    trace = load_trace([str(path)], fmt=path.stem.upper().replace("-", "_"))
    assert trace.report.format == path.stem
    assert trace.report.format_reason == "named by --format"
    assert len(trace.requests) == 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_assumption_is_a_sentence_and_nothing_is_rejected(path: Path) -> None:
    report = load_trace([str(path)]).report
    assert all(text and text[0].strip() for text in report.assumptions)
    assert len(set(report.assumptions)) == len(report.assumptions)
    expected = 1 if path.stem == "langfuse" else 0  # its one span is no request
    assert report.rejected_count() == expected
    assert report.rows_read == report.rows_used + expected == 4 + expected


def test_block_formats_keep_their_blocks_and_count_the_leading_prefix() -> None:
    moon = load_trace([str(SAMPLES / "mooncake.jsonl")]).requests
    assert moon.block_tokens == 512
    # 100, 2000, 40 and 640 tokens are 1, 4, 1 and 2 blocks; the last shares the first block.
    assert moon.block_offset.tolist() == [0, 1, 5, 6, 8]
    assert moon.block_ids.tolist() == [0, 1, 2, 3, 4, 5, 0, 6]
    assert moon.cached_tokens.tolist() == [0, 0, 0, 512]
    qwen = load_trace([str(SAMPLES / "qwen-bailian.jsonl")]).requests
    assert qwen.block_tokens == 16
    assert qwen.cached_tokens.tolist() == [0, 0, 0, 7 * 16]  # all of the first prompt's blocks
