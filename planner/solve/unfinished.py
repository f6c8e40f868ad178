"""What to say when the user stops a search: the best so far, and what is not known of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from planner.errors import StoppedError
from planner.solve.case import Case
from planner.solve.search import Option
from planner.spec.launch import launch_argv
from planner.text import counted


def unfinished(case: Case, so_far: Sequence[Option]) -> StoppedError:
    """Return the error that ends a stopped search.

    Parameters
    ----------
    case
        Model, engine and prices.
    so_far
        Options in the order in which they became the best; empty before the first replay.
    """
    known = [option for option in so_far if option.replicas is not None]
    if not known:
        return StoppedError(
            "stopped before any configuration was replayed: no plan, nothing written"
        )
    best = known[-1]
    deployment = best.candidate.deployment
    cost = best.expense(case.by_price)[0]
    price = f", ${cost:,.2f}/h" if case.by_price else ""
    command = shlex.join(launch_argv(deployment, case.engine, case.model))
    return StoppedError(
        f"UNFINISHED, nothing written. Best so far: {best.gpus} × {deployment.gpu}"
        f" ({counted(best.replicas or 0, 'replica')} of TP{deployment.tensor_parallel_size})"
        f"{price};"
        " holds in the windows replayed so far; other windows and cheaper configurations were not"
        f" asked.\n{command}"
    )
