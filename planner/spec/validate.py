"""Check a document against a schema and word every violation for the person who wrote the file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from planner.errors import Problem
from planner.spec.document import Document, in_order
from planner.spec.schema import Schema, below, load_schema, properties, resolve
from planner.spec.unknown_keys import hint_for
from planner.spec.words import describe, nearest, number, quantity_hint

Path = tuple[str | int, ...]

_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "nothing",
}
YES_NO = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}
_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "greater than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


def validate(document: Document, schema_name: str) -> list[Problem]:
    """Return everything in `document` that `schemas/<schema_name>.schema.json` does not allow.

    Sorted by place. Includes `document.problems`, and every number that is not finite.
    """
    schema = load_schema(schema_name)
    problems = [*document.problems, *_not_finite(document, document.data, ())]
    problems += violations(document, schema)
    return list(in_order(problems))


def violations(document: Document, schema: Schema) -> list[Problem]:
    """Return what an already loaded `schema` does not allow."""
    translator = _Translator(document, schema)
    errors: Any = Draft202012Validator(dict(schema)).iter_errors(document.data)
    return [problem for error in errors for problem in translator.problems(error)]


def _not_finite(document: Document, data: object, path: Path) -> Iterator[Problem]:
    if isinstance(data, float) and not math.isfinite(data):
        typed = document.raw(path) or str(data)
        yield document.problem(path, f"{typed[:40]} is not a finite number")
    elif isinstance(data, Mapping):
        for key, item in data.items():
            yield from _not_finite(document, item, (*path, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _not_finite(document, item, (*path, index))


class _Translator:
    """Turns the validator's errors into problems with places and hints."""

    def __init__(self, document: Document, root: Schema) -> None:
        self.document = document
        self.root = root

    def problems(self, error: ValidationError) -> Iterator[Problem]:
        keyword = str(error.validator)
        path: Path = tuple(error.absolute_path)
        schema = resolve(error.schema, self.root) if isinstance(error.schema, Mapping) else {}
        if "propertyNames" in error.absolute_schema_path:
            yield self.bad_name(error, path, schema)
        elif keyword in ("additionalProperties", "unevaluatedProperties"):
            yield from self.unknown(error, path, schema)
        elif keyword == "required":
            yield from self.missing(error, path)
        elif keyword in ("anyOf", "oneOf"):
            yield from self.alternatives(error, path)
        elif isinstance(error.instance, float) and not math.isfinite(error.instance):
            return  # named once already, as not finite
        else:
            message, hint = self.wording(error, keyword, path, schema)
            at_key = keyword in ("dependentRequired", "minProperties")
            yield self.document.problem(path, message, hint, key=at_key)

    def bad_name(self, error: ValidationError, path: Path, schema: Schema) -> Problem:
        name = str(error.instance)
        message = f"{name!r} cannot be a name here"
        hint = declared_hint(schema, str(error.validator))
        return self.document.problem((*path, name), message, hint, key=True)

    def unknown(self, error: ValidationError, path: Path, schema: Schema) -> Iterator[Problem]:
        if not isinstance(error.instance, Mapping):
            return
        patterns = schema.get("patternProperties", {})
        for key, value in error.instance.items():
            if key in schema.get("properties", {}) or any(re.search(p, key) for p in patterns):
                continue
            hint = hint_for(key, value, schema, self.root)
            yield self.document.problem((*path, key), "unknown key", hint, key=True)

    def missing(self, error: ValidationError, path: Path) -> Iterator[Problem]:
        present = error.instance if isinstance(error.instance, Mapping) else {}
        known = properties(error.schema, self.root) if isinstance(error.schema, Mapping) else {}
        required: Any = error.validator_value
        for name in required:
            if name not in present:
                examples = known.get(name, {}).get("examples", ())
                hint = f"for example {name}: {examples[0]}" if examples else ""
                yield self.document.problem(path, f"{name} is missing", hint, key=True)

    def alternatives(self, error: ValidationError, path: Path) -> Iterator[Problem]:
        """Complain about the alternative whose type fits, or name all types that would."""
        groups: dict[object, list[ValidationError]] = {}
        for inner in error.context or ():
            groups.setdefault(inner.schema_path[0], []).append(inner)
        fitting = [group for group in groups.values() if not any(map(_wrong_type, group))]
        if fitting:
            for inner in min(fitting, key=len):
                yield from self.problems(inner)
            return
        types = [name for group in groups.values() for name in map(_expected, group) if name]
        wanted = " or ".join(dict.fromkeys(types)) or "something else"
        message = f"expected {wanted}, found {describe(error.instance)}"
        hints = (
            self.wording(group[0], "type", path, self.schema_of(group[0]))[1]
            for group in groups.values()
        )
        yield self.document.problem(path, message, next((hint for hint in hints if hint), ""))

    def schema_of(self, error: ValidationError) -> Schema:
        return resolve(error.schema, self.root) if isinstance(error.schema, Mapping) else {}

    def wording(
        self, error: ValidationError, keyword: str, path: Path, schema: Schema
    ) -> tuple[str, str]:
        """Return message and hint for one violated keyword."""
        value: Any = error.instance
        wanted: Any = error.validator_value
        declared = declared_hint(schema, keyword)
        if keyword == "type":
            hint = self.type_hint(value, path, schema, wanted) or declared
            return f"expected {_type_names(wanted)}, found {describe(value)}", hint
        if keyword in _LIMITS:
            message = f"must be {_LIMITS[keyword]} {number(wanted)}, found {number(value)}"
            return message, magnitude_hint(value, schema, keyword) or declared
        if keyword in ("enum", "const"):
            allowed = wanted if isinstance(wanted, list) else [wanted]
            shown = repr(value) if isinstance(value, str) else describe(value)
            return f"unknown value {shown}", _choice_hint(value, allowed, schema)
        return _other_wording(error, keyword, wanted), declared

    def type_hint(self, value: object, path: Path, schema: Schema, wanted: object) -> str:
        """Say how to write what was meant, where the text given shows it."""
        if wanted == "boolean" and isinstance(value, str) and value.lower() in YES_NO:
            return f"write {'true' if YES_NO[value.lower()] else 'false'}"
        if isinstance(value, str) and not _is_text(wanted):
            return quantity_hint(value, _unit(schema, self.root, path))
        raw = self.document.raw(path)
        if _is_text(wanted) and isinstance(value, (int, float)) and raw:
            return f'quote it: "{raw}"'
        if "x-shorthand" in schema and isinstance(value, (int, float)) and path:
            return f"name what it limits: {path[-1]}: {{{schema['x-shorthand']}: {raw}}}"
        return ""


