"""What an unquoted YAML scalar means: the core schema of YAML 1.2, and nothing else.

`no` is text, `1e3` a number, `12:30:00` and `2026-01-01` are text: YAML 1.1 says otherwise on each.
"""

from __future__ import annotations

import re

MAX_DEPTH = 100  # levels of nesting; real files have fewer than twenty
MAX_DIGITS = 300  # of an integer; more cannot be a float either
HALF_A_CHARACTER = "an escape stands for half a character (a lone surrogate)"

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})


def plain_scalar(text: str) -> object:
    """Return the value of an unquoted scalar.

    >>> [plain_scalar(text) for text in ("no", "1e3", "12:30:00", "0o17", "~", "True", "1_000")]
    ['no', 1000.0, '12:30:00', 15, None, True, '1_000']
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return finite_int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _INFINITE.fullmatch(text):
        return float(f"{match[1]}inf")
    return float("nan") if text in _NAN else text


def finite_int(text: str) -> int | float:
    """Return an integer, or infinity for one so long that no float holds it.

    Validation reports infinities with their place; an exception here could not.

    >>> finite_int("0x10"), finite_int("010"), finite_int("9" * 400)
    (16, 10, inf)
    """
    if len(text) > MAX_DIGITS:
        return float("-inf" if text.startswith("-") else "inf")
    for prefix, base in (("0o", 8), ("0x", 16)):
        if text.startswith(prefix):
            return int(text[2:], base)
    return int(text)


def whole_characters(text: str) -> str:
    r"""Join escaped surrogate pairs into the characters they mean.

    Raises
    ------
    UnicodeError
        Half a pair: no such character exists, and printing it would fail later.

    >>> whole_characters("\ud83d\ude00") == "\U0001f600"
    True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
