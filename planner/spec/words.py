"""How values, units and near misses are worded in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

# Unit suffix of a name -> (suffix the project writes, factor to it).
UNIT_SUFFIXES: Mapping[str, tuple[str, float]] = {
    **dict.fromkeys(("ns", "nanos"), ("s", 1e-9)),
    **dict.fromkeys(("us", "µs", "micros", "usec"), ("s", 1e-6)),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "milliseconds"), ("s", 1e-3)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("s", 1.0)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), ("s", 60.0)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), ("s", 3600.0)),
    **dict.fromkeys(("d", "day", "days"), ("s", 86400.0)),
    **dict.fromkeys(("b", "byte", "bytes"), ("bytes", 1.0)),
    **dict.fromkeys(("kb",), ("bytes", 1e3)),
    **dict.fromkeys(("mb",), ("bytes", 1e6)),
    **dict.fromkeys(("gb",), ("bytes", 1e9)),
    **dict.fromkeys(("tb",), ("bytes", 1e12)),
    **dict.fromkeys(("kib",), ("bytes", 2.0**10)),
    **dict.fromkeys(("mib",), ("bytes", 2.0**20)),
    **dict.fromkeys(("gib",), ("bytes", 2.0**30)),
    **dict.fromkeys(("tib",), ("bytes", 2.0**40)),
    **dict.fromkeys(("%", "pct", "percent", "percentage"), ("", 0.01)),
}
# What `x-unit` calls a unit -> the suffix above.
UNIT_OF = {"s": "s", "bytes": "bytes", "1": ""}
LONG = {"s": "seconds", "bytes": "bytes", "": "a share between 0 and 1"}

_QUANTITY = re.compile(r"\s*([-+]?[\d_,]*\.?\d+(?:[eE][-+]?\d+)?)\s*([A-Za-zµ%]*)\s*")


def describe(value: object, *, limit: int = 60) -> str:
    """Say what a value is.

    >>> [describe(value) for value in (None, True, "200ms", 3, 0.5, [1], {})]
    ['nothing', 'true', "text '200ms'", 'the number 3', 'the number 0.5', 'a list', 'a mapping']
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {number(value)}"
    if isinstance(value, str):
        return f"text {value[:limit]!r}" + ("…" if len(value) > limit else "")
    return "a mapping" if isinstance(value, Mapping) else "a list"


def number(value: float) -> str:
    """Write a number the way a user would type it.

    >>> number(4000.0), number(0.30000000000000004), number(1e20)
    ('4000', '0.3', '1e+20')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known word closest to `word`, or "".

    >>> nearest("headrom", ["headroom", "growth"])
    'headroom'
    """
    folded = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), list(folded), n=1, cutoff=cutoff)
    return folded[found[0]] if found else ""


def split_unit(name: str) -> tuple[str, str]:
    """Split a name into stem and unit suffix as typed; no unit gives "".

    >>> split_unit("ttft_ms"), split_unit("headroom"), split_unit("tpotMs")
    (('ttft', 'ms'), ('headroom', ''), ('tpot', 'ms'))
    """
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
    stem, _, unit = snake.rpartition("_")
    return (stem, unit) if stem and unit in UNIT_SUFFIXES else (snake, "")


def as_quantity(text: str) -> tuple[float, str] | None:
    """Read "200ms" or "15 %" as a number and its unit word, or return None.

    >>> as_quantity("200ms"), as_quantity("15 %"), as_quantity("1,000"), as_quantity("fast")
    ((200.0, 'ms'), (15.0, '%'), (1000.0, ''), None)
    """
    match = _QUANTITY.fullmatch(text)
    if not match:
        return None
    return float(match[1].replace(",", "").replace("_", "")), match[2]


def quantity_hint(text: str, unit: str) -> str:
    """Say how to write a number that was given as text, for a field measured in `unit`.

    >>> quantity_hint("200ms", "s")
    'seconds, without a unit: 0.2'
    """
    quantity = as_quantity(text)
    if quantity is None:
        return ""
    value, word = quantity
    if not word:
        return f"without quotes or separators: {number(value)}"
    suffix, factor = UNIT_SUFFIXES.get(word.lower(), (None, 1.0))
    wanted = UNIT_OF.get(unit)
    if suffix is None or suffix != wanted:
        return "a plain number, without a unit"
    return f"{LONG[wanted]}, without a unit: {number(value * factor)}"


def convert(value: object, factor: float) -> str:
    """Write a number or a flat mapping of numbers in another unit; "" where that makes no sense.

    >>> convert({"p99": 200}, 1e-3), convert(200, 1e-3), convert("soon", 1e-3)
    ('{p99: 0.2}', '0.2', '')
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value * factor)
    if not isinstance(value, Mapping) or not value:
        return ""
    parts = {key: convert(item, factor) for key, item in value.items() if key != "attainment"}
    if not all(parts.values()) or len(parts) != len(value):
        return ""
    return "{" + ", ".join(f"{key}: {text}" for key, text in parts.items()) + "}"
