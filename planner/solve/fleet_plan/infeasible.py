"""Why no fleet exists: each constraint relaxed alone, and by how much it must give."""

from __future__ import annotations

import math

from planner.errors import InfeasibleError
from planner.solve.fleet_plan.optimise import optimise
from planner.solve.fleet_plan.question import Answer, Question

SOLVER_USD = 1e-6  # dollars below which the solver means none


def no_fleet(question: Question, names: tuple[str, ...]) -> InfeasibleError:
    """Return the error that says which single constraint to relax, and by how much.

    Parameters
    ----------
    question
        A problem without a solution.
    names
        Of the quarters.
    """
    sentences = [sentence for sentence in _ways(question, names) if sentence]
    message = "no fleet meets every target within the inventory"
    if question.budget_usd_per_month is not None:
        message += " and the budget"
    return InfeasibleError(message, nearest="\n".join(sentences))


def _ways(question: Question, names: tuple[str, ...]) -> list[str]:
    """Return one sentence for every constraint whose relaxation alone is enough."""
    more = optimise(question, ("inventory",))
    dearer = optimise(question, ("budget",)) if question.budget_usd_per_month else None
    redundant = any(need.spares or need.survives_region for need in question.needs)
    bare = optimise(question, ("redundancy",)) if redundant else None
    part = optimise(question, ("demand",))
    both = None
    if more is None and dearer is None:
        both = optimise(question, ("inventory", "budget"))
    return [
        "" if more is None else f"inventory: {_extra(question, more, names)} would be enough",
        "" if dearer is None else f"budget: {_over(dearer, names)} would be enough",
        "" if both is None else f"inventory and budget together: {_both(question, both, names)}",
        "" if bare is None else "redundancy: without spare replicas and regions it would fit",
        "" if part is None else f"demand: the most that fits is {part.share:.1%} of every service",
    ]


def _extra(question: Question, answer: Answer, names: tuple[str, ...]) -> str:
    """Return the GPUs that are missing, by type and region, from the first quarter that misses any.

    The most that any quarter misses, from the first on: who adds that has enough in every quarter.
    """
    most: dict[int, int] = {}
    first: dict[int, int] = {}
    for (index, quarter), count in answer.extra.items():
        if count > 0:
            most[index] = max(count, most.get(index, 0))
            first[index] = min(quarter, first.get(index, quarter))
    return ", ".join(
        f"{most[index]} more {question.stocks[index].gpu} in {question.stocks[index].region}"
        f" by {names[first[index]]}"
        for index in sorted(most, key=lambda index: (-most[index], index))
    )


def _over(answer: Answer, names: tuple[str, ...]) -> str:
    """Return the dollars that are missing, in every quarter that misses any."""
    missing = {quarter: math.ceil(usd - SOLVER_USD) for quarter, usd in answer.over.items()}
    parts = [
        f"${usd:,} more a month in {names[quarter]}"
        for quarter, usd in sorted(missing.items())
        if usd > 0
    ]
    return ", ".join(parts)


def _both(question: Question, answer: Answer, names: tuple[str, ...]) -> str:
    return f"{_extra(question, answer, names)}, {_over(answer, names)}"
