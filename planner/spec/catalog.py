"""The catalogues that ship with the planner: GPUs, models and engines, one YAML file each.

Looking one up reads one file: ids and aliases stand on the first lines of every file, so finding
the file needs no parser. `tests/catalog` checks that the two readings agree.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from planner.errors import InputError, Problem
from planner.resources import data_dir
from planner.spec.catalog_index import canonical, catalogue_files, head, index, own_id
from planner.spec.catalog_records import engine_from_data, gpu_from_data
from planner.spec.engine import BatchDefault, Engine
from planner.spec.gpu import Gpu
from planner.spec.hf_config import model_from_config, with_places
from planner.spec.hf_quantization import beside
from planner.spec.load import expanded, read_document
from planner.spec.model import Model


def gpu(name: str) -> Gpu:
    """Return the GPU of a catalogue id, an alias, or a YAML file of one's own.

    Case, spaces and underscores do not matter: "H100-80GB-SXM" is "h100-sxm".

    Raises
    ------
    InputError
        Unknown name; the message offers the nearest ones.

    Examples
    --------
    >>> gpu("H100").id, gpu("a100-80gb").id
    ('h100-sxm', 'a100-80gb-sxm')
    """
    if _is_file(name):
        return gpu_from_data(_validated(Path(name), "gpu"))
    names = index("gpus")
    path = names.get(canonical(name))
    if path is None:
        raise _unknown("GPU", name, names, "planner catalog gpus")
    return _gpu(path)


def model(name: str) -> Model:
    """Return the model of a Hugging Face id, its short name, or a `config.json`.

    A repository that shares another's architecture keeps its own id in `Model.id`, because that is
    what gets launched. A path may name the file or the folder that holds it.

    Raises
    ------
    InputError
        Unknown id (the message offers the nearest ones), or a config that cannot be understood.

    Examples
    --------
    >>> model("llama-3.1-8b-instruct").id
    'meta-llama/Llama-3.1-8B-Instruct'
    """
    names = index("models")
    path = names.get(canonical(name))
    if path is not None and not name.startswith((".", "/", "~")):
        return _model(path, own_id(path, name))
    file = expanded(name)
    if name.endswith((".yaml", ".yml")):
        data = _validated(file, "model")
        return _model_from_data(data, data["id"], str(file))
    is_folder = bool(name) and os.path.isdir(file)  # noqa: PTH112 - Path.is_dir raises on long names
    if is_folder or name.endswith(".json") or name.startswith((".", "/", "~")):
        return _model_from_file(file / "config.json" if is_folder else file, name)
    raise _unknown("model", name, names, "planner catalog models, or give a path to a config.json")


def engine(name: str, version: str = "") -> Engine:
    """Return an engine's profile; without a version the newest one.

    A patch release is its minor version's profile: "0.11.2" is "0.11".

    Raises
    ------
    InputError
        Unknown engine or version; the message lists the known ones.

    Examples
    --------
    >>> engine("vllm").version, engine("vllm", "0.11.2").version
    ('0.33', '0.11')
    """
    known = {(item.id, item.version): item for item in engines()}
    ids = sorted({key[0] for key in known})
    names = {alias: item.id for item in known.values() for alias in (item.id, *item.aliases)}
    found = names.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), names, n=1)
        nearest = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            Problem(message=f"unknown engine {name!r}{nearest}", hint=f"known: {', '.join(ids)}")
        )
    versions = sorted((key[1] for key in known if key[0] == found), key=_version)
    for candidate in reversed(versions):
        if not version or version == candidate or version.startswith(f"{candidate}."):
            return known[found, candidate]
    raise InputError(
        Problem(
            message=f"unknown {found} version {version!r}",
            hint=f"known: {', '.join(versions)}; take the nearest and expect wider errors",
        )
    )


@cache
def gpus() -> tuple[Gpu, ...]:
    """Return every GPU of the catalogue, by id."""
    return tuple(_gpu(path) for path in catalogue_files("gpus"))


@cache
def models() -> tuple[Model, ...]:
    """Return every architecture of the catalogue under its own id, by id."""
    found = (_model(path, head(path)["id"][0]) for path in catalogue_files("models"))
    return tuple(sorted(found, key=lambda item: item.id.lower()))


@cache
def engines() -> tuple[Engine, ...]:
    """Return every engine profile of the catalogue, by id, oldest version first."""
    found = (engine_from_data(_mapping(path)) for path in catalogue_files("engines"))
    return tuple(sorted(found, key=lambda item: (item.id, _version(item.version))))


def batch_default(engine: Engine, gpu: Gpu) -> BatchDefault:
    """Return the budget and batch limit that the engine itself would choose on a GPU.

    The engine compares the driver's memory with its tiers and, in vLLM, looks for names; where
    nobody published the driver's figure the marketing one decides, which no tier is close to.

    Examples
    --------
    >>> row = batch_default(engine("vllm"), gpu("a100-80gb"))
    >>> row.max_num_batched_tokens, row.max_num_seqs  # the small tier, despite 80 GB
    (2048, 256)
    """
    memory = gpu.memory_bytes_visible or gpu.memory_bytes_marketing
    name = gpu.name.lower()
    for row in engine.batch_defaults:
        if memory >= row.min_memory_bytes and not any(part in name for part in row.excluded_names):
            return row
    raise ValueError(f"{engine.id} {engine.version} has no default tier for {gpu.id}")


def in_catalog(kind: str, name: str) -> bool:
    """Whether a file of the catalogue goes by this name."""
    return canonical(name) in index(kind)


def catalog_text(kind: str, name: str) -> str:
    """Return the catalogue file of `name` as it is written; see `catalog_file`."""
    return _catalog_path(kind, name).read_text(encoding="utf-8")


def same_architecture(model_id: str) -> tuple[str, ...]:
    """Return the repositories that a catalogue file covers beside the one it is named for."""
    path = index("models")[canonical(model_id)]
    return tuple(head(path).get("same_architecture", ()))


def catalog_file(kind: str, name: str) -> Mapping[str, Any]:
    """Return everything the catalogue file of `name` says, sources included, as plain data.

    `kind` is "gpus", "models" or "engines"; an engine's name may carry "@version".
    """
    return _mapping(_catalog_path(kind, name))


def _catalog_path(kind: str, name: str) -> Path:
    """Return the file of an id or alias; an unknown one raises as in `gpu`, `model`, `engine`."""
    if kind == "engines":
        found = engine(*name.split("@", 1))
        return data_dir(kind) / f"{found.id}-{found.version}.yaml"
    resolve = gpu if kind == "gpus" else model
    return index(kind)[canonical(resolve(name).id)]


@cache
def _gpu(path: Path) -> Gpu:
    return gpu_from_data(_mapping(path))


@cache
def _model(path: Path, model_id: str) -> Model:
    return _model_from_data(_mapping(path), model_id, str(path))


def _model_from_data(data: Mapping[str, Any], model_id: str, file: str) -> Model:
    """Read a file in the catalogue's form through the same reader as a bare config."""
    published = data["published"]
    return model_from_config(
        data["config"],
        model_id,
        file=file,
        published_parameters=float(published["parameters"]),
        published_active_parameters=published.get("active_parameters"),
        source=data["source"],
        date=str(data["date"]),
        notes=data.get("notes", ""),
    )


