"""Arrival figures: by hand, against brute force, and on processes whose parameters are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from planner.profile.arrivals import arrival_stats, hour_of_week, time_quantum_s, window_counts
from planner.profile.fits import FIT_GAPS, distances, every_kth, gamma_shape, weibull_shape

TIMES = st.lists(st.floats(0, 500, allow_nan=False), min_size=2, max_size=60).map(
    lambda values: np.sort(np.array(values) - min(values))
)


@settings(deadline=None)
@given(TIMES, st.sampled_from([1.0, 7.0, 60.0]))
def test_window_counts_equal_a_plain_histogram(times, window_s) -> None:
    span_s = float(times[-1])
    found = window_counts(times, window_s, span_s)
    counts = np.bincount((times // window_s).astype(int))
    assert found.peak == counts.max()
    whole = int(span_s // window_s)
    if whole == 0 or counts[:whole].sum() == 0:
        assert math.isnan(found.fano)
        return
    inside = counts[:whole]
    assert found.peak_to_mean == pytest.approx(counts.max() / inside.mean())
    assert found.fano == pytest.approx(inside.var() / inside.mean(), abs=1e-9)


@pytest.mark.parametrize("shape", [0.25, 0.6, 1.0, 2.5])
def test_gamma_shape_is_recovered(shape: float) -> None:
    """60,000 draws: the estimate's standard error is below 0.6 %, four of them are allowed."""
    gaps = np.random.default_rng(1).gamma(shape, 3.0, FIT_GAPS)
    assert gamma_shape(gaps) == pytest.approx(shape, rel=0.024)


@pytest.mark.parametrize("shape", [0.4, 0.8, 1.0, 2.5])
def test_weibull_shape_is_recovered(shape: float) -> None:
    """60,000 draws: the standard error is 0.78/√n = 0.32 %, four of them are allowed."""
    gaps = 5.0 * np.random.default_rng(2).weibull(shape, FIT_GAPS)
    assert weibull_shape(gaps) == pytest.approx(shape, rel=0.013)


def test_fits_are_scipys() -> None:
    gaps = np.random.default_rng(3).gamma(0.7, 2.0, 400)
    gamma, _, _ = stats.gamma.fit(gaps, floc=0)
    weibull, _, scale = stats.weibull_min.fit(gaps, floc=0)
    assert gamma_shape(gaps) == pytest.approx(gamma, rel=1e-6)
    assert weibull_shape(gaps) == pytest.approx(weibull, rel=1e-3)  # its optimiser stops early
    exponential, ks_gamma, ks_weibull = distances(gaps, gamma, weibull)
    for found, law in (
        (exponential, stats.expon(scale=gaps.mean())),
        (ks_gamma, stats.gamma(gamma, scale=gaps.mean() / gamma)),
        (ks_weibull, stats.weibull_min(weibull, scale=scale)),
    ):
        assert found == pytest.approx(stats.kstest(gaps, law.cdf).statistic, abs=1e-4)


def test_equal_gaps_have_no_shape() -> None:
    gaps = np.full(50, 2.0)
    assert math.isnan(gamma_shape(gaps))
    assert math.isnan(weibull_shape(gaps))


def test_subset_of_gaps_is_spread_over_the_trace() -> None:
    chosen = every_kth(np.arange(200_000.0))
    assert len(chosen) == FIT_GAPS
    assert chosen[0] == 0
    assert chosen[-1] > 199_990
    assert np.diff(chosen).max() <= 4


def test_poisson_arrivals_look_poisson() -> None:
    """100,000 arrivals: CV ± 0.3 %, Fano of seconds ± 0.8 %; three errors are allowed."""
    gaps = np.random.default_rng(4).exponential(0.25, 100_000)
    times = np.cumsum(gaps) - gaps[0]
    found = arrival_stats(times, float(times[-1]))
    assert found.mean_per_s == pytest.approx(4.0, rel=0.01)
    assert found.gap_cv == pytest.approx(1.0, abs=0.01)
    assert found.fano_1s == pytest.approx(1.0, abs=0.025)
    assert found.ks_exponential < 0.006  # 1 % critical value at 60,000 gaps is 0.0067
    assert found.time_quantum_s == 0.0


def test_one_request_and_simultaneous_requests() -> None:
    single = arrival_stats(np.array([0.0]), 0.0)
    assert math.isnan(single.mean_per_s)
    assert math.isnan(single.gap_cv)
    assert single.peak_per_minute == 1
    tied = arrival_stats(np.zeros(3), 0.0)
    assert tied.zero_gap_share == 1.0
    assert tied.peak_per_hour == 3


@pytest.mark.parametrize("step_s", [3600.0, 60.0, 1.0, 0.1, 0.01, 0.001])
def test_grids_are_found(step_s: float) -> None:
    steps = np.sort(np.random.default_rng(6).integers(0, 500_000, 300))
    assert time_quantum_s((steps - steps[0]) * step_s) == step_s


def test_batches_are_found_though_their_clock_is_finer() -> None:
    rng = np.random.default_rng(7)
    batches = np.cumsum(3.0 + rng.integers(-1, 2, 200) * 0.001)
    assert time_quantum_s(np.repeat(batches, 10) - batches[0]) == 3.0


def test_on_off_arrivals_are_not_batches() -> None:
    rng = np.random.default_rng(8)
    starts = np.cumsum(rng.exponential(30.0, 100))
    times = np.sort(np.repeat(starts, 5) - starts[0])
    assert time_quantum_s(times) == 0.0


def test_hour_of_week_by_hand() -> None:
    """Nine days from Tuesday 12:30: Tuesday 12:00 is seen for half an hour and a whole hour."""
    times = np.array([0.0, 60.0, 7 * 86_400.0, 9 * 86_400.0])
    hours = hour_of_week(times, 9 * 86_400.0, "2026-10-13T12:30:00+00:00")
    tuesday_noon, thursday_noon = 24 + 12, 3 * 24 + 12
    assert hours[tuesday_noon] == pytest.approx(3 / 1.5)
    assert hours[thursday_noon] == pytest.approx(1 / 1.5)
    assert sum(hours) == pytest.approx(2 + 1 / 1.5)


def test_hour_of_week_follows_the_zone() -> None:
    times = np.arange(0.0, 7 * 86_400.0 + 1, 3600.0)
    plain = hour_of_week(times[:1], 7 * 86_400.0, "2026-10-12T00:00:00")
    shifted = hour_of_week(times[:1], 7 * 86_400.0, "2026-10-12T02:00:00+02:00")
    assert plain == shifted
    assert plain[0] == 1.0


def test_hour_of_week_needs_dates_and_a_week() -> None:
    assert hour_of_week(np.array([0.0]), 7 * 86_400.0, "") == ()
    assert hour_of_week(np.array([0.0]), 86_400.0, "2026-10-12T00:00:00") == ()


def test_flat_traffic_has_a_flat_week() -> None:
    times = np.arange(0.0, 14 * 86_400.0, 600.0)
    hours = hour_of_week(times, 14 * 86_400.0, "2026-10-14T07:00:00+00:00")
    assert hours == pytest.approx((6.0,) * 168)
