"""Demand in coming quarters, with the band it will stay in and how well the method did before.

Rates grow by factors, so everything is done on logarithms. Time is counted in quarters from the
start of the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.spec.fleet import Growth

LEAST_FOR_BAND = 3  # measurements; two make a line that leaves nothing over to judge it by
Points = Sequence[tuple[float, float]]  # (quarters from the start, requests/s), in order of time


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The logarithm of a rate as a distribution: Student's t with `dof`, normal where that is None.

    `scale` 0: nothing is known about the error, and the band has no width.
    """

    log_mean: float
    scale: float
    dof: int | None

    def at(self, probability: float) -> float:
        """Return the rate that demand stays below with a probability.

        >>> round(Outlook(log_mean=0.0, scale=1.0, dof=None).at(0.9), 4)
        3.6022
        """
        return math.exp(self.log_mean + self.scale * _quantile(probability, self.dof))

    def exceeds(self, rate: float) -> float | None:
        """Return the probability that demand is above a rate, None without a band.

        >>> Outlook(log_mean=0.0, scale=1.0, dof=4).exceeds(1.0)
        0.5
        """
        from scipy.special import ndtr, stdtr

        if self.scale <= 0.0:
            return None
        if rate <= 0.0:
            return 1.0
        z = (self.log_mean - math.log(rate)) / self.scale
        return float(ndtr(z) if self.dof is None else stdtr(self.dof, z))


Method = Callable[[Points, float], Outlook]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTest:
    """How a method would have done: every later measurement forecast from each earlier prefix."""

    method: str
    forecasts: int
    mean_error_share: float  # mean |actual/forecast − 1|
    bias_share: float  # mean actual/forecast − 1; positive: demand was underestimated
    inside_band_share: float  # actuals inside the band


def trend(points: Points, at: float) -> Outlook:
    """Extrapolate constant growth: least squares on the logarithms.

    log r = a + b·t; a prediction errs by s·√(1 + 1/n + (t* − t̄)²/Σ(t − t̄)²), Student t with n − 2
    degrees of freedom. Source: any text on linear regression, e.g. Draper & Smith, Applied
    Regression Analysis, 3rd ed., §1.4. Two points give the line through them and no band.

    >>> outlook = trend([(-2.0, 1.0), (-1.0, 2.0), (0.0, 4.0)], 1.0)
    >>> round(outlook.at(0.5), 6), round(outlook.scale, 6)
    (8.0, 0.0)
    """
    times = np.array([t for t, _ in points])
    logs = np.log([rate for _, rate in points])
    centre = times - times.mean()
    spread = float(centre @ centre)
    slope = float(centre @ logs) / spread if spread else 0.0
    residual = logs - logs.mean() - slope * centre
    dof = len(points) - 2
    error = math.sqrt(max(0.0, float(residual @ residual)) / dof) if dof > 0 else 0.0
    distance = at - float(times.mean())
    leverage = 1.0 + 1.0 / len(points) + (distance**2 / spread if spread else 0.0)
    return Outlook(
        log_mean=float(logs.mean()) + slope * distance,
        scale=error * math.sqrt(leverage),
        dof=dof if dof > 0 else None,
    )


def flat(points: Points, at: float) -> Outlook:
    """Take the last measurement for the future: a random walk without drift.

    Its variance a quarter is the mean of (Δ log r)²/Δt over the steps, growing with the distance.

    >>> outlook = flat([(-1.0, 2.0), (0.0, 4.0)], 1.0)
    >>> round(outlook.at(0.5), 6), round(outlook.scale, 6)
    (4.0, 0.693147)
    """
    times = np.array([t for t, _ in points])
    logs = np.log([rate for _, rate in points])
    steps = np.diff(times)
    variance = float(np.mean(np.diff(logs) ** 2 / steps)) if len(steps) else 0.0
    return Outlook(
        log_mean=float(logs[-1]),
        scale=math.sqrt(variance * max(0.0, at - float(times[-1]))),
        dof=len(steps) or None,
    )


def declared(growth: Growth, since: float, rate: float, confidence: float) -> Method:
    """Return the method that grows a rate, measured at `since`, as declared.

    A declared band is the growth's own at `confidence`: quarters that grow fast are followed by
    quarters that do, so the width grows with the time.

    >>> method = declared(Growth(expected=0.1, low=0.0, high=0.21), 0.0, 100.0, 0.8)
    >>> round(method((), 2.0).at(0.5), 3), round(method((), 2.0).at(0.9), 3)
    (121.0, 146.41)
    """

    def method(points: Points, at: float) -> Outlook:
        del points
        after = max(0.0, at - since)
        mean = math.log(rate) + after * math.log1p(growth.expected)
        scale = 0.0
        if growth.high is not None:
            # Only the upper end decides how much is bought: it is met exactly.
            above = math.log1p(growth.high) - math.log1p(growth.expected)
            scale = after * above / _quantile(0.5 + confidence / 2.0, None)
        return Outlook(log_mean=mean, scale=scale, dof=None)

    return method


METHODS: dict[str, Method] = {"trend": trend, "flat": flat}


def back_test(points: Points, name: str, confidence: float) -> BackTest | None:
    """Return how a method would have done on its own history, None where that is too short.

    From every prefix of at least three measurements, every later one is forecast.
    """
    errors, inside = [], []
    for known in range(LEAST_FOR_BAND, len(points)):
        for at, actual in points[known:]:
            outlook = METHODS[name](points[:known], at)
            errors.append(actual / outlook.at(0.5) - 1.0)
            low, high = (outlook.at(0.5 + side * confidence / 2.0) for side in (-1.0, 1.0))
            inside.append(low <= actual <= high)
    if not errors:
        return None
    return BackTest(
        method=name,
        forecasts=len(errors),
        mean_error_share=float(np.mean(np.abs(errors))),
        bias_share=float(np.mean(errors)),
        inside_band_share=float(np.mean(inside)),
    )


def best_method(points: Points, confidence: float) -> tuple[str, tuple[BackTest, ...]]:
    """Return the method to forecast with, and the back-tests that chose it.

    Constant growth, unless the last measurement alone would have been nearer so far.

    >>> best_method([(float(t), 2.0**t) for t in range(6)], 0.8)[0]
    'trend'
    """
    tests = [test for name in METHODS if (test := back_test(points, name, confidence))]
    if len(tests) < len(METHODS):
        return "trend", tuple(tests)
    nearest = min(tests, key=lambda test: test.mean_error_share)
    return nearest.method, tuple(tests)


def _quantile(probability: float, dof: int | None) -> float:
    from scipy.special import ndtri, stdtrit

    return float(ndtri(probability) if dof is None else stdtrit(dof, probability))
