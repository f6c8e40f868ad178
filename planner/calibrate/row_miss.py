"""A metric of one measured row whose error exceeds its target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.calibrate.measured import Row, text
from planner.calibrate.scoring import MEASURED, Scored, comparisons


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The P90 a metric is held to, over the rows of some engines."""

    metric: str
    engines: tuple[str, ...]
    p90: float
    noise: float  # P90 difference of repeats of one point and version
    title: str


TARGETS = (
    Target(
        metric="TPOT",
        engines=("vllm", "sglang", "trtllm"),
        p90=0.22,
        noise=0.08,
        title="TPOT, all engines",
    ),
    Target(
        metric=MEASURED,
        engines=("vllm", "sglang", "trtllm"),
        p90=0.30,
        noise=0.08,
        title="output tok/s, measured rows",
    ),
    Target(metric="TTFT", engines=("sglang",), p90=0.60, noise=0.36, title="TTFT, SGLang"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric of one row: measurement and prediction, in the file's units."""

    item: Scored
    target: Target
    measured: float
    predicted: float

    @property
    def row(self) -> Row:
        """The row itself."""
        return self.item.row

    @property
    def error(self) -> float:
        """Signed relative error."""
        return self.predicted / self.measured - 1.0

    @property
    def missed(self) -> bool:
        """Whether the error exceeds the target."""
        return abs(self.error) > self.target.p90

    def agrees(self, measured: float) -> bool:
        """Whether the prediction would be within the target of another measurement."""
        return abs(self.predicted / measured - 1.0) <= self.target.p90


def compared(found: Iterable[Scored], target: Target) -> list[Compared]:
    """Return every comparison that a target covers, largest error first."""
    results = [
        Compared(item=item, target=target, measured=value, predicted=predicted)
        for item in found
        if text(item.row, "engine") in target.engines
        for metric, value, predicted in comparisons(item)
        if metric == target.metric and predicted is not None and predicted > 0
    ]
    return sorted(results, key=lambda c: (-abs(c.error), text(c.row, "point_id")))
