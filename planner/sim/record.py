"""A replay as plain data: for `--json`, and a table of every request."""

from __future__ import annotations

import math
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.ingest.requests import Requests
from planner.sim.metrics import distribution
from planner.sim.refusals import REASONS
from planner.sim.replay import Replay

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def to_dict(replay: Replay, wall_s: float) -> dict[str, object]:
    """Return the replay's figures; what was not measured or is unbounded is null.

    Parameters
    ----------
    replay
        The finished replay.
    wall_s
        Seconds it took.
    """
    totals = replay.totals
    found = {"pipeline": {"bubble_s": plain(distribution(replay.bubble_s))}}
    return {
        **(found if len(replay.bubble_s) else {}),
        "replay": {
            "requests": len(replay),
            "events": totals.events,
            "wall_s": wall_s,
            "requests_per_s": len(replay) / wall_s,
            "preemptions": totals.preemptions,
            "rejected": replay.rejection_counts(),
            "replicas": replay.replicas,
            "routing": replay.routing,
            "seed": replay.seed,
        },
        "totals": plain(totals),
        "classes": [plain(each) for each in replay.classes()],
        "targets": [
            {
                **{key: plain(value) for key, value in asdict(result).items() if key != "target"},
                **asdict(result.target),
                "holds": result.holds,
            }
            for result in replay.targets
        ],
        "series": plain(replay.series),
    }


def plain(value: object) -> object:
    """Return dataclasses, arrays and numbers as JSON knows them.

    >>> plain((1.5, float("nan"), np.arange(2), {"a": np.float64(2.0)}))
    [1.5, None, [0, 1], {'a': 2.0}]
    """
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _fields(value: DataclassInstance) -> dict[str, object]:
    return {key: plain(each) for key, each in asdict(value).items()}


def write_requests(requests: Requests, replay: Replay, path: Path) -> None:
    """Write one row for each request of the trace as Parquet; nothing half-written remains."""
    import polars as pl

    from planner.output import write_whole

    names = np.array(requests.class_names)
    table = pl.DataFrame(
        {
            "arrival_s": replay.arrival_s,
            "class": names[requests.class_id],
            "input_tokens": requests.input_tokens,
            "output_tokens": requests.output_tokens,
            "replica": replay.replica,
            "queue_s": replay.queue_s,
            "ttft_s": replay.ttft_s,
            "tpot_s": replay.tpot_s,
            "e2e_s": replay.e2e_s,
            "preemptions": replay.preemptions,
            "rejected": np.array(REASONS)[replay.rejected],
        }
    )
    write_whole(path, table.write_parquet)
