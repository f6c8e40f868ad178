"""recommend() and plan_fleet(): the stages of each in one function, and the Python API."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import planner
from planner.errors import InputError, Problem

if TYPE_CHECKING:
    from planner.ingest.report import IngestReport
    from planner.profile.types import TraceProfile
    from planner.solve.case import Case
    from planner.solve.fleet_plan.plan import FleetPlan
    from planner.solve.plan import IngestSummary, Plan, Provenance
    from planner.spec.gpu import Gpu
    from planner.spec.slo import Slo

Progress = Callable[[str], None]

ANY = "any"  # in place of a GPU
LIBRARIES = ("duckdb", "jinja2", "numba", "numpy", "polars", "scipy")


def recommend(
    traces: Sequence[str],
    gpus: Sequence[str],
    slo_file: Path,
    *,
    output: Path | None = None,
    fmt: str | None = None,
    time_unit: str | None = None,
    model: str | None = None,
    name: str | None = None,
    share_or_split: bool = False,
    progress: Progress = lambda _: None,
) -> Plan:
    """Return the recommendation for a trace, and write its report where `output` says.

    Parameters
    ----------
    traces
        Files, directories or globs of one log format.
    gpus
        Catalogue ids or aliases; with several, each is solved and the cheapest plan wins. "any"
        stands for every GPU that slo.yaml allows or, where it names none, that has a price.
    slo_file
        What the service must promise.
    output
        Directory of the report; None writes none.
    fmt
        Log format, instead of detecting it.
    time_unit
        Unit of the log's times ("s", "ms", "us", "ns"), instead of detecting it.
    model
        Overrides the model that slo.yaml names.
    name
        Name of the plan; by default trace and GPU as typed.
    share_or_split
        Solve pools of their own for classes where equations do not rule out that they are cheaper.
    progress
        Called with each stage.

    Raises
    ------
    InputError
        Something declared is wrong, or the report cannot be written.
    InfeasibleError
        No configuration fits or holds.
    """
    from planner.ingest.load import load_trace
    from planner.profile.profile import profile_requests
    from planner.report.render import write_report
    from planner.solve.recommend import Context, solve
    from planner.spec.slo_file import load_slo

    if output is not None:
        check_writable(output)
    slo = load_slo(slo_file)
    if model is not None:
        slo = replace(slo, model=model)
    parts = _gpus(gpus, slo)
    progress("reading the trace")
    trace = load_trace(list(traces), fmt=fmt, time_unit=time_unit, classes=slo.classes)
    progress("profiling")
    profile = profile_requests(trace.requests)
    case = _case(slo, parts, trace.requests, profile)
    context = Context(
        name=name or plan_name(traces, gpus),
        ingest=_summary(trace.report),
        slo=_declared(slo),
        warnings=(*slo.warnings, *_cautions(profile, slo)),
        provenance=_provenance(
            traces,
            gpus,
            slo_file,
            trace.report.files,
            case,
            fmt,
            time_unit,
            model,
            share_or_split,
        ),
    )
    plan = solve(case, context, progress, share_or_split=share_or_split)
    if output is not None:
        progress("writing the report")
        write_report(plan, output)
    return plan


def plan_fleet(
    config: Path, *, output: Path | None = None, progress: Progress = lambda _: None
) -> FleetPlan:
    """Return the plan of the services in a fleet.yaml, and write its report where `output` says.

    Parameters
    ----------
    config
        Services, inventory, prices, growth and launches.
    output
        Directory of the report; None writes none.
    progress
        Called with each stage.

    Raises
    ------
    InputError
        Something declared is wrong, or the report cannot be written.
    InfeasibleError
        A service holds on none of its GPU types, or no fleet fits inventory and budget.
    """
    from planner.report.fleet import write_fleet
    from planner.solve.fleet_plan.make import Origin, make_fleet_plan
    from planner.spec.fingerprint import file_sha256
    from planner.spec.fleet_file import load_fleet

    if output is not None:
        check_writable(output)
    fleet, warnings = load_fleet(config)
    argv = ["planner", "fleet", "--config", shown(str(config))]
    argv += [] if output is None else ["--output", shown(str(output))]
    origin = Origin(
        name=config.stem if output is None else output.name,
        warnings=warnings,
        command=shlex.join(argv),
        planner_version=planner.__version__,
        inputs_sha256={shown(str(file)): file_sha256(file) for file in (config, *fleet.files)},
        library_versions={library: version(library) for library in LIBRARIES},
    )
    plan = make_fleet_plan(fleet, origin, progress)
    if output is not None:
        progress("writing the report")
        write_fleet(plan, output)
    return plan


def plan_name(traces: Sequence[str], gpus: Sequence[str]) -> str:
    """Return the name of a plan: the first trace's stem and the GPUs as typed.

    >>> plan_name(["traces/week42.parquet"], ["h100", "l40s"])
    'week42-h100-l40s'
    """
    stem = Path(traces[0]).name.split(".")[0] or "trace"
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in "-".join([stem, *gpus]))
    return safe.strip("-") or "plan"


def check_writable(directory: Path) -> None:
    """Raise an InputError now if the report could not be written there at the end."""
    try:
        problem = _in_the_way(directory)
    except OSError as error:  # a name too long
        problem = f"nothing can be written here: {error.strerror or error}"
    if problem:
        raise InputError(
            Problem(
                message=problem,
                file=str(directory),
                hint="choose a directory you may write to with --output",
            )
        )


def _in_the_way(directory: Path) -> str | None:
    """Return why a folder cannot be made or filled; links that lead nowhere are in the way."""
    with suppress(FileNotFoundError, NotADirectoryError):  # both are told below, with the culprit
        directory.stat()
    existing = directory
    while not existing.exists() and not existing.is_symlink() and existing != existing.parent:
        existing = existing.parent
    if existing.is_symlink() and not existing.exists():
        return f"{existing.name} is a link to a folder that does not exist"
    if not existing.is_dir():
        return f"{existing.name or existing} is not a directory"
    return _cannot_make(existing)


def _cannot_make(directory: Path) -> str | None:
    """Return why no folder can be made in a directory, by making one and removing it."""
    probe = directory / f".planner.{os.getpid()}.probe"
    try:
        probe.mkdir()
        probe.rmdir()
    except PermissionError:
        return "no permission to write here"
    except OSError as error:
        return f"nothing can be written here: {error.strerror or error}"
    return None


def _gpus(names: Sequence[str], slo: Slo) -> tuple[Gpu, ...]:
    """Return the GPUs asked for, each once; all problems of all names together."""
    from planner.spec import catalog

    found: dict[str, Gpu] = {}
    problems: list[Problem] = []
    for name in [each for given in names for each in _named(given, slo)]:
        try:
            gpu = catalog.gpu(name)
        except InputError as error:
            problems += error.problems
            continue
        if slo.gpus and gpu.id not in {catalog.gpu(allowed).id for allowed in slo.gpus}:
            allowed = ", ".join(slo.gpus)
            problems.append(
                Problem(
                    message=f"{gpu.id} is not among the GPUs that slo.yaml allows",
                    file=slo.file,
                    path="gpus",
                    hint=f"allowed: {allowed}",
                )
            )
        found[gpu.id] = gpu
    if problems:
        raise InputError(problems)
    if not found:
        raise InputError(Problem(message="no GPU given", hint="name one with --gpu, e.g. h100"))
    return tuple(found.values())


def _named(name: str, slo: Slo) -> tuple[str, ...]:
    """Return what one name given for --gpu stands for."""
    from planner.spec import catalog

    if name.lower() != ANY:
        return (name,)
    if slo.gpus:
        return slo.gpus
    return tuple(gpu.id for gpu in catalog.gpus() if _has_price(gpu, slo))


def _has_price(gpu: Gpu, slo: Slo) -> bool:
    declared = any(name in slo.prices_usd_per_hour for name in (gpu.id, *gpu.aliases))
    return declared or any(price.kind == "typical" for price in gpu.prices)


def _case(slo: Slo, gpus: tuple[Gpu, ...], requests: object, profile: TraceProfile) -> Case:
    from planner.ingest.requests import Requests
    from planner.perf.calibrations import calibration
    from planner.solve.case import Case
    from planner.spec import catalog

    assert isinstance(requests, Requests)
    return Case(
        model=catalog.model(slo.model),
        engine=catalog.engine(slo.engine, slo.engine_version),
        gpus=gpus,
        calibrations={gpu.id: calibration(gpu) for gpu in gpus},
        slo=slo,
        requests=requests,
        profile=profile,
    )


def _declared(slo: Slo) -> dict[str, object]:
    """Return what slo.yaml says, defaults filled in, as plain data."""
    told = ("file", "defaulted", "warnings")  # have places of their own in a plan
    data = {key: value for key, value in asdict(slo).items() if key not in told}
    for item in data["classes"]:
        if not item["priority"]:  # plans serve first come, first served
            del item["priority"]
    return data


def _summary(report: IngestReport) -> IngestSummary:
    from planner.solve.plan import IngestSummary

    return IngestSummary(
        files=tuple(shown(file) for file in report.files),
        format=report.format,
        format_reason=report.format_reason,
        time_unit=report.time_unit,
        assumptions=report.assumptions,
        rows_read=report.rows_read,
        rows_used=report.rows_used,
        rejected=report.rejected,
        flagged=report.flagged,
    )


def _cautions(profile: TraceProfile, slo: Slo) -> tuple[str, ...]:
    from planner.profile.cautions import cautions

    return tuple(cautions(profile, min_requests=slo.min_requests_per_window))


def shown(path: str) -> str:
    """Return a path as a plan may show it: as typed, without the folders of an absolute one.

    >>> shown("traces/week42.parquet"), shown("/home/me/log.csv")
    ('traces/week42.parquet', 'log.csv')
    """
    return Path(path).name if Path(path).is_absolute() else Path(path).as_posix()


def _provenance(
    traces: Sequence[str],
    gpus: Sequence[str],
    slo_file: Path,
    files: Sequence[str],
    case: Case,
    fmt: str | None,
    time_unit: str | None,
    model: str | None,
    share_or_split: bool,
) -> Provenance:
    from planner.solve.plan import Provenance
    from planner.spec.fingerprint import catalogue_hashes, file_sha256

    argv = ["planner", "recommend"]
    for trace in traces:
        argv += ["--trace", shown(trace)]
    argv += ["--gpu", ",".join(gpus), "--slo", shown(str(slo_file))]
    argv += ["--format", fmt] if fmt else []
    argv += ["--time-unit", time_unit] if time_unit else []
    argv += ["--model", shown(model)] if model else []
    argv += ["--share-or-split"] if share_or_split else []
    return Provenance(
        command=shlex.join(argv),
        planner_version=planner.__version__,
        inputs_sha256={shown(file): file_sha256(Path(file)) for file in (*files, str(slo_file))},
        catalogue_sha256=catalogue_hashes(case.model, case.engine, case.gpus, case.calibrations),
        library_versions={library: version(library) for library in LIBRARIES},
        seed=case.slo.seed,
    )
