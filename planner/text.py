"""Text from logs and file names, made safe to print."""

from __future__ import annotations

import re

# Controls, line and paragraph ends, direction marks and overrides, halves of characters.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Write what would break a line or steer a terminal as an escape.

    >>> print(visible("a\nb\x1b[31m"), visible("né"))
    a\nb\x1b[31m né
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(number: float, noun: str, nouns: str = "") -> str:
    """Write a whole number with what it counts, in the singular for one.

    >>> counted(1, "GPU"), counted(1200, "replica"), counted(2, "class", "classes")
    ('1 GPU', '1,200 replicas', '2 classes')
    """
    return f"{number:,.0f} {noun if number == 1 else nouns or noun + 's'}"
