"""Numbers on the command line: finite ones, which click's own ranges do not ask for."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers that refuses nan and inf wherever it is open.

    >>> FiniteRange(0).convert("2.5", None, None)
    2.5
    """

    def convert(
        self,
        value: Any,  # noqa: ANN401 - whatever click hands over
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number, or fail as click does, naming the option."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
