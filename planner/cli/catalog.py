"""`planner catalog`: what the planner knows about GPUs, models and engines, with sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

KINDS = ("gpus", "models", "engines")


@click.command(
    epilog="""\b
Example:
  planner catalog gpus
  planner catalog gpus h100
  planner catalog models meta-llama/Llama-3.1-8B-Instruct
  planner catalog models ./my-model/config.json
  planner catalog engines vllm@0.11
""",
)
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", required=False, metavar="[ID]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(kind: str, name: str | None, as_json: bool) -> None:
    """List the known GPUs, models or engines, or show all about one.

    The list shows sources, dates, confidence, the memory a driver reports and prices (— where
    unknown). With ID the whole entry is printed, its trap and sources included: a file that can be
    copied, changed and passed in place of an id. A path to a config.json shows how it is read.
    """
    if name is None:
        click.echo(_all_json(kind) if as_json else _table(kind), nl=False)
    elif kind == "models":
        click.echo(_model(name, as_json=as_json), nl=False)
    else:
        click.echo(_entry(kind, name, as_json=as_json), nl=False)


def _table(kind: str) -> str:
    from planner.spec import catalog, catalog_text

    if kind == "gpus":
        return catalog_text.gpu_table(catalog.gpus())
    if kind == "models":
        return catalog_text.model_table(catalog.models(), catalog.same_architecture)
    return catalog_text.engine_table(catalog.engines())


def _all_json(kind: str) -> str:
    from planner.spec import catalog

    if kind == "gpus":
        names = [gpu.id for gpu in catalog.gpus()]
    elif kind == "models":
        names = [model.id for model in catalog.models()]
    else:
        names = [f"{engine.id}@{engine.version}" for engine in catalog.engines()]
    return _json([catalog.catalog_file(kind, name) for name in names])


def _entry(kind: str, name: str, *, as_json: bool) -> str:
    from planner.spec import catalog

    entry = catalog.catalog_file(kind, name)
    found = f"{entry['id']}@{entry['version']}" if kind == "engines" else entry["id"]
    _say_if_other(name, found)
    return _json(entry) if as_json else catalog.catalog_text(kind, name)


def _say_if_other(asked: str, found: str) -> None:
    """Tell which entry an alias or a sister repository led to."""
    if asked.lower() not in (found.lower(), found.rsplit("/", 1)[-1].lower()):
        click.echo(f"{asked}: entry {found}", err=True)


def _model(name: str, *, as_json: bool) -> str:
    """Return a catalogue entry, or a local config as it is read, with parameters by part."""
    from planner.perf.parameters import parameters
    from planner.spec import catalog

    model = catalog.model(name)
    counted = parameters(model)
    parts: dict[str, Any] = asdict(counted) | {"total": counted.total, "active": counted.active}
    known = catalog.in_catalog("models", model.id)
    entry: Mapping[str, Any] = catalog.catalog_file("models", name) if known else asdict(model)
    if known:
        _say_if_other(model.id, entry["id"])
    if as_json:
        return _json({**entry, "id": model.id, "parameters": parts})
    text = catalog.catalog_text("models", name) if known else _yaml(entry)
    return text + "\n# Derived from the shapes:\n" + _yaml({"parameters": parts}, comment="# ")


def _yaml(data: Mapping[str, Any], *, comment: str = "") -> str:
    """Write nested mappings of scalars, one a line."""
    lines = []
    for key, value in data.items():
        if isinstance(value, Mapping):
            lines.append(f"{key}:")
            lines += [f"  {line}" for line in _yaml(value).splitlines()]
        else:
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    return "".join(f"{comment}{line}\n" for line in lines)


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
