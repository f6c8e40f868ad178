"""The names in an slo.yaml that must exist in the catalogues: model, engine, GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from planner.errors import InputError, Problem
from planner.spec.document import Document, PathTuple
from planner.spec.load import expanded

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Resolved:
    """Canonical names, and the problems of those that are not in a catalogue."""

    model: str = ""
    engine: str = ""
    engine_version: str = ""
    gpus: tuple[str, ...] = ()
    prices_usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def resolve_names(document: Document, data: Mapping[str, Any]) -> Resolved:
    """Look every name up; `data` has its defaults, and any value may still be of a wrong type."""
    found = Resolved()
    folder = Path(document.file).parent
    found.model = _model(document, data.get("model"), folder, found.problems)
    _engine(document, data.get("engine"), found)
    listed = data.get("gpus")
    listed = [listed] if isinstance(listed, str) else listed
    if isinstance(listed, list):
        places: dict[PathTuple, object] = {("gpus", i): name for i, name in enumerate(listed)}
        found.gpus = tuple(_gpus(document, places, folder, found.problems, key=False).values())
    prices = data.get("prices_usd_per_hour")
    if isinstance(prices, Mapping):
        places = {("prices_usd_per_hour", name): name for name in prices}
        ids = _gpus(document, places, folder, found.problems, key=True)
        # With a problem the two differ in length, and then nothing is built from them.
        found.prices_usd_per_hour = dict(zip(ids, prices.values(), strict=False))
    return found


def _model(document: Document, name: object, folder: Path, problems: list[Problem]) -> str:
    """Return the catalogue's id, or the path of a config.json as seen from the working folder."""
    from planner.spec import catalog

    if not isinstance(name, str) or not name:
        return ""
    path = beside(name, folder)
    if path:
        _try(document, ("model",), problems, partial(catalog.model, path))
        return path
    model = _try(document, ("model",), problems, partial(catalog.model, name))
    return model.id if model else ""


def beside(name: str, folder: Path) -> str:
    """Return `name` as a path relative to the file that declares it, or "" if it is an id.

    >>> beside("meta-llama/Llama-3.1-8B", Path("etc")), beside("./ours/config.json", Path("etc"))
    ('', 'etc/ours/config.json')
    """
    looks_like_path = name.startswith((".", "/", "~")) or name.endswith((".json", ".yaml", ".yml"))
    return str(folder / expanded(name)) if looks_like_path else ""


def _engine(document: Document, engine: object, found: Resolved) -> None:
    from planner.spec import catalog

    if not isinstance(engine, Mapping):
        return
    name, version = engine.get("name"), engine.get("version")
    if not isinstance(name, str) or not isinstance(version, str):
        return
    newest = _try(document, ("engine", "name"), found.problems, partial(catalog.engine, name))
    if newest is None:
        return
    exact = _try(
        document, ("engine", "version"), found.problems, partial(catalog.engine, name, version)
    )
    found.engine = newest.id
    found.engine_version = version if exact else ""  # as typed: a patch release has its own image


def _gpus(
    document: Document,
    places: Mapping[PathTuple, object],
    folder: Path,
    problems: list[Problem],
    *,
    key: bool,
) -> dict[str, str]:
    """Map each GPU's id to how to look it up; one part under two names is a problem."""
    from planner.spec import catalog

    lookups: dict[str, str] = {}
    typed: dict[str, str] = {}
    for path, name in places.items():
        if not isinstance(name, str) or not name:
            continue
        file = beside(name, folder)
        gpu = _try(document, path, problems, partial(catalog.gpu, file or name), key=key)
        if gpu is None:
            continue
        if gpu.id in typed:
            message = f"{name} and {typed[gpu.id]} are the same GPU, {gpu.id}"
            problems.append(document.problem(path, message, "keep one", key=key))
        typed.setdefault(gpu.id, name)
        lookups.setdefault(gpu.id, file or gpu.id)
    return lookups


def _try(
    document: Document,
    path: PathTuple,
    problems: list[Problem],
    look_up: Callable[[], T],
    *,
    key: bool = False,
) -> T | None:
    """Look a name up; on failure say so at the place where the name was declared."""
    try:
        return look_up()
    except InputError as error:
        for problem in error.problems:
            here = document.problem(path, problem.message, problem.hint, key=key)
            elsewhere = str(replace(problem, hint="")) if problem.file else here.message
            problems.append(replace(here, message=elsewhere))
        return None
