"""Dataclasses ↔ JSON data, driven by their annotations; what a file holds is said by its schema."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


def encode(value: object, rounded: Callable[[float], float]) -> Any:  # noqa: ANN401 - JSON data
    """Turn dataclasses, tuples, mappings and NumPy scalars into JSON data; NaN and ±∞ into null.

    `rounded` cuts a finite number to the digits that the file keeps.

    Examples
    --------
    >>> encode({"a": (1.26, math.nan, None)}, lambda number: round(number, 1))
    {'a': [1.3, None, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: encode(getattr(value, item.name), rounded) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item, rounded) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item, rounded) for item in value]
    if hasattr(value, "item") and not isinstance(value, (int, float)):  # a NumPy scalar
        return encode(value.item(), rounded)
    if isinstance(value, float):
        return rounded(float(value)) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(f"JSON cannot hold {type(value).__name__}: {value!r}")


def decode(hint: Any, value: Any) -> Any:  # noqa: ANN401 - driven by the annotation
    """Build what `hint` annotates from JSON data; null is NaN where a number is expected.

    A field that the data lack takes its default: files of an older version stay readable.

    Examples
    --------
    >>> decode(tuple[float, ...], [1, None])
    (1.0, nan)
    """
    origin = get_origin(hint)
    if origin in (types.UnionType, Union):
        inner = [option for option in get_args(hint) if option is not type(None)]
        return None if value is None else decode(inner[0] if len(inner) == 1 else object, value)
    if origin is tuple:
        return tuple(decode(get_args(hint)[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        key, item = get_args(hint)
        return {decode(key, k): decode(item, v) for k, v in value.items()}
    if isinstance(hint, type) and is_dataclass(hint):
        held = [(name, inner) for name, inner in _hints(hint) if name in value]
        return hint(**{name: decode(inner, value[name]) for name, inner in held})
    if hint is float:
        return math.nan if value is None else float(value)
    return value


@cache
def _hints(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return (field, annotation) of a dataclass, annotations evaluated once."""
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))
