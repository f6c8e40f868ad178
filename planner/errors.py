"""Everything that can go wrong on purpose.

PlannerError
├── InputError        exit 2   the input is wrong: one or more problems, each with its place
├── InfeasibleError   exit 3   the input is fine, no plan satisfies it
├── GateError         exit 4   a deployed plan no longer holds
└── StoppedError      exit 130 the user stopped the search; what was found so far
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.text import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with an input: what, where, and what to do about it.

    `line` and `column` count from 1; 0 means the place has no line (a directory, a flag).
    """

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    hint: str = ""

    def __str__(self) -> str:
        """Render as `file:line:col path: message (hint)`, one line, leaving out what is unknown."""
        place = self.file
        if self.line:
            place += f":{self.line}:{self.column}"
        where = " ".join(part for part in (place, self.path) if part)
        text = f"{where}: {self.message}" if where else self.message
        return visible(f"{text} ({self.hint})" if self.hint else text)


class PlannerError(Exception):
    """Base of every error a user can cause; `exit_code` is what the command returns."""

    exit_code = 1


class InputError(PlannerError):
    """The input is wrong. Carries every problem found, not just the first."""

    exit_code = 2

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InfeasibleError(PlannerError):
    """Nothing satisfies the input. `nearest` says what would, in one sentence."""

    exit_code = 3

    def __init__(self, message: str, *, nearest: str = "") -> None:
        self.nearest = nearest
        super().__init__(f"{message}\n{nearest}" if nearest else message)


class GateError(PlannerError):
    """A deployed plan does not hold for the traffic it was checked against."""

    exit_code = 4


class StoppedError(PlannerError):
    """The user stopped a search. The message is the best plan so far, labelled unfinished."""

    exit_code = 130  # 128 + SIGINT, as shells report it
