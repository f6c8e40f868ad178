"""A parsed YAML or JSON file that still knows where every value was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.errors import InputError, Problem

PathTuple = Sequence[str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value with its place; `keys` holds the places of a mapping's keys.

    `raw` is a scalar as typed ("0.10"), which the number read from it (0.1) no longer shows.
    `size` counts this node and everything below it, aliases expanded.
    """

    line: int
    column: int
    value: object = None  # of a scalar
    raw: str = ""
    items: Mapping[str, Node] | tuple[Node, ...] | None = None  # of a mapping or a sequence
    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 1

    def joined(self, other: Node) -> Node:
        """Return a mapping with the keys of another that it lacks; anything else as it is.

        For a key written twice: what stands under the second is looked over too.
        """
        if not (isinstance(self.items, Mapping) and isinstance(other.items, Mapping)):
            return self
        return replace(
            self,
            items={**other.items, **self.items},
            keys={**other.keys, **self.keys},
            size=self.size + other.size,
        )

    def plain(self) -> object:
        """Return the value as fresh dicts, lists and scalars."""
        if isinstance(self.items, Mapping):
            return {key: item.plain() for key, item in self.items.items()}
        if isinstance(self.items, tuple):
            return [item.plain() for item in self.items]
        return self.value

    def child(self, step: str | int) -> Node | None:
        """Return the value under a key or index, or None where there is none."""
        if isinstance(self.items, Mapping):
            return self.items.get(str(step))
        if isinstance(self.items, tuple) and isinstance(step, int):
            return self.items[step] if 0 <= step < len(self.items) else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file says (`data`: dict, list, scalars; keys are always text) and where.

    `problems` holds what is wrong with the file's form (duplicate keys, unsupported tags) while the
    rest could still be read; `planner.spec.load.read_document` never returns a document with any.
    """

    file: str
    data: object
    root: Node
    problems: tuple[Problem, ...] = ()

    def place(self, path: PathTuple) -> tuple[int, int]:
        """Return (line, column) of the value at `path`, or of its nearest existing parent."""
        node = self.root
        place = (node.line, node.column)
        for step in path:
            found = node.child(step)
            if found is None:
                break
            node = found
            place = (node.line, node.column)
        return place

    def key_place(self, path: PathTuple) -> tuple[int, int]:
        """Return (line, column) of the key that names `path`; of the value in a sequence."""
        parent: Node | None = self.root
        for step in path[:-1]:
            parent = parent.child(step) if parent else None
        if parent and path and str(path[-1]) in parent.keys:
            return parent.keys[str(path[-1])]
        return self.place(path)

    def raw(self, path: PathTuple) -> str:
        """Return the scalar at `path` as it was typed ("" for anything else)."""
        node: Node | None = self.root
        for step in path:
            node = node.child(step) if node else None
        return node.raw if node else ""

    def problem(
        self, path: PathTuple, message: str, hint: str = "", *, key: bool = False
    ) -> Problem:
        """Return a Problem at the value of `path`, or at its key."""
        line, column = self.key_place(path) if key else self.place(path)
        return Problem(
            message=message,
            file=self.file,
            line=line,
            column=column,
            path=dotted(path),
            hint=hint,
        )


def dotted(path: PathTuple) -> str:
    """Write a path the way messages do.

    >>> dotted(("classes", 0, "slo", "ttft_s", "p99"))
    'classes[0].slo.ttft_s.p99'
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def raise_for(problems: Sequence[Problem]) -> None:
    """Raise InputError with all `problems` in the order of the file, if there are any."""
    if problems:
        raise InputError(in_order(problems))


def in_order(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Sort problems by place and drop exact repeats."""
    unique = dict.fromkeys(problems)
    return tuple(sorted(unique, key=lambda p: (p.file, p.line, p.column, p.path, p.message)))
