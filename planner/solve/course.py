"""How many replicas there are over time: step functions, and what an autoscaler makes of a load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.units import HOUR_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
EDGE_S = 1e-6  # t − boot + boot is t again only up to rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """A step function of time: `counts[i]` from `starts_s[i]` on, the first one before as well."""

    starts_s: Floats
    counts: Ints

    def at(self, times_s: Floats) -> Ints:
        """Return the counts at some times.

        >>> course = Course(starts_s=np.array([0.0, 10.0]), counts=np.array([2, 5]))
        >>> course.at(np.array([-1.0, 9.9, 10.0, 99.0])).tolist()
        [2, 2, 5, 5]
        """
        place = np.searchsorted(self.starts_s, times_s, side="right") - 1
        return self.counts[np.maximum(place, 0)]

    def replica_hours(self, end_s: float) -> float:
        """Return the area under the course from time 0 to `end_s`.

        >>> Course(starts_s=np.array([0.0, 1800.0]), counts=np.array([2, 4])).replica_hours(3600.0)
        3.0
        """
        edges = np.clip(np.append(self.starts_s, end_s), 0.0, end_s)
        return float(np.diff(edges) @ self.counts) / HOUR_S


def constant(count: int) -> Course:
    """Return a course that never changes."""
    return Course(starts_s=np.zeros(1), counts=np.array([count], dtype=np.int64))


def ahead(course: Course, boot_s: float) -> Course:
    """Return what must be paid so that replicas are ready: each starts `boot_s` before it serves.

    At any time, the most that serves within the boot time from then on.

    >>> paid = ahead(Course(starts_s=np.array([0.0, 900.0]), counts=np.array([1, 3])), 300.0)
    >>> paid.starts_s.tolist(), paid.counts.tolist()
    ([0.0, 600.0, 900.0], [1, 3, 3])
    """
    starts = np.unique(np.concatenate([course.starts_s, course.starts_s - boot_s]))
    starts = starts[starts >= course.starts_s[0]]
    return Course(starts_s=starts, counts=_extreme(course, starts, starts + boot_s, np.maximum))


def behind(course: Course, boot_s: float) -> Course:
    """Return what serves of replicas that are asked for: each is ready `boot_s` later.

    At any time, the least that was asked for within the boot time before.

    >>> ready = behind(Course(starts_s=np.array([0.0, 900.0]), counts=np.array([1, 3])), 300.0)
    >>> ready.starts_s.tolist(), ready.counts.tolist()
    ([0.0, 300.0, 900.0, 1200.0], [1, 1, 1, 3])
    """
    starts = np.unique(np.concatenate([course.starts_s, course.starts_s + boot_s]))
    starts = starts[starts >= course.starts_s[0]]
    before = np.maximum(starts - boot_s, course.starts_s[0])
    return Course(starts_s=starts, counts=_extreme(course, before, starts, np.minimum))


def _extreme(course: Course, low_s: Floats, high_s: Floats, extreme: np.ufunc) -> Ints:
    """Return the largest or smallest count in each [low, high]."""
    first = np.maximum(np.searchsorted(course.starts_s, low_s + EDGE_S, side="right") - 1, 0)
    last = np.maximum(np.searchsorted(course.starts_s, high_s + EDGE_S, side="right"), first + 1)
    return np.array(
        [extreme.reduce(course.counts[a:b]) for a, b in zip(first, last, strict=True)],
        dtype=np.int64,
    )


def asked_for(
    ends_s: Floats, load: Floats, *, target: float, least: int, stabilization_s: float
) -> Course:
    """Return how many replicas an autoscaler asks for that keeps a metric at `target` a replica.

    After every interval it wants ⌈load/target⌉; more is asked for at once, fewer only when no
    interval of the stabilisation time before wanted more: the rule of Kubernetes' horizontal pod
    autoscaler (Kubernetes documentation, Horizontal Pod Autoscaling, algorithm details).

    Parameters
    ----------
    ends_s, load
        When each interval ends, and the metric's mean in it, all replicas together.
    target
        Of the metric, for one replica.
    least
        Replicas that always run.
    stabilization_s
        How long a wish for more is remembered.

    Examples
    --------
    >>> course = asked_for(np.array([60.0, 120.0, 180.0, 240.0]), np.array([5.0, 21.0, 3.0, 3.0]),
    ...     target=10.0, least=1, stabilization_s=60.0)
    >>> course.starts_s.tolist(), course.counts.tolist()
    ([60.0, 120.0, 180.0, 240.0], [1, 3, 3, 1])
    """
    wanted = np.maximum(np.ceil(load / target - 1e-9), least).astype(np.int64)
    first = np.searchsorted(ends_s, ends_s - stabilization_s - 1e-9)
    counts = [int(wanted[a : i + 1].max()) for i, a in enumerate(first)]
    return Course(starts_s=ends_s, counts=np.array(counts, dtype=np.int64))
