"""Compile every kernel before somebody waits for it: `python -m planner.solve.warm`."""

from __future__ import annotations

import numpy as np

from planner.sim.warm import compile_kernels
from planner.solve.kernel.blocks import SUMS, sums_by_block
from planner.solve.kernel.work import unfinished_work


def compile_all() -> None:
    """Call each loop of the equations once, and the simulator's kernels; all are cached."""
    one, row = np.ones(1), np.ones((1, 1))
    sums_by_block(one, one, one, np.zeros((SUMS, 2)))
    unfinished_work(row, row, row, 1.0, row.copy(), row.copy())
    compile_kernels()


if __name__ == "__main__":
    compile_all()
