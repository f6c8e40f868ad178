"""Tables of the generated documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)
