"""Write a calibration as YAML text: fixed order, four significant digits, same bytes each time."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

Value = float | int | str | bool | Mapping[str, "Value"] | Sequence[str]


def number(value: float) -> str:
    """Return four significant digits without a trailing exponent form YAML would misread.

    >>> number(0.123456), number(4.0), number(123456.0), number(0.0)
    ('0.1235', '4.0', '123500.0', '0.0')
    """
    if value == 0 or not math.isfinite(value):
        return ".inf" if math.isinf(value) else "0.0"
    digits = 3 - math.floor(math.log10(abs(value)))
    return repr(float(round(value, digits)))


def dump(data: Mapping[str, Value], indent: int = 0) -> str:
    """Return block YAML of nested mappings; mappings without children stay on one line."""
    pad = "  " * indent
    lines = []
    for key, value in data.items():
        if isinstance(value, Mapping):
            if any(isinstance(item, Mapping) for item in value.values()):
                lines.append(f"{pad}{_key(key)}:\n{dump(value, indent + 1)}")
            else:
                inner = ", ".join(f"{_key(k)}: {_scalar(v)}" for k, v in value.items())
                lines.append(f"{pad}{_key(key)}: {{{inner}}}\n")
        elif isinstance(value, list | tuple):
            items = "".join(f"{pad}  - {_scalar(item)}\n" for item in value)
            lines.append(f"{pad}{_key(key)}:\n{items}" if value else f"{pad}{_key(key)}: []\n")
        else:
            lines.append(f"{pad}{_key(key)}: {_scalar(value)}\n")
    return "".join(lines)


def _key(key: str) -> str:
    return f'"{key}"' if key.isdigit() else key


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)
