"""Prefix blocks: ragged arrays of block ids, and what an infinite cache would already hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]


def number_by_first_use(keys: Keys) -> Ints:
    """Replace arbitrary keys by 0, 1, 2, … in order of first appearance.

    >>> number_by_first_use(np.array([7, 3, 7, 9], np.uint64)).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def take_ragged(ids: Keys, offset: Ints, rows: Ints) -> tuple[Keys, Ints]:
    """Pick the given rows of a ragged array, in the given order; returns (ids, offset).

    >>> ids, offset = np.array([1, 2, 3, 4], np.uint64), np.array([0, 1, 3, 4])
    >>> picked, new = take_ragged(ids, offset, np.array([2, 1]))
    >>> picked.tolist(), new.tolist()
    ([4, 2, 3], [0, 1, 3])
    """
    lengths = (offset[1:] - offset[:-1])[rows]
    new_offset = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    shift = np.repeat(offset[:-1][rows] - new_offset[:-1], lengths)
    return ids[shift + np.arange(new_offset[-1])], new_offset


def leading_hits(ids: Ints, offset: Ints) -> Ints:
    """Count, for each request, its leading blocks that an earlier request already had.

    An id names its whole prefix, so a block is reusable when the id occurred before. `ids` are
    0 … unique − 1 and requests are in the order in which they are served.

    >>> leading_hits(np.array([0, 1, 0, 2, 1]), np.array([0, 2, 5])).tolist()
    [0, 1]
    """
    n = len(offset) - 1
    if not len(ids):
        return np.zeros(n, np.int64)
    lengths = np.diff(offset)
    owner = np.repeat(np.arange(n), lengths)
    first_owner = np.full(int(ids.max()) + 1, n, np.int64)
    first_owner[ids[::-1]] = owner[::-1]  # the last write wins: the earliest owner
    misses = np.flatnonzero(first_owner[ids] >= owner)
    # The first miss at or after each request's start ends its run of hits.
    position = np.searchsorted(misses, offset[:-1])
    padded = np.append(misses, len(ids))
    return np.asarray(np.minimum(padded[position] - offset[:-1], lengths), np.int64)


def conversation_keys(chat: Keys, parent: Keys) -> Keys:
    """Give every chat the key of its first ancestor; 0 as parent means "none".

    A parent that the trace does not hold still joins its children.

    >>> chat, parent = np.array([1, 2, 3, 8], np.uint64), np.array([0, 1, 2, 7], np.uint64)
    >>> conversation_keys(chat, parent).tolist()
    [1, 1, 1, 7]
    """
    order = np.argsort(chat, kind="stable")
    place = np.minimum(np.searchsorted(chat[order], parent), len(chat) - 1)
    candidate = order[place]
    known = chat[candidate] == parent
    up = np.where(known, candidate, np.arange(len(chat)))
    label = np.where(known | (parent == 0), chat, parent)
    for _ in range(len(chat).bit_length()):  # doubling: enough for the longest chain
        up = up[up]
    return np.asarray(label[up], np.uint64)
