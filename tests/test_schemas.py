"""What every schema owes the people who read it: units, names that carry them, descriptions."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from planner.spec.schema import Schema, load_schema, resolve, schema_names
from planner.spec.schema_docs import HEADER, main, render

NAMES = schema_names()

# Unit -> what the field's name, or the name of a field around it, must contain.
IN_NAME = {
    "s": "_s",
    "ms": "_ms",
    "us": "_us",
    "µs": "_us",
    "bytes": "bytes",
    "B": "bytes",
    "MiB": "mib",
    "GiB": "gib",
    "GB": "gb",
    "GB/s": "gb_per_s",
    "TFLOP/s": "tflops",
    "W": "_w",
    "USD/h": "usd",
    "tokens/s": "tokens_per_s",
    "requests/s": "per_s",
}
# Ending of a field's name -> the units it may be measured in. The longest ending decides.
BY_ENDING = {
    "_usd_per_hour": {"USD/h"},
    "_tokens_per_s": {"tokens/s"},
    "_gb_per_s": {"GB/s"},
    "_per_s": {"requests/s"},
    "_s": {"s"},
    "_ms": {"ms"},
    "_us": {"us", "µs"},
    "_bytes": {"bytes", "B"},
    "_mib": {"MiB"},
    "_gib": {"GiB"},
    "_gb": {"GB"},
    "_tokens": {"tokens"},
    "_share": {"1"},
    "_w": {"W"},
}


@dataclass(frozen=True)
class Numeric:
    """A number somewhere in a schema: the names on the way to it, and its unit."""

    names: tuple[str, ...]
    unit: str

    @property
    def path(self) -> str:
        return ".".join(self.names)


def numerics(schema: Schema, root: Schema, names: tuple[str, ...], unit: str) -> Iterator[Numeric]:
    """Yield every number below a schema; entries of lists and maps inherit their field's unit."""
    schema = resolve(schema, root)
    unit = str(schema.get("x-unit", unit))
    types = schema.get("type", ())
    if {"number", "integer"} & set([types] if isinstance(types, str) else types):
        yield Numeric(names, unit)
    for name, sub in schema.get("properties", {}).items():
        if name not in names:  # recursive schemas end here
            yield from numerics(sub, root, (*names, name), "")
    for sub in parts(schema):
        yield from numerics(sub, root, names, unit)


def parts(schema: Schema) -> Iterator[Schema]:
    """Yield the unnamed schemas directly below: alternatives, entries of lists and maps."""
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from schema.get(keyword, ())
    yield from schema.get("patternProperties", {}).values()
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield schema[keyword]


def everything(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every mapping in a schema's source, references not followed."""
    if isinstance(schema, Mapping):
        yield schema
        for value in schema.values():
            yield from everything(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from everything(value)


def all_numerics(name: str) -> list[Numeric]:
    schema = load_schema(name)
    return list(numerics(schema, schema, (), ""))


def test_the_schemas_of_the_design_exist():
    assert {"slo", "gpu", "model", "engine", "trace", "profile", "plan"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_is_a_valid_schema_of_2020_12(name):
    schema = load_schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"{name}.schema.json"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_leads_somewhere(name):
    root = load_schema(name)
    for part in everything(root):
        if isinstance(part.get("$ref"), str):
            assert part["$ref"].startswith("#/"), part["$ref"]
            assert resolve(part, root)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_unit(name):
    found = all_numerics(name)
    assert found, "a schema without a number?"
    assert [number.path for number in found if not number.unit] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_measured_unit_is_in_the_name(name):
    wrong = [
        f"{number.path}: {number.unit}"
        for number in all_numerics(name)
        if IN_NAME.get(number.unit, "") not in ".".join(f"_{part}" for part in number.names)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_in_the_name_is_the_unit(name):
    wrong = []
    for number in all_numerics(name):
        last = f"_{number.names[-1]}" if number.names else ""
        if re.search(r"_\d+_[a-z]+$", last):
            continue  # `floor_above_60_gib`: the unit belongs to the bound in the name
        ending = max((end for end in BY_ENDING if last.endswith(end)), key=len, default="")
        if ending and number.unit not in BY_ENDING[ending]:
            wrong.append(f"{number.path}: {number.unit}")
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_property_is_described(name):
    root = load_schema(name)
    assert root["title"]
    assert root["description"]
    undescribed = [
        key
        for part in everything(root)
        for key, sub in part.get("properties", {}).items()
        if isinstance(sub, Mapping) and not resolve(sub, root).get("description")
    ]
    assert undescribed == []


@pytest.mark.parametrize("name", NAMES)
def test_defaults_and_examples_are_what_the_schema_allows(name):
    root = load_schema(name)
    for part in everything(root):
        if "type" not in part and "$ref" not in part and "anyOf" not in part:
            continue
        values = [part["default"]] if "default" in part else []
        values += part.get("examples", [])
        for value in values:
            alone = {"$defs": root.get("$defs", {}), **resolve(part, root)}
            errors = Draft202012Validator(alone).iter_errors(value)
            assert [error.message for error in errors] == []


def test_docs_are_the_rendering_of_the_schemas(root):
    written = (root / "docs" / "inputs.md").read_text(encoding="utf-8")
    assert written == render(), "run: python -m planner.spec.schema_docs docs/inputs.md"


def test_docs_name_every_schema_and_every_key_of_slo_yaml():
    page = render()
    assert page.startswith(HEADER)
    for name in NAMES:
        assert f"`schemas/{name}.schema.json`" in page
    for key in load_schema("slo")["properties"]:
        assert f"| `{key}` |" in page


def test_docs_command_writes_the_page(tmp_path, capsys):
    main([str(tmp_path / "inputs.md")])
    assert (tmp_path / "inputs.md").read_text(encoding="utf-8") == render()
    main([])
    assert capsys.readouterr().out == render()


def test_schemas_are_plain_json_without_repeated_keys():
    def unique(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), keys
        return dict(pairs)

    from planner.resources import resource_dir

    for name in NAMES:
        text = (resource_dir("schemas") / f"{name}.schema.json").read_text(encoding="utf-8")
        json.loads(text, object_pairs_hook=unique)
