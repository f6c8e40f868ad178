"""A binary heap of int64 entries in an array: the smallest is at index 0.

An entry is (step << SLOT_BITS) | payload: comparing entries compares steps, then payloads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.sim.jit import entry

SLOT_BITS = 20
SLOT_MASK = (1 << SLOT_BITS) - 1


@entry
def push(heap: NDArray[np.int64], size: int, entry: int) -> int:
    """Insert `entry` into a heap of `size` entries; return the new size."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap[parent] <= entry:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = entry
    return size + 1


@entry
def sift_down(heap: NDArray[np.int64], size: int, hole: int, entry: int) -> None:
    """Put `entry` where it belongs below the free place `hole`."""
    child = 2 * hole + 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= entry:
            break
        heap[hole] = heap[child]
        hole = child
        child = 2 * hole + 1
    heap[hole] = entry


@entry
def pop(heap: NDArray[np.int64], size: int) -> int:
    """Remove the smallest entry; return the new size."""
    size -= 1
    if size > 0:
        sift_down(heap, size, 0, heap[size])
    return size


@entry
def heapify(heap: NDArray[np.int64], size: int) -> None:
    """Turn the first `size` entries into a heap."""
    for hole in range(size // 2 - 1, -1, -1):
        sift_down(heap, size, hole, heap[hole])
