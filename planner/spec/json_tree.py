"""JSON text → nodes with places. The standard parser reads values but forgets where they were."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from json.decoder import scanstring  # type: ignore[attr-defined]  # public, but missing from typeshed

from planner.errors import InputError, Problem
from planner.spec.document import Node
from planner.spec.scalars import HALF_A_CHARACTER, MAX_DEPTH, finite_int, whole_characters

_STRING_FAULT = "broken JSON string: an unknown escape, a line break, or no closing quote"
_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_WORDS: dict[str, object] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),  # Python and others write these; validation then names the place
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


def parse_json(text: str, file: str) -> tuple[Node, tuple[Problem, ...]]:
    """Parse a whole JSON text; duplicate keys are problems, broken syntax an InputError."""
    return _Scanner(text, file).document()


class _Scanner:
    """One pass over a text; `at` is where it stands."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.depth = 0
        self.problems: list[Problem] = []
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def document(self) -> tuple[Node, tuple[Problem, ...]]:
        self.skip()
        node = self.value()
        self.skip()
        if self.at < len(self.text):
            raise self.error("text after the end of the JSON value")
        return node, tuple(self.problems)

    def place(self, at: int) -> tuple[int, int]:
        line = bisect_right(self.starts, at)
        return line, at - self.starts[line - 1] + 1

    def error(self, message: str, hint: str = "") -> InputError:
        line, column = self.place(self.at)
        return InputError(
            Problem(message=message, file=self.file, line=line, column=column, hint=hint)
        )

    def skip(self) -> None:
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def take(self, character: str) -> bool:
        """Step over `character` and the blanks around it, if it is next."""
        self.skip()
        if not self.text.startswith(character, self.at):
            return False
        self.at += 1
        self.skip()
        return True

    def value(self) -> Node:
        line, column = self.place(self.at)
        start = self.at
        head = self.text[start : start + 1]
        if head in ("{", "["):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self.error(f"nested deeper than {MAX_DEPTH} levels")
            node = self.mapping(line, column) if head == "{" else self.sequence(line, column)
            self.depth -= 1
            return node
        value = self.string() if head == '"' else self.word()
        return Node(line=line, column=column, value=value, raw=self.text[start : self.at])

    def string(self) -> str:
        try:
            value, self.at = scanstring(self.text, self.at + 1, True)
        except json.JSONDecodeError as error:
            self.at = min(error.pos, len(self.text))
            raise self.error(_STRING_FAULT) from None
        try:
            return whole_characters(value)
        except UnicodeError:
            raise self.error(HALF_A_CHARACTER) from None

    def word(self) -> object:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        match = _NUMBER.match(self.text, self.at)
        if not match:
            raise self.error("expected a JSON value", "is something missing or a comma too many?")
        self.at = match.end()
        whole, fraction, exponent = match.groups()
        return float(match[0]) if fraction or exponent else finite_int(whole)

    def mapping(self, line: int, column: int) -> Node:
        items: dict[str, Node] = {}
        keys: dict[str, tuple[int, int]] = {}
        self.take("{")
        while not self.take("}"):
            if items and not self.take(","):
                raise self.error("expected ',' or '}'")
            place = self.place(self.at)
            if not self.text.startswith('"', self.at):
                raise self.error("expected a key in double quotes", "is there a comma too many?")
            key = self.string()
            if not self.take(":"):
                raise self.error("expected ':' after the key")
            item = self.value()
            if key in items:
                self.problems.append(duplicate(self.file, key, place, keys[key]))
                items[key] = items[key].joined(item)
            else:
                items[key] = item
                keys[key] = place
        size = 1 + sum(item.size for item in items.values())
        return Node(line=line, column=column, items=items, keys=keys, size=size)

    def sequence(self, line: int, column: int) -> Node:
        items: list[Node] = []
        self.take("[")
        while not self.take("]"):
            if items and not self.take(","):
                raise self.error("expected ',' or ']'")
            items.append(self.value())
        size = 1 + sum(item.size for item in items)
        return Node(line=line, column=column, items=tuple(items), size=size)


def duplicate(file: str, key: str, place: tuple[int, int], first: tuple[int, int]) -> Problem:
    """Return the problem of a key written twice in one mapping."""
    return Problem(
        message=f"key {key!r} is written twice",
        file=file,
        line=place[0],
        column=place[1],
        hint=f"first at line {first[0]}; remove one",
    )
