"""TraceProfile ↔ profile.json: plain data with fixed rounding, checked by a schema."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from planner.profile.types import TraceProfile

SIGNIFICANT_DIGITS = 9  # enough to compare profiles; the last bits differ between processors


def profile_to_dict(profile: TraceProfile) -> dict[str, Any]:
    """Return the profile as JSON data that `schemas/profile.schema.json` accepts; NaN is null."""
    data: dict[str, Any] = _encode(profile)
    return data


def profile_from_dict(data: Mapping[str, Any]) -> TraceProfile:
    """Return the profile that `data` describes; `profile_to_dict` of it is `data` again."""
    profile: TraceProfile = _decode(TraceProfile, data)
    return profile


def rounded(value: float) -> float | None:
    """Round to nine significant digits; None for what is not a number.

    Examples
    --------
    >>> rounded(1.23456789012), rounded(float("nan"))
    (1.23456789, None)
    """
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None


def _encode(value: Any) -> Any:  # noqa: ANN401 - JSON data
    if is_dataclass(value):
        return {item.name: _encode(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return rounded(value) if isinstance(value, float) else value


def _decode(hint: Any, value: Any) -> Any:  # noqa: ANN401 - driven by the annotation
    origin = get_origin(hint)
    if origin in (types.UnionType, Union):
        inner = next(option for option in get_args(hint) if option is not type(None))
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        return tuple(_decode(get_args(hint)[0], item) for item in value)
    if origin is not None:  # Mapping[str, …]
        return {key: _decode(get_args(hint)[1], item) for key, item in value.items()}
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        names = (item.name for item in fields(hint))
        return hint(**{name: _decode(hints[name], value[name]) for name in names})  # type: ignore[operator]
    if hint is float:
        return math.nan if value is None else float(value)
    return value
