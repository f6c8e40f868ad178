"""Measure while running: sums over time bins, and gaps between tokens in logarithmic bins."""

from __future__ import annotations

import math

import numpy as np

from planner.sim.jit import entry, part, rare
from planner.sim.kernel import clock
from planner.sim.kernel.world import World

GAP_STEPS = 64  # bins an octave: a bin is 0.8 to 1.6 % wide
GAP_MIN_EXPONENT = -14  # the first octave is 2^-15 … 2^-14 s (31 to 61 µs)
GAP_MAX_EXPONENT = 12  # the last octave is 2^11 … 2^12 s
GAP_BINS = (GAP_MAX_EXPONENT - GAP_MIN_EXPONENT + 1) * GAP_STEPS


@entry
def gap_bin(gap_s: float) -> int:
    """Return the bin of a gap; bin i ends at gap_upper_edge(i), the outer bins are open."""
    mantissa, exponent = math.frexp(gap_s)
    index = (exponent - GAP_MIN_EXPONENT) * GAP_STEPS + int((mantissa - 0.5) * (2 * GAP_STEPS))
    return max(0, min(index, GAP_BINS - 1))


@entry
def gap_upper_edge(index: int) -> float:
    """Return the upper edge of a bin in s; the bin holds what is shorter."""
    mantissa = 0.5 + (index % GAP_STEPS + 1) / (2.0 * GAP_STEPS)
    return math.ldexp(mantissa, int(index // GAP_STEPS + GAP_MIN_EXPONENT))


@rare
def roll_bin(w: World) -> None:
    """Move to the time bin that holds `now`; the last one never ends."""
    st = w.st
    while st.now >= st.bin_end:
        st.bin += 1
        st.bin_end = w.bins[st.bin].end_s if st.bin + 1 < len(w.bins) else np.inf


@rare
def count_itl(w: World, k: int, window: int, within: int, above: int) -> None:
    """Count gaps against ITL target `k`; it is lost when no more above it can be afforded."""
    w.tally[k, window] += within
    left = w.tally[len(w.targets) + k, window] - above
    w.tally[len(w.targets) + k, window] = left
    if left < 0:
        w.st.lost = 1


@rare
def add_gaps(w: World, class_id: int, gap_s: float, count: int) -> None:
    """Count `count` gaps of one length for one class."""
    window = w.bin_window[w.st.bin, class_id]
    if window < 0:
        return
    w.gaps[window, class_id, gap_bin(gap_s)] += count
    for k in range(w.st.itl_targets):
        if w.targets[k].class_id == class_id:
            within = count if gap_s <= w.targets[k].limit_s else 0
            count_itl(w, k, window, within, count - within)


@part
def add_run_gaps(w: World, floor_s: float, first_s: float, slope_s: float, steps: int) -> None:
    """Count the gaps of a run for every decode: step j lasts max(floor, first + slope·j)."""
    index = gap_bin(max(floor_s, first_s))
    final = index
    if steps > 1:
        final = gap_bin(max(floor_s, first_s + slope_s * (steps - 1)))
    done = 0
    while done < steps:
        count = steps - done
        if index < final:
            shorter = math.ceil((gap_upper_edge(index) - first_s) / slope_s)
            count = min(max(int(shorter) - done, 0), count)
        for c in range(len(w.classes)):
            window = w.bin_window[w.st.bin, c]
            if window >= 0:
                w.gaps[window, c, index] += w.classes[c] * count
        done += count
        index += 1
    for k in range(w.st.itl_targets):
        target = w.targets[k]
        window = w.bin_window[w.st.bin, target.class_id]
        if window >= 0:
            within = clock.steps_below(floor_s, first_s, slope_s, steps, target.limit_s)
            count = w.classes[target.class_id]
            count_itl(w, k, window, count * within, count * (steps - within))


@part
def add_sums(w: World, steps: int, span_s: float) -> None:
    """Add `steps` steps that lasted `span_s` to the current time bin.

    Block use between the two ends of a run is taken as linear.
    """
    st = w.st
    used = st.num_blocks - st.free_blocks
    sums = w.bins[st.bin]
    sums.steps += steps
    sums.decode_tokens += steps * st.decodes
    sums.busy_s += span_s
    sums.decode_seq_s += st.decodes * span_s
    sums.running_seq_s += st.running * span_s
    sums.used_block_s += 0.5 * (st.used_before + used) * span_s
    note_use(w, steps, span_s)


@part
def note_use(w: World, steps: int, span_s: float) -> None:
    """Note when most blocks are held, and for how long without a break many are.

    A single step takes its blocks when it starts, a run one after the other.
    """
    st = w.st
    used = st.num_blocks - st.free_blocks
    if used > st.max_used_blocks:
        st.max_used_blocks = used
        st.peak_s = st.now
    if used < st.high_blocks:
        return
    if st.used_before < st.high_blocks:
        st.high_since = st.now
        if steps > 1:
            below = (st.high_blocks - st.used_before) / (used - st.used_before)
            st.high_since += below * span_s
    st.high_s = max(st.high_s, st.now + span_s - st.high_since)
