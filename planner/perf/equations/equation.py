"""What the registry says of one equation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planner.perf.equations.symbols import SYMBOLS, Symbol
from planner.perf.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """One named equation: its function, its formula, and a case with a value known otherwise.

    `template` is the right-hand side with parameter names in braces. `example` and `expected` are
    the registered case that a test evaluates and the documentation prints.
    """

    id: str
    function: Callable[..., Quantity]
    symbol: str
    unit: str
    template: str
    example: Mapping[str, float]
    expected: float
    aliases: tuple[str, ...] = ()
    related: tuple[str, ...] = ()  # ids worth printing beside it

    @property
    def title(self) -> str:
        """First clause of the function's docstring, without its leading verb."""
        line = (self.function.__doc__ or "").strip().split("\n\n")[0]
        text = re.split(r"[:.]\s", " ".join(line.split()) + " ")[0]
        return text.removeprefix("Return ").strip()

    @property
    def source(self) -> str:
        """The docstring's source, one line."""
        text = " ".join((self.function.__doc__ or "").split(">>>")[0].split())
        found = re.search(r"Source: (.+)$", text)
        return found[1].strip() if found else ""

    @property
    def module(self) -> str:
        """Where the function lives, for the documentation's links."""
        return f"{self.function.__module__}.{self.function.__name__}"

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The parameters in the order of the example."""
        return tuple(SYMBOLS[name] for name in self.example)

    @property
    def formula(self) -> str:
        """The equation in symbols."""
        return f"{self.symbol} = {self.fill({n: SYMBOLS[n].symbol for n in self.example})}"

    def fill(self, texts: Mapping[str, str]) -> str:
        """Return the right-hand side with each parameter replaced by its text."""
        return re.sub(r"\{(\w+)\}", lambda match: texts[match[1]], self.template)


def equation(
    function: Callable[..., Quantity],
    symbol: str,
    unit: str,
    template: str,
    expected: float,
    *,
    aliases: tuple[str, ...] = (),
    related: tuple[str, ...] = (),
    **example: float,
) -> Equation:
    """Declare one equation; its id is the function's name."""
    return Equation(
        id=function.__name__,
        function=function,
        symbol=symbol,
        unit=unit,
        template=template,
        example=example,
        expected=expected,
        aliases=aliases,
        related=related,
    )
