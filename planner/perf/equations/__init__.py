"""Every equation of the package: formula, symbols, function and a case, in one table.

`EQUATIONS` maps ids (function names) to `Equation`; `find` also knows the aliases.
"""

from __future__ import annotations

import difflib

from planner.errors import InputError, Problem
from planner.perf.equations.equation import Equation
from planner.perf.equations.of_load import COST, PREEMPTION, QUEUES
from planner.perf.equations.of_memory import BEYOND, MEMORY
from planner.perf.equations.of_operators import OPERATORS
from planner.perf.equations.of_theory import WORK
from planner.perf.equations.of_theory_steps import STEPS
from planner.perf.equations.symbols import SYMBOLS, Symbol

__all__ = ["EQUATIONS", "SECTIONS", "SYMBOLS", "Equation", "Symbol", "find"]

SECTIONS = {
    "Chunked prefill": (*WORK, *STEPS),
    "Operators of a step": OPERATORS,
    "Memory": MEMORY,
    "Speculation and disaggregation": BEYOND,
    "Queues": QUEUES,
    "Preemption": PREEMPTION,
    "Cost": COST,
}
EQUATIONS = {item.id: item for section in SECTIONS.values() for item in section}


def find(name: str) -> Equation:
    """Return the equation of an id or alias; dashes and underscores are the same.

    Raises
    ------
    InputError
        Unknown name; the message offers the nearest one.
    """
    names = {
        key.replace("_", "-"): item
        for item in EQUATIONS.values()
        for key in (item.id, *item.aliases)
    }
    wanted = name.lower().replace("_", "-")
    if wanted in names:
        return names[wanted]
    near = difflib.get_close_matches(wanted, names, n=1)
    nearest = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(
        Problem(
            message=f"unknown equation {name!r}{nearest}", hint="`planner explain` lists them all"
        )
    )
