"""TraceProfile ↔ profile.json: plain data with fixed rounding, checked by a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.json_data import decode, encode
from planner.profile.types import TraceProfile

SIGNIFICANT_DIGITS = 9  # enough to compare profiles; the last bits differ between processors


def profile_to_dict(profile: TraceProfile) -> dict[str, Any]:
    """Return the profile as JSON data that `schemas/profile.schema.json` accepts; NaN is null."""
    data: dict[str, Any] = encode(profile, rounded)
    return data


def profile_from_dict(data: Mapping[str, Any]) -> TraceProfile:
    """Return the profile that `data` describes; `profile_to_dict` of it is `data` again."""
    profile: TraceProfile = decode(TraceProfile, data)
    return profile


def rounded(value: float) -> float:
    """Round to nine significant digits.

    Examples
    --------
    >>> rounded(1.23456789012)
    1.23456789
    """
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
