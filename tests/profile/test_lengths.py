"""Lengths against NumPy's and SciPy's own definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from planner.profile.counts import DENSE_LIMIT, inverted_cdf, midranks, value_counts
from planner.profile.lengths import correlations, joint_histogram, length_stats

COLUMNS = st.lists(
    st.one_of(st.integers(0, 40), st.integers(0, 10 * DENSE_LIMIT)), min_size=1, max_size=80
).map(lambda values: np.array(values, np.int64))


@settings(deadline=None)
@given(COLUMNS, st.sampled_from([50.0, 90.0, 95.0, 99.0, 99.9, 100.0]))
def test_percentiles_are_numpys_inverted_cdf(column, percent) -> None:
    found = inverted_cdf(value_counts(column), percent)
    exact = math.ceil(round(percent * len(column) / 100, 6))
    assert found == np.sort(column)[exact - 1]
    assert found in column
    attained = np.mean(column <= found)
    assert attained >= percent / 100 - 1e-9  # the statement "P99 ≤ x" and "99 % ≤ x" are one


def test_p95_of_twenty_is_the_nineteenth() -> None:
    """0.95·20 exceeds 19 in binary; the percentile must not slip to the twentieth value."""
    assert inverted_cdf(value_counts(np.arange(1, 21)), 95.0) == 19


@settings(deadline=None)
@given(COLUMNS)
def test_counts_rebuild_the_column(column) -> None:
    counted = value_counts(column)
    assert np.array_equal(counted.values[counted.row], column)
    assert counted.counts.sum() == len(column)
    assert np.all(np.diff(counted.values) > 0)


@settings(deadline=None)
@given(COLUMNS)
def test_ranks_are_scipys(column) -> None:
    assert np.allclose(midranks(value_counts(column)), stats.rankdata(column))


def test_stats_by_hand() -> None:
    found = length_stats(value_counts(np.array([2, 4, 4, 10])))
    assert (found.mean, found.p50, found.p90, found.max) == (5.0, 4.0, 10.0, 10.0)
    assert found.std == math.sqrt((9 + 1 + 1 + 25) / 4)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 900)), min_size=1, max_size=60))
def test_joint_histogram_counts_every_request_once(pairs) -> None:
    inputs, outputs = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    joint = joint_histogram(value_counts(inputs), value_counts(outputs))
    wanted, *_ = np.histogram2d(inputs, outputs, bins=(joint.input_edges, joint.output_edges))
    assert np.array_equal(np.array(joint.counts), wanted)
    assert sum(map(sum, joint.counts)) == len(pairs)


def test_correlations_match_scipy() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 200, 500)
    y = (x * rng.random(500)).astype(np.int64)
    pearson, spearman = correlations(value_counts(x), value_counts(y))
    assert pearson == pytest.approx(stats.pearsonr(x, y).statistic, rel=1e-9)
    assert spearman == pytest.approx(stats.spearmanr(x, y).statistic, rel=1e-9)


def test_a_constant_length_has_no_correlation() -> None:
    pearson, spearman = correlations(value_counts(np.array([7, 7])), value_counts(np.array([1, 2])))
    assert math.isnan(pearson)
    assert math.isnan(spearman)
