"""YAML text → nodes with places, from the parser's events.

The loader of the library would build plain values (and resolve some the way YAML 1.1 did); building
from events keeps each value's place and text and needs the file parsed only once.
"""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from planner.errors import InputError, Problem
from planner.spec.document import Node
from planner.spec.json_tree import duplicate
from planner.spec.scalars import HALF_A_CHARACTER, MAX_DEPTH, plain_scalar, whole_characters

MAX_NODES = 1_000_000  # after expanding aliases; a few lines of YAML can otherwise ask for billions


def parse_yaml(text: str, file: str) -> tuple[Node, tuple[Problem, ...]]:
    """Parse one YAML document; see `planner.spec.json_tree.parse_json` for what is returned."""
    builder = _Builder(file)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except MarkedYAMLError as error:
        raise _syntax_error(error, text, file) from None
    except YAMLError as error:
        raise InputError(Problem(message=f"not YAML: {error}", file=file)) from None
    if builder.root is None:
        raise InputError(
            Problem(message="the file is empty", file=file, line=1, column=1, hint=_EMPTY_HINT)
        )
    return builder.root, tuple(builder.problems)


_EMPTY_HINT = "nothing but blanks or comments in it"


class _Open:
    """A mapping or sequence whose end has not come yet."""

    def __init__(self, event: Any) -> None:  # noqa: ANN401 - the library's events are untyped
        self.line = event.start_mark.line + 1
        self.column = event.start_mark.column + 1
        self.anchor: str | None = event.anchor
        self.is_mapping = isinstance(event, MappingStartEvent)
        self.items: dict[str, Node] = {}
        self.keys: dict[str, tuple[int, int]] = {}
        self.sequence: list[Node] = []
        self.key: tuple[str, int, int] | None = None  # waiting for its value
        self.dropped = False  # the waiting key has been refused; its value goes with it

    def close(self) -> Node:
        items = self.items if self.is_mapping else tuple(self.sequence)
        below = items.values() if isinstance(items, dict) else items
        size = 1 + sum(node.size for node in below)
        return Node(line=self.line, column=self.column, items=items, keys=self.keys, size=size)


class _Builder:
    """Turns the stream of events into one tree."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Node | None = None
        self.stack: list[_Open] = []
        self.anchors: dict[str, Node] = {}
        self.problems: list[Problem] = []
        self.documents = 0

    def take(self, event: Any) -> None:  # noqa: ANN401
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self.error(event, "a second document starts here", "one file, one document")
        elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            self.open(event)
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            closed = self.stack.pop()
            self.add(event, closed.close(), closed.anchor)
        elif isinstance(event, ScalarEvent):
            self.add(event, self.scalar(event), event.anchor)
        elif isinstance(event, AliasEvent):
            self.add(event, self.alias(event), None)

    def open(self, event: Any) -> None:  # noqa: ANN401
        self.refuse_tag(event)
        if self.stack and self.stack[-1].is_mapping and self.stack[-1].key is None:
            raise self.error(event, "a key must be text, not a mapping or list")
        if len(self.stack) >= MAX_DEPTH:
            raise self.error(event, f"nested deeper than {MAX_DEPTH} levels")
        self.stack.append(_Open(event))

    def scalar(self, event: Any) -> Node:  # noqa: ANN401
        try:
            text = whole_characters(str(event.value))
        except UnicodeError:
            raise self.error(event, HALF_A_CHARACTER) from None
        quoted = event.style is not None
        as_text = quoted or event.tag == "tag:yaml.org,2002:str"
        if not as_text:
            self.refuse_tag(event)
        mark = event.start_mark
        return Node(
            line=mark.line + 1,
            column=mark.column + 1,
            value=text if as_text else plain_scalar(text),
            raw=text,
        )

    def alias(self, event: Any) -> Node:  # noqa: ANN401
        name = str(event.anchor)
        if any(opened.anchor == name for opened in self.stack):
            raise self.error(event, f"*{name} contains itself", "write the values out")
        if name not in self.anchors:
            raise self.error(event, f"*{name} refers to no earlier &{name}")
        return self.anchors[name]

    def add(self, event: Any, node: Node, anchor: str | None) -> None:  # noqa: ANN401
        if node.size > MAX_NODES:
            raise self.error(event, "aliases expand to more than a million values")
        if anchor:
            self.anchors[str(anchor)] = node
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if not parent.is_mapping:
            parent.sequence.append(node)
        elif parent.key is None:
            self.add_key(event, parent, node)
        else:
            self.add_value(parent, node)

    def add_key(self, event: Any, parent: _Open, node: Node) -> None:  # noqa: ANN401
        if node.items is not None:
            raise self.error(event, "a key must be text, not a mapping or list")
        parent.dropped = node.raw == "<<" and event.style is None
        if parent.dropped:
            message, hint = "merge keys (<<) are not part of YAML 1.2", "write the keys out"
            self.problems.append(self.problem(event, message, hint))
        mark = event.start_mark
        parent.key = (node.raw, mark.line + 1, mark.column + 1)

    def add_value(self, parent: _Open, node: Node) -> None:
        if parent.key is None:
            return
        key, line, column = parent.key
        parent.key = None
        if key in parent.items:
            self.problems.append(duplicate(self.file, key, (line, column), parent.keys[key]))
            parent.items[key] = parent.items[key].joined(node)
        elif not parent.dropped:
            parent.items[key] = node
            parent.keys[key] = (line, column)

    def refuse_tag(self, event: Any) -> None:  # noqa: ANN401
        if event.tag not in (None, "!"):
            hint = "remove it; quotes make text"
            self.problems.append(self.problem(event, f"unsupported tag {event.tag}", hint))

    def problem(self, event: Any, message: str, hint: str = "") -> Problem:  # noqa: ANN401
        mark = event.start_mark
        return Problem(
            message=message, file=self.file, line=mark.line + 1, column=mark.column + 1, hint=hint
        )

    def error(self, event: Any, message: str, hint: str = "") -> InputError:  # noqa: ANN401
        return InputError(self.problem(event, message, hint))


def _syntax_error(error: MarkedYAMLError, text: str, file: str) -> InputError:
    """Translate the parser's complaint into one line a user can act on."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = str(error.problem or error.context or "broken YAML")
    message = message.replace("'<stream end>'", "the end of the file")
    hint = ""
    if error.context_mark and error.context:
        hint = f"{error.context} that starts at line {error.context_mark.line + 1}"
    source = dict(enumerate(text.split("\n"), start=1)).get(line, "")
    if "\\t" in message or source[:column].strip(" ") == "\t":
        message, hint = "a tab cannot indent YAML", "use spaces"
    for start, ours in _COMPLAINTS.items():
        if message.startswith(start):
            message, hint = ours
    return InputError(Problem(message=message, file=file, line=line, column=column, hint=hint))


# How the parser's complaint begins -> what a user should read.
_COMPLAINTS = {
    "mapping values are not allowed": (
        "a second ': ' on one line, or a line indented too far",
        "put quotes around text that holds ': '",
    ),
    "expected <block end>": (
        "this line fits neither the block above nor its parent",
        "indent it like its neighbours; a list and a mapping cannot mix",
    ),
    "could not find expected ':'": ("a key without ': ' and a value", "write key: value"),
    "found unexpected end of stream": ("the file ends inside a quoted text", "close the quotes"),
}
