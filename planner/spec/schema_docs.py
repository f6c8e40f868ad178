"""Write docs/inputs.md from the schemas, so that the two cannot disagree.

`python -m planner.spec.schema_docs docs/inputs.md` writes the file; a test compares it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from planner.spec.schema import Schema, branches, load_schema, resolve, schema_names

HEADER = """# Inputs and outputs

<!-- Generated from schemas/ by `python -m planner.spec.schema_docs docs/inputs.md`. -->

Every file the planner reads or writes has a schema in `schemas/` (JSON Schema 2020-12). Numbers are
SI and the unit is in the name: seconds, bytes, shares between 0 and 1. In a path, `<name>` stands
for a name of your own and `[]` for each entry of a list.
"""
_FIRST = (
    "slo",
    "fleet",
    "trace",
    "gpu",
    "model",
    "engine",
    "calibration",
)  # what a user writes comes first


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table: a property at its path."""

    path: str
    type: str
    unit: str
    default: str
    description: str

    def markdown(self) -> str:
        """Return the line; a pipe inside a cell would end it."""
        cells = (f"`{self.path}`", self.type, self.unit, self.default, self.description)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def render() -> str:
    """Return the whole page."""
    names = schema_names()
    order = [name for name in _FIRST if name in names]
    order += [name for name in names if name not in _FIRST]
    return HEADER + "".join(f"\n{_section(load_schema(name), name)}" for name in order)


def _section(schema: Schema, name: str) -> str:
    """Return one schema's heading, description, example and table."""
    title = schema.get("title", name)
    lines = [f"## {title}", "", f"Schema: `schemas/{name}.schema.json`.", ""]
    if schema.get("description"):
        lines += [str(schema["description"]), ""]
    for example in schema.get("examples", ())[:1]:
        lines += ["```json", json.dumps(example, indent=2, ensure_ascii=False), "```", ""]
    lines += ["| key | type | unit | default | meaning |", "|---|---|---|---|---|"]
    seen: dict[str, Row] = {}
    for row in rows(schema, schema, "", {}):
        seen.setdefault(row.path, row)  # alternatives share keys; the first describes them
    lines += [row.markdown() for row in seen.values()]
    return "\n".join(lines) + "\n"


def rows(schema: Schema, root: Schema, path: str, shown: dict[str, str]) -> Iterator[Row]:
    """Yield a row for every key below a schema, depth first.

    `shown` maps each definition whose keys have been written to the path that shows them: the next
    use points there, which also ends recursive schemas.
    """
    prefix = f"{path}." if path else ""
    for branch in branches(schema, root):
        required = branch.get("required", ())
        for name, sub in branch.get("properties", {}).items():
            yield from _row(sub, root, f"{prefix}{name}", shown, name in required)
        for pattern, sub in branch.get("patternProperties", {}).items():
            yield from _row(sub, root, f"{prefix}<{_pattern_name(pattern)}>", shown, False)
        below = branch.get("additionalProperties")
        if isinstance(below, Mapping):
            yield from _row(below, root, f"{prefix}<name>", shown, False)
        items = branch.get("items")
        if isinstance(items, Mapping):
            yield from _row(items, root, f"{path}[]", shown, False, entry=True)


def _row(
    sub: Schema,
    root: Schema,
    path: str,
    shown: dict[str, str],
    required: bool,
    *,
    entry: bool = False,
) -> Iterator[Row]:
    """Yield the row of one key and those below it; an entry of a list has no row of its own."""
    schema = resolve(sub, root)
    reference = str(sub.get("$ref", ""))
    known = shown.get(reference, "") if _has_keys(schema, root) else ""
    if known or not entry:
        yield Row(
            path=path,
            type=type_text(schema, root),
            unit=_unit_text(schema),
            default="required" if required else _default_text(schema),
            description=_description(schema, f"Keys as under `{known}`." if known else ""),
        )
    if not known:
        if reference:
            shown[reference] = path
        yield from rows(schema, root, path, shown)


def _has_keys(schema: Schema, root: Schema) -> bool:
    """Tell whether a value has named parts that deserve rows."""
    return any(
        branch.get("properties")
        or branch.get("patternProperties")
        or isinstance(branch.get("additionalProperties"), Mapping)
        for branch in branches(schema, root)
    )


def type_text(schema: Schema, root: Schema) -> str:
    """Say what a value may be.

    >>> type_text({"type": ["number", "null"]}, {})
    'number or null'
    >>> type_text({"anyOf": [{"type": "string"}, {"type": "array", "items": {"enum": [1]}}]}, {})
    'string or list of `1`'
    """
    texts: list[str] = []
    for branch in branches(schema, root):
        if "enum" in branch or "const" in branch:
            values = branch.get("enum", [branch.get("const")])
            texts.append(", ".join(f"`{_scalar(value)}`" for value in values))
            continue
        types = branch.get("type", ())
        listed = [types] if isinstance(types, str) else types
        texts += [_type_name(str(name), branch, root) for name in listed]
    return " or ".join(dict.fromkeys(text for text in texts if text)) or "any"


def _type_name(name: str, schema: Schema, root: Schema) -> str:
    if name == "array":
        items = schema.get("items")
        inner = type_text(items, root) if isinstance(items, Mapping) else ""
        return f"list of {inner}" if inner and inner != "any" else "list"
    return {"object": "mapping", "boolean": "true or false"}.get(name, name)


def _unit_text(schema: Schema) -> str:
    unit = str(schema.get("x-unit", ""))
    return "" if unit == "1" else unit


def _default_text(schema: Schema) -> str:
    return f"`{_scalar(schema['default'])}`" if "default" in schema else ""


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value or '""'


def _description(schema: Schema, note: str) -> str:
    text = " ".join(str(schema.get("description", "")).split())
    parts = [text, _range_text(schema)]
    examples = schema.get("examples", ())
    if examples:
        parts.append(f"Example: `{_scalar(examples[0])}`.")
    parts.append(note)
    return " ".join(part for part in parts if part)


def _range_text(schema: Schema) -> str:
    """Write the allowed range.

    >>> _range_text({"exclusiveMinimum": 0, "maximum": 1})
    'Above 0, at most 1.'
    """
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{word} {schema[key]:,}" for key, word in words.items() if key in schema]
    text = ", ".join(limits)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _pattern_name(pattern: str) -> str:
    """Name the keys of a pattern; percentiles are the one everybody knows."""
    return "p50…p99.99" if pattern.startswith("^p[5-9]") else "name"


def main(argv: list[str] | None = None) -> None:
    """Write the page to the file named on the command line, or to stdout."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments:
        Path(arguments[0]).write_text(render(), encoding="utf-8")
    else:
        sys.stdout.write(render())


if __name__ == "__main__":
    main()
