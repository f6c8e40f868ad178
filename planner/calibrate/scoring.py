"""Errors of predictions by set, metric and column of the points; what was not scored, and why."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate.measured import (
    METRICS,
    SETS,
    Row,
    dataset,
    figures,
    rate_is_measured,
    text,
)
from planner.calibrate.names import family
from planner.calibrate.runs import Predicted, predict_row
from planner.output import write_whole

MEASURED, DERIVED = "tok/s measured", "tok/s derived"
SHOWN = (*METRICS, MEASURED, DERIVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One row of a points file with its prediction."""

    row: Row
    predicted: Predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Errors of one group: predictions over measurements − 1, in per cent."""

    metric: str
    group: tuple[str, ...]  # the set, then the columns asked for
    scored: int
    eligible: int
    median_ape_pct: float
    mean_ape_pct: float
    p90_ape_pct: float
    bias_pct: float


def predict_rows(rows: Iterable[Row]) -> list[Scored]:
    """Predict every row of a points file."""
    return [Scored(row=row, predicted=predict_row(row)) for row in rows]


def score(found: Sequence[Scored], by: Sequence[str] = ()) -> list[Line]:
    """Return errors by metric and group, in the order of the scoring script."""
    errors: dict[tuple[str, tuple[str, ...]], list[float]] = {}
    eligible: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for item in found:
        group = (dataset(item.row), *(column(item.row, name) for name in by))
        for metric, value, predicted in comparisons(item):
            eligible[metric, group] += 1
            if predicted is not None and predicted > 0:
                errors.setdefault((metric, group), []).append(predicted / value - 1.0)
    keys = sorted(eligible, key=lambda k: (SHOWN.index(k[0]), SETS.index(k[1][0]), k[1]))
    return [_line(key, errors[key], eligible[key]) for key in keys if key in errors]


def column(row: Row, name: str) -> str:
    """Return a column to group by; "family" is the model without size suffixes and formats."""
    return family(text(row, "model")) if name == "family" else text(row, name)


def comparisons(item: Scored) -> Iterable[tuple[str, float, float | None]]:
    """Yield every comparable metric of a row: its value and the prediction, in the file's units."""
    predicted = item.predicted
    ttft = None if predicted.ttft_s is None else 1e3 * predicted.ttft_s
    tpot = None if predicted.tpot_s is None else 1e3 * predicted.tpot_s
    values: Mapping[str, float | None] = {
        "TPOT": tpot,
        "TTFT": ttft,
        "TTFT(queued)": ttft,
        "tok/s": predicted.output_tokens_per_s,
    }
    for metric, figure in figures(item.row).items():
        if figure.excluded or figure.value is None:
            continue
        yield metric, figure.value, values[metric]
        if metric == "tok/s":
            yield (
                MEASURED if rate_is_measured(item.row) else DERIVED,
                figure.value,
                values[metric],
            )


def _line(key: tuple[str, tuple[str, ...]], errors: Sequence[float], eligible: int) -> Line:
    signed = 100.0 * np.asarray(errors)
    absolute = np.abs(signed)
    return Line(
        metric=key[0],
        group=key[1],
        scored=len(errors),
        eligible=eligible,
        median_ape_pct=float(np.median(absolute)),
        mean_ape_pct=float(np.mean(absolute)),
        p90_ape_pct=float(np.quantile(absolute, 0.9)),
        bias_pct=float(np.median(signed)),
    )


def coverage(found: Sequence[Scored]) -> dict[str, tuple[int, int]]:
    """Return by set how many rows were predicted, of how many."""
    total = Counter(dataset(item.row) for item in found)
    done = Counter(dataset(item.row) for item in found if item.predicted.status == "ok")
    return {name: (done[name], total[name]) for name in SETS if total[name]}


def unsupported(found: Sequence[Scored]) -> list[tuple[str, str, int]]:
    """Return (set, reason, rows) of what could not be predicted, most frequent first."""
    reasons = Counter(
        (dataset(item.row), item.predicted.status)
        for item in found
        if item.predicted.status != "ok"
    )
    return [(kind, reason, count) for (kind, reason), count in reasons.most_common()]


def table(lines: Sequence[Line], by: Sequence[str] = ()) -> str:
    """Return the errors as aligned text."""
    head = ["metric", "set", *by, "n", "cover", "medAPE%", "meanAPE%", "p90APE%", "bias%"]
    rows = [head]
    for line in lines:
        figures_ = (line.median_ape_pct, line.mean_ape_pct, line.p90_ape_pct, line.bias_pct)
        rows.append(
            [
                line.metric,
                *line.group,
                str(line.scored),
                f"{line.scored}/{line.eligible}",
                *(f"{value:.1f}" for value in figures_),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    words = 2 + len(by)
    return "".join(
        "  ".join(
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


def report(found: Sequence[Scored], by: Sequence[str] = ()) -> str:
    """Return tables, coverage and reasons as text."""
    text_ = table(score(found, by), by)
    shares = (f"{name} {done}/{total}" for name, (done, total) in coverage(found).items())
    text_ += "\npredicted rows: " + ", ".join(shares) + "\n"
    for kind, reason, count in unsupported(found):
        text_ += f"unsupported  {count:>5}  {kind:<9} {reason}\n"
    return text_


def as_data(found: Sequence[Scored], by: Sequence[str] = ()) -> dict[str, Any]:
    """Return the same as plain data."""
    names = ("set", *by)
    return {
        "coverage": {name: {"predicted": d, "rows": n} for name, (d, n) in coverage(found).items()},
        "errors": [
            {
                "metric": line.metric,
                **dict(zip(names, line.group, strict=True)),
                "n": line.scored,
                "eligible": line.eligible,
                "median_ape_pct": round(line.median_ape_pct, 3),
                "mean_ape_pct": round(line.mean_ape_pct, 3),
                "p90_ape_pct": round(line.p90_ape_pct, 3),
                "bias_pct": round(line.bias_pct, 3),
            }
            for line in score(found, by)
        ],
        "unsupported": [
            {"set": kind, "reason": reason, "rows": count}
            for kind, reason, count in unsupported(found)
        ],
    }


def write_predictions(found: Iterable[Scored], path: Path, *, inputs: Iterable[Path] = ()) -> None:
    """Write point_id, ttft_ms, tpot_ms, out_tok_s, status; unsupported rows have blanks."""
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["point_id", "ttft_ms", "tpot_ms", "out_tok_s", "status"])
    for item in found:
        predicted = item.predicted
        writer.writerow(
            [
                text(item.row, "point_id"),
                _cell(predicted.ttft_s, 1e3),
                _cell(predicted.tpot_s, 1e3),
                _cell(predicted.output_tokens_per_s, 1.0),
                predicted.status,
            ]
        )
    content = lines.getvalue().encode()
    write_whole(path, lambda stream: stream.write(content), inputs=inputs)


def _cell(value: float | None, scale: float) -> str:
    return "" if value is None or not np.isfinite(value) else f"{scale * value:.4f}"
