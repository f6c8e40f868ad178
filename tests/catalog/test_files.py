"""Every catalogue file: legal, findable under names of its own, and read the same way twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from planner.resources import data_dir
from planner.spec import catalog
from planner.spec.catalog_index import canonical, catalogue_files, head, names
from planner.spec.load import read_document
from planner.spec.validate import validate

SCHEMA = {"gpus": "gpu", "models": "model", "engines": "engine"}
FILES = [(kind, path) for kind in SCHEMA for path in catalogue_files(kind)]
IDS = [path.name for _, path in FILES]


@pytest.mark.parametrize(("kind", "path"), FILES, ids=IDS)
def test_file_follows_its_schema(kind: str, path: Path) -> None:
    assert [str(problem) for problem in validate(read_document(path), SCHEMA[kind])] == []


@pytest.mark.parametrize(("kind", "path"), FILES, ids=IDS)
def test_names_read_without_yaml_equal_those_read_with_it(kind: str, path: Path) -> None:
    data = read_document(path).data
    assert isinstance(data, dict)
    found = head(path)
    assert found["id"] == (data["id"],)
    assert found.get("aliases", ()) == tuple(data.get("aliases", ()))
    assert found.get("same_architecture", ()) == tuple(data.get("same_architecture", ()))


@pytest.mark.parametrize(("kind", "path"), FILES, ids=IDS)
def test_file_is_named_for_its_id(kind: str, path: Path) -> None:
    data = read_document(path).data
    assert isinstance(data, dict)
    version = f"-{data['version']}" if kind == "engines" else ""
    assert path.stem == data["id"].replace("/", "--") + version


@pytest.mark.parametrize("kind", ["gpus", "models"])
def test_no_two_files_share_a_name(kind: str) -> None:
    counts = Counter(canonical(name) for path in catalogue_files(kind) for name in set(names(path)))
    assert [name for name, count in counts.items() if count > 1] == []


def test_engine_versions_are_unique() -> None:
    counts = Counter((engine.id, engine.version) for engine in catalog.engines())
    assert max(counts.values()) == 1


@pytest.mark.parametrize("path", sorted(data_dir("gpus").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_group_of_values_carries_source_and_date(path: Path) -> None:
    data = read_document(path).data
    assert isinstance(data, dict)
    for block in (data["memory"], data["compute"], data["links"], data["power"], *data["prices"]):
        assert block["source"]
        assert block["date"]
    assert data["trap"]


def test_one_look_up_reads_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counting(path: Path):
        read.append(path)
        return read_document(path)

    monkeypatch.setattr(catalog, "read_document", counting)
    for cached in (catalog._gpu, catalog._model):
        cached.cache_clear()
    catalog.gpu("a100")
    catalog.model("meta-llama/Llama-3.1-8B-Instruct")
    assert [path.name for path in read] == [
        "a100-80gb-sxm.yaml",
        "meta-llama--Llama-3.1-8B-Instruct.yaml",
    ]
