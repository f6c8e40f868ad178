"""Whatever container a canonical trace is written in, the same requests come back, every time."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.ingest.load import load_trace
from planner.ingest.prefix import leading_hits, number_by_first_use
from planner.ingest.report import LoadedTrace
from planner.ingest.requests import Requests

tokens = st.integers(min_value=1, max_value=10_000_000)
label = st.sampled_from(["chat", "rag", "it's", "a,b", 'say "x"', "ünï"])
row = st.fixed_dictionaries(
    {
        "arrival_s": st.floats(min_value=0, max_value=3e8, allow_subnormal=False),
        "input_tokens": tokens,
        "output_tokens": tokens,
        "class": label,
        "session_id": st.one_of(st.none(), st.sampled_from(["s1", "s2", "0 s"])),
        "ttft_s": st.one_of(st.none(), st.floats(min_value=0, max_value=1e6)),
    }
)


def same(left: Requests, right: Requests) -> None:
    for field in dataclasses.fields(Requests):
        one, two = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == two.dtype, field.name
            np.testing.assert_array_equal(one, two, err_msg=field.name)
        else:
            assert one == two, field.name


def read(folder: Path, name: str, content: str) -> LoadedTrace:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return load_trace([str(path)])


@settings(max_examples=15, deadline=None)
@given(rows=st.lists(row, min_size=1, max_size=30, unique_by=lambda item: item["arrival_s"]))
def test_csv_json_lines_and_parquet_give_the_same_requests(rows: list[dict[str, object]]) -> None:
    frame = pl.DataFrame(rows, schema_overrides={"session_id": pl.String, "ttft_s": pl.Float64})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame.write_parquet(folder / "t.parquet")
        parquet = load_trace([str(folder / "t.parquet")]).requests
        csv_text = frame.write_csv(float_scientific=False)
        csv = read(folder, "t.csv", csv_text).requests
        lines = read(folder, "t.jsonl", "".join(json.dumps(item) + "\n" for item in rows)).requests
        document = read(folder, "t.json", json.dumps(rows, indent=1)).requests
    ordered = frame.sort("arrival_s", maintain_order=True)
    np.testing.assert_array_equal(parquet.input_tokens, ordered["input_tokens"].to_numpy())
    np.testing.assert_array_equal(parquet.output_tokens, ordered["output_tokens"].to_numpy())
    times = ordered["arrival_s"].to_numpy()
    np.testing.assert_array_equal(parquet.arrival_s, times - times[0])
    assert [parquet.class_names[i] for i in parquet.class_id] == ordered["class"].to_list()
    same(csv, parquet)
    same(lines, parquet)
    same(document, parquet)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 12), max_size=6), min_size=1, max_size=12))
def test_leading_hits_against_a_plain_set(prompts: list[list[int]]) -> None:
    seen: set[int] = set()
    expected = []
    for prompt in prompts:
        hits = 0
        while hits < len(prompt) and prompt[hits] in seen:
            hits += 1
        expected.append(hits)
        seen.update(prompt)
    flat = np.array([item for prompt in prompts for item in prompt], np.uint64)
    offset = np.cumsum([0, *map(len, prompts)])
    ids = number_by_first_use(flat)
    assert leading_hits(ids, offset).tolist() == expected
    mapping = {int(key): int(number) for key, number in zip(flat, ids, strict=True)}
    assert [mapping[int(key)] for key in flat] == ids.tolist()
    assert list(dict.fromkeys(ids.tolist())) == list(range(len(mapping)))


@pytest.mark.parametrize("rows", [300_000])
def test_large_files_come_back_in_file_order(tmp_path: Path, rows: int) -> None:
    """All rows tie, so any shuffling by the reader would show."""
    rng = np.random.default_rng(1)
    values = rng.integers(1, 5000, rows)
    frame = pl.DataFrame({"arrival_s": np.zeros(rows), "input_tokens": values, "output_tokens": 7})
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=20_000)
    frame.write_csv(tmp_path / "t.csv")
    for name in ("t.parquet", "t.csv"):
        requests = load_trace([str(tmp_path / name)]).requests
        np.testing.assert_array_equal(requests.input_tokens, values)


def test_the_same_input_gives_the_same_story_in_another_process(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    n = 5000
    frame = pl.DataFrame(
        {
            "arrival_s": rng.integers(0, 3000, n).astype(float),
            "input_tokens": rng.integers(0, 50, n),
            "output_tokens": rng.integers(-1, 9, n),
            "class": [f"c{i}" for i in rng.integers(0, 9, n)],
            "session_id": rng.integers(0, 400, n),
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    code = (
        "import hashlib, sys; from planner.ingest.load import load_trace; "
        "t = load_trace(['t.csv']); r = t.requests; "
        "h = hashlib.sha256(); "
        "[h.update(a.tobytes()) for a in (r.arrival_s, r.input_tokens, r.output_tokens, "
        "r.class_id, r.session_id)]; print(h.hexdigest(), t.report)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
