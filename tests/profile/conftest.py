"""Requests built by hand, and the reference traces read without the ingest stage."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.ingest.requests import Requests


@pytest.fixture(scope="session")
def samples() -> SimpleNamespace:
    return SimpleNamespace(
        requests=requests,
        with_blocks=with_blocks,
        azure=azure,
        mooncake=mooncake,
        servegen=servegen,
    )


def requests(arrival_s, input_tokens, output_tokens, *, classes=None, **more: Any) -> Requests:
    """Return Requests sorted by arrival and counted from the first one."""
    times = np.asarray(arrival_s, np.float64)
    order = np.argsort(times, kind="stable")
    names = tuple(dict.fromkeys(classes)) if classes else ("all",)
    class_id = [names.index(name) for name in classes] if classes else np.zeros(len(times))
    zeros = np.zeros(len(times), np.int64)
    given = {"cached_tokens": zeros, "session_id": zeros - 1} | more
    return Requests(
        arrival_s=times[order] - (times.min() if len(times) else 0.0),
        input_tokens=np.asarray(input_tokens, np.int64)[order],
        output_tokens=np.asarray(output_tokens, np.int64)[order],
        class_id=np.asarray(class_id, np.int64)[order],
        class_names=names,
        **given,
    )


def with_blocks(prompts: list[list[int]], block_tokens: int, **more: Any) -> Requests:
    """Return one request a second whose prompts are whole blocks."""
    lengths = np.array([len(prompt) for prompt in prompts], np.int64)
    return requests(
        np.arange(len(prompts)),
        lengths * block_tokens,
        np.ones(len(prompts)),
        block_tokens=block_tokens,
        block_offset=np.concatenate([[0], np.cumsum(lengths)]),
        block_ids=np.array([block for prompt in prompts for block in prompt], np.int64),
        **more,
    )


def azure(traces: Path, name: str) -> Requests:
    import polars as pl

    frame = pl.read_csv(traces / f"azure2023/AzureLLMInferenceTrace_{name}.csv")
    moment = frame["TIMESTAMP"].str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns")
    epoch_ns = moment.dt.epoch("ns").to_numpy()
    return requests(
        (epoch_ns - epoch_ns.min()) / 1e9,
        frame["ContextTokens"].to_numpy(),
        frame["GeneratedTokens"].to_numpy(),
        origin="2023-11-16T18:15:46+00:00",
    )


def mooncake(traces: Path, name: str) -> Requests:
    with (traces / f"mooncake/{name}_trace.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    counts = [len(row["hash_ids"]) for row in rows]
    return requests(
        [row["timestamp"] / 1000 for row in rows],
        [row["input_length"] for row in rows],
        [row["output_length"] for row in rows],
        block_tokens=512,
        block_offset=np.concatenate([[0], np.cumsum(counts)]),
        block_ids=np.concatenate([row["hash_ids"] for row in rows]).astype(np.int64),
    )


def servegen(traces: Path, name: str) -> Requests:
    import polars as pl

    frame = pl.read_parquet(traces / f"servegen/servegen_{name}.parquet")
    columns = [frame[c].to_numpy() for c in ("timestamp", "input_tokens", "output_tokens")]
    return requests(*columns)
