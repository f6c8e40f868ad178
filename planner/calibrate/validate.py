"""Compare predictions with measured serving points: `python -m planner.calibrate.validate FOLDER`.

FOLDER holds `e2e_points.csv`. Prints errors by engine, GPU or family and writes predictions.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.calibrate.measured import Measured, Row, is_main, measured
from planner.calibrate.points import Point, Unsupported, point, read_points
from planner.perf.calibrations import calibration
from planner.perf.closed_loop import ClosedLoop, closed_loop
from planner.perf.compile import compile_step_cost
from planner.perf.memory import memory_budget
from planner.spec.calibration import Calibration
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One row, what was measured, what is predicted."""

    row: Row
    point: Point
    measured: Measured
    predicted: ClosedLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Absolute relative errors of a group, and their signed median."""

    count: int
    median: float
    p90: float
    bias: float


def predict(
    item: Point,
    efficiencies: Callable[[Gpu], Calibration] = calibration,
    engine: Engine | None = None,
) -> ClosedLoop:
    """Return the closed loop of one point; where the model does not fit, KV never binds."""
    used = engine or item.engine
    cost = compile_step_cost(item.model, item.gpu, used, efficiencies(item.gpu), item.deployment)
    return closed_loop(cost, item.load, resident_tokens(item, used), item.mixes)


def resident_tokens(item: Point, engine: Engine) -> float:
    """Return KV tokens of one rank; a model that does not fit by our account ran all the same."""
    budget = memory_budget(item.model, item.gpu, engine, item.deployment)
    return budget.kv_tokens / item.deployment.data_parallel_size or float("inf")


def predictions(
    rows: Iterable[Row], efficiencies: Callable[[Gpu], Calibration] = calibration
) -> tuple[list[Prediction], Counter[str]]:
    """Return a prediction for every main row that is supported, and why the others are not."""
    found, refused = [], Counter[str]()
    for row in rows:
        if not is_main(row):
            continue
        try:
            item = point(row)
        except Unsupported as reason:
            refused[str(reason)] += 1
            continue
        found.append(
            Prediction(
                row=row,
                point=item,
                measured=measured(row),
                predicted=predict(item, efficiencies),
            )
        )
    return found, refused


def tpot_errors(found: Iterable[Prediction]) -> list[float]:
    """Return signed relative TPOT errors of the rows that measured it."""
    return [
        item.predicted.tpot_s / item.measured.tpot_s - 1.0
        for item in found
        if item.measured.tpot_s is not None
    ]


def ttft_errors(found: Iterable[Prediction]) -> list[float]:
    """Return signed relative TTFT errors of the rows that measured one that is no queue."""
    return [
        item.predicted.ttft_s / item.measured.ttft_s - 1.0
        for item in found
        if item.measured.ttft_s is not None
    ]


def summarise(errors: Sequence[float]) -> Errors:
    """Return count, median and P90 of the absolute errors, and the median signed error."""
    values = np.asarray(errors, dtype=np.float64)
    absolute = np.abs(values)
    return Errors(
        count=len(values),
        median=float(np.median(absolute)),
        p90=float(np.quantile(absolute, 0.9)),
        bias=float(np.median(values)),
    )


def write_predictions(found: Iterable[Prediction], path: Path) -> None:
    """Write point_id, ttft_ms, tpot_ms, out_tok_s, status."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["point_id", "ttft_ms", "tpot_ms", "out_tok_s", "status"])
        for item in found:
            loop = item.predicted
            ranks = item.point.deployment.data_parallel_size
            writer.writerow(
                [
                    item.point.id,
                    f"{1e3 * loop.ttft_s:.4f}",
                    f"{1e3 * loop.tpot_s:.4f}",
                    f"{ranks * loop.output_tokens_per_s:.2f}",
                    "ok",
                ]
            )


def table(found: Sequence[Prediction], by: Callable[[Prediction], str]) -> str:
    """Return TPOT and TTFT errors by group, one line each."""
    groups: dict[str, list[Prediction]] = {"all": list(found)}
    for item in found:
        groups.setdefault(by(item), []).append(item)
    lines = []
    for name, members in groups.items():
        for metric, errors in (("TPOT", tpot_errors(members)), ("TTFT", ttft_errors(members))):
            if errors:
                e = summarise(errors)
                lines.append(
                    f"{metric} {name:<44} n {e.count:>4}  median {e.median:6.1%}"
                    f"  p90 {e.p90:6.1%}  bias {e.bias:+6.1%}\n"
                )
    return "".join(sorted(lines))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print errors by engine and by GPU; `--out` writes the predictions."""
    parser = argparse.ArgumentParser(prog="planner.calibrate.validate", description=__doc__)
    parser.add_argument("groundtruth", type=Path, help="folder with e2e_points.csv")
    parser.add_argument("--out", type=Path, help="predictions.csv to write")
    options = parser.parse_args(arguments)
    found, refused = predictions(read_points(options.groundtruth / "e2e_points.csv"))
    sys.stdout.write(table(found, lambda item: item.point.engine.id))
    sys.stdout.write(table(found, lambda item: item.point.gpu.id).replace("all", "every GPU"))
    for reason, count in refused.most_common():
        sys.stdout.write(f"unsupported {count:>4}  {reason}\n")
    if options.out:
        write_predictions(found, options.out)


if __name__ == "__main__":
    main()