def _model_from_file(file: Path, name: str) -> Model:
    """Read a user's own `config.json`; ModelOpt's quantisation may lie beside it."""
    document = read_document(file)
    if not isinstance(document.data, dict):
        raise InputError(Problem(message="holds no mapping", file=str(file), line=1, column=1))
    config = document.data
    separate = file.with_name("hf_quant_config.json")
    if "quantization_config" not in config and separate.is_file():
        quantization = read_document(separate).data
        if isinstance(quantization, dict):
            config = {**config, "quantization_config": beside(quantization)}
    model_id = name.removesuffix("config.json").rstrip("/") or name
    try:
        return model_from_config(config, model_id, file=str(file), source=str(file))
    except InputError as error:
        raise with_places(error, document) from None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _mapping(path: Path) -> dict[str, Any]:
    """Read a catalogue file; the tests validate all of them against their schema."""
    return cast("dict[str, Any]", read_document(path).data)


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml", ".json"))


def _validated(path: Path, schema: str) -> dict[str, Any]:
    """Read and validate a user's own declaration."""
    from planner.spec.validate import validate

    document = read_document(path)
    problems = validate(document, schema)
    if problems:
        raise InputError(problems)
    return cast("dict[str, Any]", document.data)


def _unknown(what: str, name: str, names: Mapping[str, Path], hint: str) -> InputError:
    """Return the error for an unknown name with up to three near ones."""
    near = difflib.get_close_matches(canonical(name), names, n=3, cutoff=0.5)
    ids = dict.fromkeys(head(names[key])["id"][0] for key in near)
    message = f"unknown {what} {name!r}"
    if ids:
        message += f"; nearest: {', '.join(ids)}"
    return InputError(Problem(message=message, hint=f"see {hint}"))
