"""When sessions start: a renewal process run on a clock that ticks with the rate.

The rate is shape(hour of week) × slow noise × incidents. Its integral Λ is operational time; a
renewal process with unit rate and the recipe's gap law lives there, and Λ⁻¹ carries it to real
time. Thus the mean follows the rate exactly and burstiness has its own parameter.
Source: Gerhardt and Nelson, "Transforming renewal processes for simulation of nonstationary
arrival processes", INFORMS J. Computing 21(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.synth.recipe import Arrivals, Incident
from planner.units import DAY_S, HOUR_S

RATE_STEP_S = 60.0  # rates are linear between points this far apart
HOURS_OF_WEEK = 168


def week_shape(arrivals: Arrivals) -> NDArray[np.float64]:
    """Relative rate in each of the 168 hours from Monday 00:00, with mean 1.

    Examples
    --------
    >>> flat = Arrivals(requests_per_s=1, hour_of_day=(1,) * 24, day_of_week=(1,) * 6 + (8,),
    ...                 gap_family="gamma", gap_cv=1, rate_cv=0, rate_correlation_s=1)
    >>> float(week_shape(flat)[0]), float(week_shape(flat)[167])
    (0.5, 4.0)
    """
    shape = np.outer(arrivals.day_of_week, arrivals.hour_of_day).ravel().astype(np.float64)
    shape /= shape.mean()
    return shape


def rate_path(
    arrivals: Arrivals,
    incidents: Sequence[Incident],
    start_of_week_s: float,
    times_s: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Relative rate at `times_s` (evenly spaced, 0 at the trace's start); mean 1 in expectation."""
    hours = (start_of_week_s + times_s) / HOUR_S
    centres = np.arange(HOURS_OF_WEEK) + 0.5
    rate = np.interp(hours, centres, week_shape(arrivals), period=HOURS_OF_WEEK)
    rate *= log_normal_noise(
        arrivals.rate_cv, arrivals.rate_correlation_s, times_s[1] - times_s[0], len(times_s), rng
    )
    for incident in incidents:
        inside = (times_s >= incident.start_s) & (times_s < incident.start_s + incident.duration_s)
        rate[inside] *= incident.rate_factor
    return np.asarray(rate, dtype=np.float64)


def log_normal_noise(
    cv: float, correlation_s: float, step_s: float, n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Stationary log-normal path with mean 1: exp of an Ornstein-Uhlenbeck process.

    x₍ₖ₊₁₎ = a·xₖ + √(1 − a²)·σ·ε,  a = exp(−step/correlation),  σ² = ln(1 + cv²),
    noise = exp(x − σ²/2).

    Examples
    --------
    >>> log_normal_noise(0.0, 60.0, 60.0, 3, np.random.default_rng(0)).tolist()
    [1.0, 1.0, 1.0]
    """
    sigma = math.sqrt(math.log1p(cv * cv))
    shocks = rng.standard_normal(n) * sigma
    keep = math.exp(-step_s / correlation_s)
    fresh = math.sqrt(1.0 - keep * keep)
    path = np.empty(n)
    level = 0.0
    for k, shock in enumerate(shocks.tolist()):
        level = shock if k == 0 else keep * level + fresh * shock
        path[k] = level
    return np.exp(path - sigma * sigma / 2.0)


def unit_gaps(family: str, cv: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw n independent gaps with mean 1 and coefficient of variation `cv`.

    Gamma: shape k = 1/cv², scale 1/k. Weibull: the shape solves
    Γ(1 + 2/k)/Γ(1 + 1/k)² = 1 + cv², the scale is 1/Γ(1 + 1/k).
    """
    if family == "weibull":
        shape = weibull_shape_for_cv(cv)
        return rng.weibull(shape, n) / math.gamma(1.0 + 1.0 / shape)
    shape = 1.0 / (cv * cv)
    return rng.gamma(shape, 1.0 / shape, n)


def weibull_shape_for_cv(cv: float) -> float:
    """Weibull shape k whose std/mean is `cv`, by bisection on a decreasing function.

    Examples
    --------
    >>> round(weibull_shape_for_cv(1.0), 9)
    1.0
    """
    low, high = 0.1, 50.0
    for _ in range(80):
        middle = (low + high) / 2.0
        spread = math.exp(math.lgamma(1.0 + 2.0 / middle) - 2.0 * math.lgamma(1.0 + 1.0 / middle))
        low, high = (middle, high) if spread - 1.0 > cv * cv else (low, middle)
    return (low + high) / 2.0


def session_starts(
    arrivals: Arrivals,
    sessions_per_s: float,
    incidents: Sequence[Incident],
    start_of_week_s: float,
    span_s: tuple[float, float],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Start times within `span_s` (seconds from the trace's start), sorted."""
    times = _rate_times(span_s)
    rate = sessions_per_s * rate_path(arrivals, incidents, start_of_week_s, times, rng)
    steps = np.diff(times) * (rate[1:] + rate[:-1]) / 2.0
    operational = np.concatenate([[0.0], np.cumsum(steps)])
    expected = float(operational[-1])
    n = math.ceil(expected + 10.0 * (1.0 + arrivals.gap_cv) * math.sqrt(expected + 1.0))
    ticks = np.cumsum(unit_gaps(arrivals.gap_family, arrivals.gap_cv, n, rng))
    starts: NDArray[np.float64] = np.interp(ticks[ticks < expected], operational, times)
    return starts[starts < span_s[1]]


def expected_starts(
    arrivals: Arrivals,
    sessions_per_s: float,
    incidents: Sequence[Incident],
    start_of_week_s: float,
    span_s: tuple[float, float],
) -> float:
    """Mean number of starts that `session_starts` draws."""
    times = _rate_times(span_s)
    steady = replace(arrivals, rate_cv=0.0)
    rate = rate_path(steady, incidents, start_of_week_s, times, np.random.default_rng(0))
    return sessions_per_s * float(np.trapezoid(rate, times))


def _rate_times(span_s: tuple[float, float]) -> NDArray[np.float64]:
    return np.arange(span_s[0], span_s[1] + RATE_STEP_S, RATE_STEP_S)


def seconds_into_week(weekday: int, hour: int, minute: int, second: int) -> float:
    """Seconds from Monday 00:00; `weekday` 0 is Monday.

    Examples
    --------
    >>> seconds_into_week(1, 1, 0, 0)
    90000.0
    """
    return weekday * DAY_S + hour * HOUR_S + minute * 60.0 + second
