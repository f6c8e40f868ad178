"""Maximum-likelihood fits of inter-arrival times and how far each law is from the data."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FIT_GAPS = 60_000  # more gaps do not move a shape by more than its own sampling error, 0.5 %
TOLERANCE = 1e-10
MAX_STEPS = 100


def every_kth(gaps: NDArray[np.float64], most: int = FIT_GAPS) -> NDArray[np.float64]:
    """At most `most` of the gaps, evenly spread over the trace: the same ones every time.

    Examples
    --------
    >>> every_kth(np.arange(10.0), 4).tolist()
    [0.0, 2.0, 5.0, 7.0]
    """
    if len(gaps) <= most:
        return gaps
    chosen: NDArray[np.float64] = gaps[(np.arange(most) * len(gaps)) // most]
    return chosen


def gamma_shape(gaps: NDArray[np.float64]) -> float:
    """Shape k of the Gamma law with the greatest likelihood; NaN where the gaps do not vary.

    Solves ln k − ψ(k) = s with s = ln(mean) − mean(ln x), by Newton's method from
    k₀ = (3 − s + √((s − 3)² + 24 s))/(12 s). The scale is then mean/k.
    Source: Minka, "Estimating a Gamma distribution", 2002.

    Examples
    --------
    >>> round(gamma_shape(np.array([0.5, 1.0, 2.0])), 3)
    3.401
    """
    from scipy.special import digamma, polygamma

    s = math.log(float(gaps.mean())) - float(np.log(gaps).mean()) if len(gaps) else 0.0
    if s <= TOLERANCE:
        return math.nan
    k = (3.0 - s + math.sqrt((s - 3.0) ** 2 + 24.0 * s)) / (12.0 * s)
    for _ in range(MAX_STEPS):
        residual = math.log(k) - float(digamma(k)) - s
        change = residual / (1.0 / k - float(polygamma(1, k)))
        k = max(k - change, k / 2.0)
        if abs(change) <= TOLERANCE * k:
            break
    return k


def weibull_shape(gaps: NDArray[np.float64]) -> float:
    """Shape k of the Weibull law with the greatest likelihood; NaN where the gaps do not vary.

    Solves Σ xᵏ ln x/Σ xᵏ − 1/k − mean(ln x) = 0, by Newton's method on values scaled by the largest
    (so that xᵏ cannot overflow). The scale is then (mean xᵏ)^(1/k).
    Source: Cohen, "Maximum likelihood estimation in the Weibull distribution", Technometrics 7(4),
    1965.

    Examples
    --------
    >>> round(weibull_shape(np.array([0.5, 1.0, 2.0])), 3)
    2.012
    """
    if len(gaps) == 0 or float(gaps.max()) <= float(gaps.min()) * (1.0 + TOLERANCE):
        return math.nan
    log_x = np.log(gaps / gaps.max())
    mean_log, squares = float(log_x.mean()), log_x**2
    k = 1.0
    for _ in range(MAX_STEPS):
        powers = np.exp(k * log_x)
        total = float(powers.sum())
        first = float(powers @ log_x) / total
        second = float(powers @ squares) / total
        change = (first - 1.0 / k - mean_log) / (second - first * first + 1.0 / (k * k))
        k = max(k - change, k / 2.0)
        if abs(change) <= TOLERANCE * k:
            break
    return k


def kolmogorov_distance(fitted: NDArray[np.float64]) -> float:
    """Greatest distance between the empirical and a fitted distribution function.

    D = max over i of max(i/n − F(xᵢ), F(xᵢ) − (i − 1)/n), where `fitted` is F at the sorted values.

    Examples
    --------
    >>> kolmogorov_distance(np.array([0.5]))
    0.5
    """
    n = len(fitted)
    above = np.arange(1, n + 1) / n - fitted
    below = fitted - np.arange(n) / n
    return float(max(above.max(), below.max()))


def distances(gaps: NDArray[np.float64], gamma_k: float, weibull_k: float) -> tuple[float, ...]:
    """Kolmogorov distances of the exponential, Gamma and Weibull laws fitted to `gaps`."""
    from scipy.special import gammainc

    if len(gaps) == 0:
        return math.nan, math.nan, math.nan
    ordered = np.sort(gaps)
    mean = float(ordered.mean())
    exponential = kolmogorov_distance(-np.expm1(-ordered / mean))
    gamma = weibull = math.nan
    if not math.isnan(gamma_k):
        scaled = np.asarray(gammainc(gamma_k, ordered * gamma_k / mean), dtype=np.float64)
        gamma = kolmogorov_distance(scaled)
    if not math.isnan(weibull_k):
        top = float(ordered[-1])
        scale = top * float(np.mean((ordered / top) ** weibull_k)) ** (1.0 / weibull_k)
        weibull = kolmogorov_distance(-np.expm1(-((ordered / scale) ** weibull_k)))
    return exponential, gamma, weibull
