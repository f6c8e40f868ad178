"""Read a YAML 1.2 or JSON file and keep the place of every value for messages."""

from __future__ import annotations

import re
from pathlib import Path

from planner.errors import InputError, Problem
from planner.spec.document import Document, dotted, in_order, raise_for
from planner.spec.nearby import nearest_path

__all__ = ["Document", "dotted", "in_order", "raise_for", "read_document", "scan_document"]

MAX_BYTES = 64 * 2**20  # far beyond any declaration; a trace passed by mistake stops here
# What neither format allows in text, apart from tab, line feed and carriage return.
_CONTROL_YAML = re.compile("[\x85\u2028\u2029]")  # invisible; readers disagree on line breaks
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")


def read_document(path: Path) -> Document:
    """Read one file; the suffix `.json` selects JSON, anything else is YAML 1.2.

    Raises
    ------
    InputError
        The file cannot be read, is not text, is empty, or its form is broken (duplicate keys, tabs,
        anchors that contain themselves): each problem with its line and column.
    """
    document = scan_document(path)
    raise_for(document.problems)
    return document


def scan_document(path: Path) -> Document:
    """Like `read_document`, but leave duplicate keys and the like in `Document.problems`.

    For callers that go on to validate, so that a user sees everything at once.
    """
    path = Path(path)
    file = str(path)
    return parse_document(_text(path, file), file)


def parse_document(text: str, file: str) -> Document:
    """Parse `text` as the content of `file`; the name decides the format as in `read_document`."""
    is_json = file.lower().endswith(".json")
    match = _CONTROL.search(text) or (None if is_json else _CONTROL_YAML.search(text))
    if match:
        line, column = _place(text, match.start())
        message = f"character U+{ord(match[0]):04X} is not allowed in a text file"
        hint = "is it a text file?"
        raise InputError(Problem(message=message, file=file, line=line, column=column, hint=hint))
    if not text.strip():
        raise InputError(Problem(message="the file is empty", file=file, line=1, column=1))
    if is_json:
        from planner.spec.json_tree import parse_json as parse
    else:
        from planner.spec.yaml_tree import parse_yaml as parse
    root, problems = parse(text, file)
    return Document(file=file, data=root.plain(), root=root, problems=problems)


def expanded(name: str) -> Path:
    """Return a path with `~` resolved, left as it is where there is no such user.

    >>> str(expanded("~nobody-of-that-name/config.json"))
    '~nobody-of-that-name/config.json'
    """
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def _text(path: Path, file: str) -> str:
    """Return the file's text, or say why there is none."""
    try:
        with path.open("rb") as stream:  # a device has no size: never read more than allowed
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(
            Problem(message="no such file", file=file, hint=nearest_path(path))
        ) from None
    except IsADirectoryError:
        raise InputError(Problem(message="is a directory, a file is needed", file=file)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(Problem(message=f"cannot be read: {reason}", file=file)) from None
    if len(content) > MAX_BYTES:
        message = f"larger than {MAX_BYTES // 2**20} MiB"
        raise InputError(Problem(message=message, file=file, hint="is this the right file?"))
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(content[: error.start].decode("utf-8"), error.start)
        message = f"byte 0x{content[error.start]:02x} is not UTF-8"
        hint = "save the file as UTF-8; is it a text file?"
        raise InputError(
            Problem(message=message, file=file, line=line, column=column, hint=hint)
        ) from None


def _place(text: str, at: int) -> tuple[int, int]:
    """Return line and column (from 1) of an offset into `text`."""
    before = text[:at]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