def _other_wording(error: ValidationError, keyword: str, wanted: Any) -> str:  # noqa: ANN401
    """Return the message of the rarer keywords."""
    if keyword in ("minLength", "minItems", "minProperties"):
        return "must not be empty" if wanted == 1 else f"needs at least {wanted} entries"
    if keyword in ("maxItems", "maxProperties", "maxLength"):
        return f"has more than {wanted} entries"
    if keyword == "uniqueItems":
        return "lists a value twice"
    if keyword == "pattern":
        return f"{error.instance!r} is not written as expected"
    if keyword == "dependentRequired" and isinstance(error.instance, Mapping):
        for name, needed in wanted.items():
            lacking = [other for other in needed if other not in error.instance]
            if name in error.instance and lacking:
                return f"{name} needs {' and '.join(lacking)} beside it"
    return error.message


def _wrong_type(error: ValidationError) -> bool:
    """Tell whether an alternative fails because the value is of another type altogether."""
    return error.validator == "type" and not error.path


def _expected(error: ValidationError) -> str:
    return _type_names(error.validator_value) if error.validator == "type" else ""


def _type_names(wanted: object) -> str:
    names = wanted if isinstance(wanted, list) else [wanted]
    names = [name for name in names if name != "null"] or names  # what to write, not to leave out
    return " or ".join(_TYPES.get(str(name), str(name)) for name in names)


def _is_text(wanted: object) -> bool:
    return wanted == "string" or (isinstance(wanted, list) and "string" in wanted)


def declared_hint(schema: Schema, keyword: str) -> str:
    """Return the schema's own hint for a keyword: `x-hints`, where "*" stands for number limits."""
    hints = schema.get("x-hints", {})
    fallback = hints.get("*", "") if keyword in _LIMITS or keyword == "type" else ""
    return str(hints.get(keyword, fallback))


def magnitude_hint(value: float, schema: Schema, keyword: str) -> str:
    """Recognise milliseconds given as seconds and percent given as shares, by size."""
    if keyword not in ("maximum", "exclusiveMaximum"):
        return ""
    unit = schema.get("x-unit")
    declared = declared_hint(schema, keyword)
    top = schema.get("x-plausible", {}).get("max", schema.get("maximum", 1))
    if unit == "s" and value * 1e-3 <= top:
        scaled = f"milliseconds? declare seconds: {number(value * 1e-3)}"
        return f"{scaled}; {declared}" if declared else scaled
    if unit == "1" and isinstance(top, (int, float)) and 1 < value <= 100 and value / 100 <= top:
        return f"{number(value)} %? declare the share: {number(value / 100)}"
    return ""


def _choice_hint(value: object, allowed: list[Any], schema: Schema) -> str:
    aliases = schema.get("x-value-aliases", {})
    if isinstance(value, str):
        name = aliases.get(value.lower()) or nearest(value, map(str, allowed), cutoff=0.5)
        if name:
            return f"did you mean {name}?"
    return "one of " + ", ".join(map(str, allowed))


def _unit(schema: Schema, root: Schema, path: Path) -> str:
    """Return the unit of a field: its own, else the nearest enclosing property's."""
    if "x-unit" in schema:
        return str(schema["x-unit"])
    unit = ""
    at = root
    for step in path:
        at = next(iter(below(at, root, step)), {})
        unit = str(at.get("x-unit", unit))
    return unit
