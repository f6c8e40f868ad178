"""Axes of the figures: where a value lies, and which values get a tick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Maps [low, high] to pixels [start, end]; `log` for a logarithmic axis."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of `value`, clamped to the axis."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def beyond(self, value: float) -> bool:
        """Whether `value` lies above what the axis shows."""
        return value > self.high


def linear_ticks(high: float, wanted: int = 5) -> list[float]:
    """Return round values from 0 to at least `high`.

    >>> linear_ticks(1.3), linear_ticks(9_500)
    ([0.0, 0.5, 1.0, 1.5], [0.0, 2000.0, 4000.0, 6000.0, 8000.0, 10000.0])
    """
    if not math.isfinite(high) or high <= 0:
        return [0.0, 1.0]
    raw = high / wanted
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= raw * (1 - 1e-9))
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return the 1-2-5 values within [low, high].

    >>> log_ticks(0.008, 0.6)
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [
        float(f"{mantissa}e{exponent}")
        for exponent in range(first, last + 1)
        for mantissa in (1, 2, 5)
    ]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def binary_ticks(low: float, high: float, most: int = 9) -> list[float]:
    """Return the powers of two within [low, high], every other one where they would crowd.

    >>> binary_ticks(100, 5000)
    [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0]
    """
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    ticks = [2.0**exponent for exponent in range(first, last + 1)]
    return ticks[:: math.ceil(len(ticks) / most)] if ticks else [low]


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Return points as an SVG path.

    >>> polyline([(0, 1), (2.25, 3)])
    'M0 1 L2.3 3'
    """
    return " ".join(
        f"{'ML'[index > 0]}{pixel(x)} {pixel(y)}" for index, (x, y) in enumerate(points)
    )


def pixel(value: float) -> str:
    """Write a coordinate with one decimal, halves rounded away from zero.

    >>> pixel(2.25), pixel(10.0), pixel(0.96)
    ('2.3', '10', '1')
    """
    tenths = math.floor(abs(value) * 10 + 0.5)
    text = f"{tenths // 10}.{tenths % 10}" if tenths % 10 else str(tenths // 10)
    return f"-{text}" if value < 0 and tenths else text
