"""What replay found of settings of equal cost, beside what it found of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.solve.plan import Alternative, BatchCell
from planner.spec.deployment import Deployment


def with_margins(
    rows: Sequence[Alternative], chosen: Deployment, cells: Sequence[BatchCell]
) -> tuple[Alternative, ...]:
    """Return the alternatives; those that lost by their margin say what replay found of it.

    Parameters
    ----------
    rows
        The plan's neighbours.
    chosen
        The plan's configuration.
    cells
        The map of budget and slots around it.
    """
    known = {
        replace(
            chosen,
            max_num_batched_tokens=cell.max_num_batched_tokens,
            max_num_seqs=cell.max_num_seqs,
        ): cell
        for cell in cells
    }
    ours = known.get(chosen)
    return tuple(
        replace(row, detail=f"{row.detail}; {_beside(known.get(_sized(row, chosen)), ours)}")
        if row.reason == "smaller_margin"
        else row
        for row in rows
    )


def _sized(row: Alternative, chosen: Deployment) -> Deployment:
    """Return an alternative with what follows from its size left as the plan has it."""
    return replace(row.deployment, max_model_len=chosen.max_model_len)


def _beside(cell: BatchCell | None, ours: BatchCell | None) -> str:
    """Say at which loads above the needed one a setting held and missed, and the plan."""
    if cell is None or (cell.replay_margin is None and cell.replay_missed is None):
        return "not asked by replay"
    said = []
    if cell.replay_margin is not None:
        said.append(f"holds at {above(cell.replay_margin)}")
    if cell.replay_missed is not None:
        said.append(f"misses a target at {above(cell.replay_missed)}")
    if ours is not None and ours.replay_margin is not None:
        plan = f"the plan holds at {above(ours.replay_margin)}"
        if ours.replay_missed is not None and cell.replay_missed == ours.replay_missed:
            plan += " and misses where this does: a tie as far as it was asked"
        said.append(plan)
    return "by replay it " + ", ".join(said)


def above(margin: float) -> str:
    """Write a load above the needed one.

    >>> above(0.0), above(0.15)
    ('the load itself', '+15 % load')
    """
    return f"{100 * margin:+.0f} % load" if margin else "the load itself"
