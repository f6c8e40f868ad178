"""Write a plan's report: plan.json, report.md, figures and launch.sh, all of them or none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from planner.errors import InputError, Problem
from planner.report.charts import FIGURES
from planner.report.codec import dumps, plan_from_dict, plan_to_dict, schema_problems
from planner.report.context import context
from planner.report.environment import markdown_environment, svg_environment
from planner.report.markdown import one_line
from planner.report.operations import shell
from planner.report.words import without_only_class
from planner.solve.plan import Plan
from planner.text import counted

EXECUTABLE = "launch.sh"
OWN_FILES = ("plan.json", "report.md", EXECUTABLE, *FIGURES)


def write_report(plan: Plan, directory: Path) -> list[Path]:
    """Write the report into `directory` and return its files.

    Everything is written beside its place first and moved at the end, so a failure leaves what was
    there before. Files of an earlier report are replaced, unrelated files stay.

    Raises
    ------
    InputError
        The directory cannot be created or written to.
    """
    return write_files(render(plan), Path(directory), OWN_FILES)


def write_files(files: Mapping[str, str], directory: Path, own: Sequence[str]) -> list[Path]:
    """Write `files` into `directory`, all of them or none, and return them.

    Parameters
    ----------
    files
        File name → text.
    directory
        Created where it is missing.
    own
        Names an earlier report may have left there: those are removed.

    Raises
    ------
    InputError
        The directory cannot be created or written to.
    """
    try:
        return _write(files, directory, own)
    except OSError as error:
        raise InputError(
            Problem(
                message=f"the report cannot be written: {error.strerror or error}",
                file=str(directory),
                hint="choose a directory you may write to with --output",
            )
        ) from error


def render(plan: Plan) -> dict[str, str]:
    """Return file name → text of the whole report, as rendered from plan.json alone."""
    data = plan_to_dict(plan)
    problems = schema_problems(data)
    if problems:
        details = "; ".join(f"{path}: {message}" for path, message in problems[:5])
        raise ValueError(f"the plan does not obey plan.schema.json: {details}")
    text = dumps(data)
    plan = plan_from_dict(json.loads(text))  # what the reader of plan.json has: rounded, sorted
    figures = _figures(plan)
    report = markdown_environment().get_template("report.md.j2")
    return {
        "plan.json": text,
        "report.md": without_only_class(tidy(report.render(context(plan, tuple(figures))))),
        EXECUTABLE: launch_script(plan),
        **figures,
    }


def launch_script(plan: Plan) -> str:
    """Return a shell script that starts one replica of the plan."""
    title = one_line(
        f"{plan.name}: one of {counted(plan.replicas.value, 'replica')}, {plan.gpu_name}"
    )
    lines = ("#!/bin/sh", f"# {title}", "# The flags are exactly those of plan.json.")
    return "\n".join(lines) + f"\nexec {shell(plan.launch)}\n"


def _figures(plan: Plan) -> dict[str, str]:
    """Return file name → SVG of every figure this plan has."""
    drawn = {name: draw(plan) for name, draw in FIGURES.items()}
    return {
        name: svg_environment().get_template(f"charts/{name}.j2").render(figure).strip() + "\n"
        for name, figure in drawn.items()
        if figure is not None
    }


def tidy(text: str) -> str:
    """Collapse the blank lines that conditional parts leave, outside fences."""
    lines: list[str] = []
    for line in map(str.rstrip, text.split("\n")):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip("\n") + "\n"


def _write(files: Mapping[str, str], directory: Path, own: Sequence[str]) -> list[Path]:
    """Write to a hidden folder, then move: a new directory whole, an old one file by file."""
    fresh = not directory.exists()
    partial = directory.parent if fresh else directory
    partial = partial / f".{directory.name or 'report'}.{os.getpid()}.partial"
    made = _make_parents(partial.parent)
    try:
        partial.mkdir()
        for name, text in files.items():
            target = partial / name
            target.write_text(text, encoding="utf-8", newline="\n")
            if name == EXECUTABLE:
                target.chmod(target.stat().st_mode | 0o111)
        if fresh:
            partial.rename(directory)
        else:
            _replace(files, partial, directory, own)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            parent.rmdir()
        raise
    return [directory / name for name in files]


def _make_parents(directory: Path) -> list[Path]:
    """Create missing parents and return them, deepest first."""
    missing = [directory, *directory.parents]
    made = [parent for parent in missing if not parent.exists()]
    for parent in reversed(made):
        parent.mkdir()
    return made


def _replace(files: Mapping[str, str], partial: Path, directory: Path, own: Sequence[str]) -> None:
    """Move the new files over the old; on failure put the old ones back."""
    for name in own:
        if (directory / name).is_dir():
            raise IsADirectoryError(0, f"{name} is a directory there")
    saved = partial / "before"
    saved.mkdir()
    taken, placed = [], []
    try:
        for name in own:
            if (directory / name).exists():
                (directory / name).replace(saved / name)
                taken.append(name)
        for name in files:
            (partial / name).replace(directory / name)
            placed.append(name)
    except BaseException:
        for name in placed:
            (directory / name).unlink()
        for name in taken:
            (saved / name).replace(directory / name)
        raise
    shutil.rmtree(partial, ignore_errors=True)
