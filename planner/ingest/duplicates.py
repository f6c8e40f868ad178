"""Tell a request that was logged twice from two equal requests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.ingest import reasons
from planner.ingest.table import Mark, Rows, Table

BEYOND_CHANCE = 10.0  # repeats this many times the chance number are the log's fault
MAX_LAG = 50
ENOUGH_PAIRS = 2_000_000


def without_duplicates(
    table: Table, order: Rows, reject: NDArray[np.uint8]
) -> tuple[Rows, list[Mark]]:
    """Drop rows that repeat an earlier one in every column, unless that may be a coincidence."""
    t = table.arrays["t"][order]
    tie = t[1:] == t[:-1]
    near = np.flatnonzero(np.append(tie, False) | np.insert(tie, 0, False))
    _, first, group = np.unique(
        table.arrays["fingerprint"][order[near]], return_index=True, return_inverse=True
    )
    again = first[group] != np.arange(len(near))
    repeated = near[again]
    if not len(repeated):
        return order, []
    ids = table.arrays.get("request_id")
    named = ids is not None and bool((ids[order[repeated]] != 0).all())
    ties = int(np.count_nonzero(tie))
    by_chance = ties * _equal_share(table, order)
    if named or (2 * ties < len(t) and len(repeated) > BEYOND_CHANCE * by_chance):
        reject[order[repeated]] = reasons.DUPLICATE
        return np.delete(order, repeated), []
    # Coarse timestamps tie within a file; between files only a copy repeats so much.
    file = np.searchsorted(table.file_start, order[near], side="right")
    copied = near[again & (file != file[first[group]])]
    if len(copied) <= BEYOND_CHANCE * by_chance:
        copied = copied[:0]
    reject[order[copied]] = reasons.DUPLICATE
    doubtful = order[np.setdiff1d(repeated, copied)]
    order = np.delete(order, copied)
    if not len(doubtful):
        return order, []
    effect = (
        f"equal to an earlier row in every column read: kept, because {ties:,} rows share their "
        f"arrival time with another and about {by_chance:,.1f} of them would be equal by chance; "
        "a request_id column would settle it"
    )
    return order, [Mark(name="possible_duplicate", effect=effect, rows=doubtful)]


def _equal_share(table: Table, order: Rows) -> float:
    """Estimate how likely two requests of about the same time have equal tokens by chance.

    Compares requests that are a few places apart and did not arrive together; one more equal pair
    than found is counted, so that the estimate is never zero.
    """
    names = ("t", "input_tokens", "output_tokens", "class_id", "session_id")
    columns = [table.arrays[name][order] for name in names if name in table.arrays]
    n = len(order)
    equal = pairs = 0
    for lag in range(1, min(n, MAX_LAG, 1 + -(-ENOUGH_PAIRS // n))):
        apart = columns[0][lag:] != columns[0][:-lag]
        pairs += int(np.count_nonzero(apart))
        for values in columns[1:]:
            apart &= values[lag:] == values[:-lag]
        equal += int(np.count_nonzero(apart))
    return (equal + 1) / max(pairs, 1)
