"""Read typed fields out of a Hugging Face `config.json`, collecting every problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import InputError, Problem


class Fields:
    """A config's fields, with their types checked.

    A missing or wrong field is noted and a harmless value returned, so that one pass finds every
    problem; `raise_if_any` ends the pass.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        file: str = "",
        prefix: str = "",
        problems: list[Problem] | None = None,
    ) -> None:
        self._config = config
        self._file = file
        self._prefix = prefix
        self.problems: list[Problem] = [] if problems is None else problems

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._config.get(name) is not None

    def declares(self, name: str) -> bool:
        """Whether the field is there, at the top level or in `text_config`."""
        return self.has(name) or self.section("text_config").has(name)

    def problem(self, name: str, message: str, hint: str = "") -> None:
        """Note a problem with one field."""
        path = f"{self._prefix}{name}"
        self.problems.append(Problem(message=message, file=self._file, path=path, hint=hint))

    def integer(self, name: str, default: int | None = None, *, minimum: int = 1) -> int:
        """Return a whole number; null and absent mean the default."""
        value = self._config.get(name)
        if value is None:
            if default is None:
                self.problem(name, "missing", "a whole number is needed to size the model")
                return max(minimum, 1)
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            self.problem(name, f"{value!r} is not a whole number of at least {minimum}")
            return max(minimum, 1)
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean; null and absent mean the default."""
        value = self._config.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(name, f"{value!r} is neither true nor false")
            return default
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return a string; null and absent mean the default."""
        value = self._config.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.problem(name, f"{value!r} is not a text")
            return default
        return value

    def items(self, name: str) -> Sequence[Any]:
        """Return a list; null and absent mean an empty one."""
        value = self._config.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.problem(name, f"{value!r} is not a list")
            return ()
        return value

    def section(self, name: str) -> Fields:
        """Return a nested mapping's fields; null and absent mean an empty one."""
        value = self._config.get(name)
        if value is not None and not isinstance(value, dict):
            self.problem(name, "is not a mapping")
            value = None
        return Fields(
            value or {},
            file=self._file,
            prefix=f"{self._prefix}{name}.",
            problems=self.problems,
        )

    def with_defaults(self, defaults: Mapping[str, Any]) -> Fields:
        """Return the same fields with `defaults` for those absent."""
        return Fields(
            {**defaults, **self._config},
            file=self._file,
            prefix=self._prefix,
            problems=self.problems,
        )

    def raise_if_any(self) -> None:
        """Raise every problem noted so far."""
        if self.problems:
            raise InputError(self.problems)
