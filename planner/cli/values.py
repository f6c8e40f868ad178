"""What options take beyond click's own types: finite numbers, named places."""

from __future__ import annotations

import math
import os

import click


class FiniteRange(click.FloatRange):
    """A number within bounds; nan and infinity are none, though every comparison lets nan pass."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number.

        Raises
        ------
        click.BadParameter
            It is no number, not finite, or out of bounds.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class NamedPath(click.Path):
    """A path that is named: an empty word would mean the current directory."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return the path.

        Raises
        ------
        click.BadParameter
            The word is empty.
        """
        if not str(value):
            self.fail("the path is empty: name one, '.' for the current directory", param, ctx)
        return super().convert(value, param, ctx)
