"""The number type of the equations."""

from __future__ import annotations

from typing import Any, TypeAlias

# A float or a float64 array: every equation broadcasts as numpy does. `Any` because mypy cannot
# say "float in, float out; array in, array out" for mixed arguments without an overload for each.
Quantity: TypeAlias = Any
