"""The schemas in `schemas/`: read once, references followed, defaults taken from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from planner.resources import resource_dir

Schema = Mapping[str, Any]


@cache
def load_schema(name: str) -> Schema:
    """Return `schemas/<name>.schema.json`.

    >>> load_schema("slo")["required"]
    ['model']
    """
    text = (resource_dir("schemas") / f"{name}.schema.json").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


def schema_names() -> tuple[str, ...]:
    """Return the names of all schemas, sorted."""
    files = resource_dir("schemas").glob("*.schema.json")
    return tuple(sorted(path.name.removesuffix(".schema.json") for path in files))


def resolve(schema: Schema, root: Schema) -> Schema:
    """Follow a local `$ref`; keywords beside the reference win over those it names.

    >>> resolve({"$ref": "#/$defs/a", "title": "t"}, {"$defs": {"a": {"type": "number"}}})
    {'type': 'number', 'title': 't'}
    """
    merged: dict[str, Any] = dict(schema)
    while "$ref" in merged:
        target: Any = root
        for step in str(merged.pop("$ref")).removeprefix("#/").split("/"):
            target = target[step]
        merged = {**target, **merged}
    return merged


def branches(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yield the schema itself, resolved, and each alternative of its anyOf and oneOf."""
    resolved = resolve(schema, root)
    yield resolved
    for keyword in ("anyOf", "oneOf"):
        for branch in resolved.get(keyword, ()):
            yield from branches(branch, root)


def properties(schema: Schema, root: Schema) -> dict[str, Schema]:
    """Return the named properties of an object schema, over all its alternatives."""
    found: dict[str, Schema] = {}
    for branch in branches(schema, root):
        for name, sub in branch.get("properties", {}).items():
            found.setdefault(name, resolve(sub, root))
    return found


def below(schema: Schema, root: Schema, step: str | int) -> Iterator[Schema]:
    """Yield the schemas that describe the value under a key or index."""
    for branch in branches(schema, root):
        if isinstance(step, int):
            if isinstance(branch.get("items"), Mapping):
                yield resolve(branch["items"], root)
            continue
        if step in branch.get("properties", {}):
            yield resolve(branch["properties"][step], root)
            continue
        for pattern, sub in branch.get("patternProperties", {}).items():
            if re.search(pattern, step):
                yield resolve(sub, root)
        if isinstance(branch.get("additionalProperties"), Mapping):
            yield resolve(branch["additionalProperties"], root)


def with_defaults(data: object, schema: Schema, root: Schema) -> tuple[object, list[str]]:
    """Fill in the defaults a schema declares; also return the dotted paths that were filled.

    Descends into named properties only: what a user names freely (classes, prices) has no default.

    >>> schema = {"properties": {"a": {"properties": {"b": {"default": 1}}}, "c": {"default": 2}}}
    >>> with_defaults({"c": 5}, schema, schema)
    ({'c': 5, 'a': {'b': 1}}, ['a.b'])
    """
    if not isinstance(data, Mapping):
        return data, []
    filled = dict(data)
    paths: list[str] = []
    for name, sub in properties(schema, root).items():
        if name in filled:
            filled[name], below = with_defaults(filled[name], sub, root)
        elif "default" in sub:
            filled[name], below = deepcopy(sub["default"]), [""]
        else:
            value, below = with_defaults({}, sub, root)
            if below:
                filled[name] = value
        paths += [f"{name}.{path}" if path else name for path in below]
    return filled, paths
