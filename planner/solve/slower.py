"""Layouts that another with the same memory beats in every step: left out before any load is tried.

Whole experts on each GPU hold the same weights and leave the same KV cache as experts cut over the
GPUs. Where no step of theirs is faster, whatever the batch, they serve nothing sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.perf.step_cost import StepCost
from planner.solve.candidates import Candidate, Family
from planner.solve.case import Case

# Everything of a StepCost that adds time; the rest says how many of what, and is the same.
TERMS = (
    "compute_s",
    "memory_s",
    "row_s",
    "kv_s",
    "seq_s",
    "pair_s",
    "prefix_s",
    "decode_fixed_s",
    "prefill_fixed_s",
    "launch_s",
    "host_step_s",
    "host_seq_s",
    "host_prefill_s",
    "send_s_per_token",
    "send_fixed_s",
    "slowest_stage_share",
)


def without_slower(case: Case, found: Sequence[Family]) -> tuple[Family, ...]:
    """Return the families, those marked whose every step another of the same memory beats."""
    return tuple(
        replace(family, slower_everywhere=True) if _is_slower(case, family, found) else family
        for family in found
    )


def _is_slower(case: Case, family: Family, found: Sequence[Family]) -> bool:
    if not (family.candidates and family.candidates[0].deployment.expert_parallel):
        return False
    same = tuple(_cut(candidate) for candidate in family.candidates)
    twin = next((each for each in found if each.candidates == same), None)
    return twin is not None and slower(case.cost(family.widest), case.cost(twin.widest))


def _cut(candidate: Candidate) -> Candidate:
    """Return the same candidate with its experts cut over the GPUs."""
    return replace(candidate, deployment=replace(candidate.deployment, expert_parallel=False))


def slower(cost: StepCost, other: StepCost) -> bool:
    """Return whether no step takes less time by `cost` than by `other`: term by term."""
    return all(bool(np.all(getattr(cost, name) >= getattr(other, name))) for name in TERMS)
