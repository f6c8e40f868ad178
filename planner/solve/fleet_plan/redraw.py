"""The fullest pool of every configuration replayed again with other random draws.

Which requests meet on a replica is drawn, and a capacity is found with one draw. Where the traffic
is short, others end otherwise: the report says how many hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.solve.fleet_plan.check import Pool
from planner.solve.fleet_plan.plan import Redrawn
from planner.solve.fleet_plan.sizing import Sized

DRAWS = 5


def redrawn(unit: int, pools: Sequence[Pool], sized: Sequence[Sized]) -> Redrawn | None:
    """Return how a unit's fullest pool ends under other draws, None where none was replayed.

    Parameters
    ----------
    unit
        Its index.
    pools
        Those of the fleet, which hold with the draw they were chosen by.
    sized
        The unit of the same index, with its trial.
    """
    one, mine = sized[unit], [pool for pool in pools if pool.unit == unit]
    if one.trial is None or not mine:
        return None
    pool = max(mine, key=lambda each: each.load)
    trials = [replace(one.trial, seed=one.trial.seed + draw) for draw in range(1, DRAWS + 1)]
    free = pool.load * (1.0 - one.headroom)
    return Redrawn(
        replicas=pool.replicas,
        draws=DRAWS,
        hold=sum(trial.holds(pool.load, pool.replicas, one.spans) for trial in trials),
        hold_with_headroom_free=sum(
            trial.holds(free, pool.replicas, one.spans) for trial in trials
        ),
    )
