"""Markdown that holds whatever a log or a file name brings: escaping, code spans, fences."""

from __future__ import annotations

import re

from markupsafe import Markup

_SPECIAL = re.compile(r"([\\`*\[\]|~$])")
_EDGE_UNDERSCORE = re.compile(r"(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_ENTITY = re.compile(r"&(?=#?[0-9A-Za-z]+;)")
_LINE_START = re.compile(r"^([#>]|[-+](?=\s|$)|[-=](?=[-=]*$))")


def one_line(text: str) -> str:
    r"""Return `text` without line breaks, control characters and text-direction overrides.

    >>> one_line("a\nb\x07c")
    'a b c'
    """
    return _CONTROL.sub(" ", text)


def escape(text: str) -> Markup:
    r"""Return `text` as Markdown that renders as exactly that text, also inside a table cell.

    >>> print(escape("a|b <img src=x> *c* `d` _e_ f_g"))
    a\|b &lt;img src=x> \*c\* \`d\` \_e\_ f_g
    """
    text = _SPECIAL.sub(r"\\\1", one_line(text))
    text = _ENTITY.sub("&amp;", text).replace("<", "&lt;")
    text = _EDGE_UNDERSCORE.sub(r"\\_", text)
    return Markup(_LINE_START.sub(r"\\\1", text))


def code(text: str) -> Markup:
    r"""Return `text` as a code span whose delimiter is longer than any run of backticks in it.

    >>> print(code("ls -l"), code("a`b"), code("x|y"))
    `ls -l` ``a`b`` `x\|y`
    """
    text = one_line(text).replace("|", "\\|")
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return Markup(f"{fence}{pad}{text}{pad}{fence}")


def fenced(text: str, language: str = "") -> Markup:
    """Return `text` as a fenced block that nothing inside can close."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return Markup(f"{fence}{language}\n{text}\n{fence}")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
