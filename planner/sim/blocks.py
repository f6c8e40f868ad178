"""The trace's block ids as the prefix cache wants them: those that two requests share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.sim.kernel.world import PREFIX, records
from planner.sim.settings import SchedulerSettings

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prefixes:
    """Which blocks of each served request another may hit, and under which keys."""

    rows: Any  # world.PREFIX records, one for each served request
    ids: NDArray[np.int32]  # trace blocks, ragged; numbered densely
    trace_block: int  # tokens of a trace block
    unit_blocks: int  # engine blocks that end in one trace block, at most
    keys: int
    longest: int  # most shared blocks of one request


NO_PREFIXES = Prefixes(
    rows=records(0, PREFIX),
    ids=np.zeros(0, np.int32),
    trace_block=0,
    unit_blocks=0,
    keys=0,
    longest=0,
)


def has_ids(requests: Requests) -> bool:
    """Return whether the trace names prefix blocks."""
    return requests.block_tokens > 0 and len(requests.block_ids) > 0


def prefixes(requests: Requests, served: Ints, settings: SchedulerSettings) -> Prefixes:
    """Return the shared blocks of the served requests, in their order.

    An engine block's identity is the trace block that holds its last token, and its place inside.
    A trace block that one request alone uses can only be hit by that request after a preemption;
    the kernel keeps those as numbers.
    """
    ids, offset = chained(requests.block_ids, requests.block_offset), requests.block_offset
    size, unit = settings.block_size, requests.block_tokens
    lengths = np.diff(offset)
    mine = np.zeros(len(requests), np.bool_)
    mine[served] = True
    uses = np.bincount(ids[np.repeat(mine, lengths)], minlength=int(ids.max(initial=-1)) + 1)
    shared = uses[ids] > 1
    # An id names all before it, so shared ids lead: counting them is enough.
    leading = np.add.reduceat(np.append(shared, False), offset[:-1], dtype=np.int64)
    leading[lengths == 0] = 0
    number = np.cumsum(uses > 1) - 1
    kept = np.concatenate(([0], np.cumsum(leading)))
    rows = records(len(served), PREFIX)
    rows.begin = kept[:-1][served]
    covered = np.minimum(requests.input_tokens, leading * unit)[served]
    rows.shared_blocks = covered // size
    unit_blocks = -(-unit // size)
    return Prefixes(
        rows=rows,
        ids=number[ids[shared]].astype(np.int32),
        trace_block=unit,
        unit_blocks=unit_blocks,
        keys=int(np.count_nonzero(uses > 1)) * unit_blocks,
        longest=int(rows.shared_blocks.max(initial=0)),
    )


def chained(ids: Ints, offset: Ints) -> Ints:
    """Return ids that name their whole prefix, as the ingested ones do.

    Where an id follows two different ones it names a block's content alone; then (id before, id)
    pairs are numbered instead, block by block.

    >>> chained(np.array([0, 1, 2, 1]), np.array([0, 2, 4])).tolist()
    [0, 2, 1, 3]
    >>> chained(np.array([0, 1, 0, 2]), np.array([0, 2, 4])).tolist()
    [0, 1, 0, 2]
    """
    if not len(ids):
        return ids
    lengths = np.diff(offset)
    before = np.concatenate(([-1], ids[:-1]))
    before[offset[:-1][lengths > 0]] = -1
    leader = np.empty(int(ids.max()) + 1, np.int64)
    leader[ids] = before
    if (leader[ids] == before).all():
        return ids
    named = np.empty(len(ids), np.int64)
    previous = np.full(len(lengths), -1, np.int64)
    count = 0
    for depth in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > depth)
        at = offset[longer] + depth
        pairs = np.stack([previous[longer], ids[at]])
        _, name = np.unique(pairs, axis=1, return_inverse=True)
        named[at] = previous[longer] = name.ravel() + count
        count += int(name.max()) + 1
    return named
