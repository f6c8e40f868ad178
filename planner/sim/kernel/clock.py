"""The closed forms of a run of decode steps, and the pairs of a prefill chunk.

While the batch of a run is fixed, every step reads one more token per sequence, so step j lasts
max(floor, first + slope·j): a floor (compute, or the host) and a rising line (memory).
"""

from __future__ import annotations

import math

from planner.sim.jit import entry


@entry
def leading_steps(floor_s: float, first_s: float, slope_s: float, steps: int) -> int:
    """Return how many of the first `steps` steps lie on the floor."""
    if first_s >= floor_s:
        return 0
    if slope_s <= 0.0:
        return steps
    crossing = (floor_s - first_s) / slope_s
    if crossing >= steps - 1:
        return steps
    return int(crossing) + 1


@entry
def run_s(floor_s: float, first_s: float, slope_s: float, steps: int) -> float:
    """Return Σ_{j<n} max(floor, first + slope·j) = k·floor + (n − k)·first + slope·Σ_{j=k}^{n−1} j.

    k is the number of steps on the floor; Σ j = (n(n − 1) − k(k − 1))/2.
    """
    k = leading_steps(floor_s, first_s, slope_s, steps)
    rising = steps * (steps - 1) - k * (k - 1)
    return k * floor_s + (steps - k) * first_s + slope_s * (0.5 * rising)


@entry
def steps_until(floor_s: float, first_s: float, slope_s: float, steps: int, span_s: float) -> int:
    """Return the fewest n ≥ 1 with run_s(n) ≥ `span_s`, given that `steps` steps suffice."""
    k = leading_steps(floor_s, first_s, slope_s, steps)
    if k * floor_s >= span_s:
        n = math.ceil(span_s / floor_s) if floor_s > 0.0 else 1
    else:
        # Solve m·first' + slope·m(m − 1)/2 = rest with first' at step k, free of cancellation.
        rest = span_s - k * floor_s
        half = first_s + slope_s * (k - 0.5)
        n = k + math.ceil(2.0 * rest / (half + math.sqrt(half * half + 2.0 * slope_s * rest)))
    n = max(1, min(int(n), steps))
    # The root is rounded: settle it against the sum that the clock will show.
    while n > 1 and run_s(floor_s, first_s, slope_s, n - 1) >= span_s:
        n -= 1
    while n < steps and run_s(floor_s, first_s, slope_s, n) < span_s:
        n += 1
    return n


@entry
def steps_below(floor_s: float, first_s: float, slope_s: float, steps: int, limit_s: float) -> int:
    """Return how many of `steps` steps max(floor, first + slope·j) last at most `limit_s`."""
    if max(floor_s, first_s) > limit_s:
        return 0
    if max(floor_s, first_s + slope_s * (steps - 1)) <= limit_s:
        return steps
    n = min(max(int((limit_s - first_s) / slope_s) + 1, 0), steps)
    while n > 0 and max(floor_s, first_s + slope_s * (n - 1)) > limit_s:
        n -= 1
    while n < steps and max(floor_s, first_s + slope_s * n) <= limit_s:
        n += 1
    return n


@entry
def attended_pairs(past: int, chunk: int, window: int) -> float:
    """Return Σ_{q=1}^{chunk} min(past + q, window), window 0 meaning none."""
    inside = chunk
    if window > 0:
        inside = min(max(window - past, 0), chunk)
    pairs = float(inside) * past + 0.5 * inside * (inside + 1)
    return pairs + float(chunk - inside) * window
