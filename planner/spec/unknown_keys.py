"""A key the schema does not know: what the user probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from planner.spec.schema import Schema, branches, properties, resolve
from planner.spec.words import LONG, UNIT_SUFFIXES, convert, nearest, split_unit

SHORT_LIST = 12  # known names are listed in full up to this many


def hint_for(key: str, value: object, schema: Schema, root: Schema) -> str:
    """Return the hint for an unknown `key` of an object described by `schema`.

    In this order: another tool's name for it, the same name in another unit, a spelling, what the
    schema says about its keys, a name from another level of the file, the list of known names.
    """
    known = properties(schema, root)
    declared = str(schema.get("x-key-hint", ""))
    return (
        _renamed(key, known)
        or _in_our_unit(key, value, known)
        or _misspelt(key, known, schema, root)
        or (declared if declared != root.get("x-key-hint") else "")
        or _elsewhere(key, root)
        or declared
        or (f"known here: {', '.join(known)}" if 0 < len(known) <= SHORT_LIST else "")
    )


def _renamed(key: str, known: Mapping[str, Schema]) -> str:
    for name, sub in known.items():
        if key.lower() in sub.get("x-aliases", ()):
            return f"it is called {name}"
    return ""


def _in_our_unit(key: str, value: object, known: Mapping[str, Schema]) -> str:
    """Recognise `ttft_ms` where `ttft_s` is known, and write the value in seconds."""
    stem, unit = split_unit(key)
    for name, sub in known.items():
        known_stem, known_unit = split_unit(name)
        stems = {known_stem, *sub.get("x-aliases", ())}
        if stem not in stems or (unit == known_unit and stem == known_stem):
            continue
        if not unit:
            return f"did you mean {name}?"
        ours, factor = UNIT_SUFFIXES[unit]
        wanted = UNIT_SUFFIXES[known_unit][0] if known_unit else ""
        if ours != wanted:
            return f"did you mean {name}?"
        converted = convert(value, factor)
        if converted and "x-shorthand" in sub and not isinstance(value, Mapping):
            converted = f"{{{sub['x-shorthand']}: {converted}}}"
        return f"declare {LONG[wanted]} as {name}" + (f": {converted}" if converted else "")
    return ""


def _misspelt(key: str, known: Mapping[str, Schema], schema: Schema, root: Schema) -> str:
    """Recognise other capitals, dashes, blanks and letters; also of keys given by a pattern."""
    folded = key.strip().lower().replace("-", "_").replace(" ", "_")
    if folded in known:
        return f"did you mean {folded}?"
    tries = (
        folded,
        folded.replace("_", "."),
        f"p{folded}",
        re.sub(r"^(p99)(\d)", r"\1.\2", folded),
    )
    for branch in branches(schema, root):
        for pattern in branch.get("patternProperties", {}):
            for text in tries:
                if text != key and re.search(pattern, text):
                    return f"did you mean {text}?"
    name = nearest(key, known)
    return f"did you mean {name}?" if name else ""


def _elsewhere(key: str, root: Schema) -> str:
    """Recognise a right name on a wrong level."""
    homes = {home or "the top level" for home, name in _named(root, root, ()) if name == key}
    places = sorted(homes, key=lambda home: (len(home), home))[:2]
    return f"it belongs under {' or '.join(places)}" if places else ""


def _named(schema: Schema, root: Schema, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (dotted parent, name) of every named property; recursion ends at a repeated name."""
    for branch in branches(schema, root):
        for name, sub in branch.get("properties", {}).items():
            yield ".".join(path), name
            if name not in path:
                yield from _named(sub, root, (*path, name))
        for keyword in ("additionalProperties", "items"):
            below = branch.get(keyword)
            if isinstance(below, Mapping) and "<name>" not in path:
                yield from _named(resolve(below, root), root, (*path, "<name>"))
