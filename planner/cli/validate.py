"""`planner validate`: the planner's predictions against measurements, errors included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from planner.calibrate.measured import Row

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(
    epilog="""\b
Example:
  planner validate --points e2e_points.csv --out predictions.csv --by engine,gpu
  planner validate --kv-cases kv_cases.csv --json
  planner validate --open-loop open_loop_requests.csv --runs open_loop_runs.csv
""",
)
@click.option("--points", type=FILE, help="Measured serving points, one a row (CSV).")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the predictions of --points here (CSV)."
)
@click.option(
    "--by", default="", metavar="COLUMNS", help="Group errors: gpu, engine, family or any column."
)
@click.option("--kv-cases", type=FILE, help="Engine start-ups: memory, KV tokens, refusals (CSV).")
@click.option("--open-loop", type=FILE, help="Per-request times of open-loop runs (CSV).")
@click.option("--runs", type=FILE, help="The deployments of those runs (CSV).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    points: Path | None,
    out: Path | None,
    by: str,
    kv_cases: Path | None,
    open_loop: Path | None,
    runs: Path | None,
    as_json: bool,
) -> None:
    """Predict measured serving points, start-ups or open-loop runs and print the errors.

    TPOT, TTFT and output throughput of every supported row are compared with what was measured:
    median, mean and P90 of the absolute percentage error, and the bias (median signed error).
    Rows that cannot be predicted are counted with the reason. Medians of inter-token latencies are
    never used, bursts have no comparable TTFT, and rows flagged as bad are left out by name.
    """
    if bool(open_loop) != bool(runs):
        raise click.UsageError("--open-loop and --runs go together")
    if out and not points:
        raise click.UsageError("--out needs --points")
    if not (points or kv_cases or open_loop):
        raise click.UsageError("give --points, --kv-cases or --open-loop with --runs")
    if points:
        _points(points, out, tuple(name for name in by.split(",") if name), as_json)
    if kv_cases:
        _kv_cases(kv_cases, as_json)
    if open_loop and runs:
        _open_loop(open_loop, runs, as_json)


def _points(path: Path, out: Path | None, by: tuple[str, ...], as_json: bool) -> None:
    from planner.calibrate import scoring
    from planner.calibrate.points import read_points

    rows = read_points(path, required=("point_id", "model", "gpu", "engine"))
    _refuse_unknown(by, rows)
    found = scoring.predict_rows(rows)
    if out:
        scoring.write_predictions(found, out, inputs=(path,))
    if as_json:
        _print(scoring.as_data(found, by))
    else:
        click.echo(scoring.report(found, by), nl=False)


def _refuse_unknown(by: tuple[str, ...], rows: list[Row]) -> None:
    """Refuse to group by columns that the points do not have."""
    known = ["family", *(name for name in (rows[0] if rows else ()) if name)]
    unknown = [name for name in by if rows and name not in known]
    if unknown:
        raise click.BadParameter(
            f"no column {', '.join(unknown)}; there are {', '.join(sorted(known))}",
            param_hint="--by",
        )


def _kv_cases(path: Path, as_json: bool) -> None:
    from planner.calibrate import kv_cases
    from planner.calibrate.points import read_points

    rows = read_points(path, required=("case_id", "model", "gpu", "engine"))
    results = kv_cases.judged(rows)
    if as_json:
        _print(kv_cases.summary(results))
    else:
        click.echo(kv_cases.report(results), nl=False)


def _open_loop(requests: Path, runs: Path, as_json: bool) -> None:
    from planner.calibrate import open_loop
    from planner.calibrate.points import read_points

    results = open_loop.replay_runs(
        read_points(requests, required=("run", "arrival_s", "input", "output")),
        read_points(runs, required=("run", "engine", "gpu", "model")),
    )
    if as_json:
        _print(open_loop.summary(results))
    else:
        click.echo(open_loop.report(results), nl=False)


def _print(data: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True))
