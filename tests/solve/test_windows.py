"""Windows that targets hold in, and how traffic is prepared."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solve_cases import requests_of

from planner.solve.traffic import spread_ticks, traffic_of
from planner.solve.windows import class_windows, merge_groups, window_edges, window_label


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 200))
def test_merged_groups_tile_the_windows_and_hold_enough(counts, minimum):
    groups = merge_groups(counts, minimum)
    assert groups[0][0] == 0
    assert groups[-1][1] == len(counts)
    assert all(a[1] == b[0] for a, b in pairwise(groups))
    if sum(counts) >= minimum:
        assert all(sum(counts[first:last]) >= minimum for first, last in groups)
    else:
        assert groups == [(0, len(counts))]


@given(st.floats(1.0, 1e6), st.floats(10.0, 7200.0))
def test_edges_cover_the_span_in_windows_of_at_least_half_the_length(span_s, window_s):
    edges = window_edges(span_s, window_s)
    assert edges[0] == 0.0
    assert edges[-1] == span_s
    if len(edges) > 2:
        assert np.diff(edges).min() >= window_s / 2 * (1 - 1e-9)
        assert np.diff(edges).max() < window_s * 1.5 * (1 + 1e-9)


def test_every_request_counts_in_exactly_one_window_of_its_class():
    arrival = np.sort(np.random.default_rng(0).uniform(0, 20_000, 5000))
    classes = np.arange(5000) % 3
    windows = class_windows(
        arrival, classes, 3, span_s=float(arrival[-1]), window_s=3600, min_requests=300
    )
    for which in range(3):
        mine = [w for w in windows if w.class_id == which]
        assert sum(w.requests for w in mine) == int((classes == which).sum())
        assert all(w.requests >= 300 for w in mine)


def test_rare_class_is_judged_over_the_whole_trace():
    arrival = np.linspace(0, 36_000, 1000)
    classes = (np.arange(1000) % 100 == 0).astype(np.int64)  # ten requests of class 1
    windows = class_windows(arrival, classes, 2, span_s=36_000.0, window_s=3600, min_requests=50)
    rare = [w for w in windows if w.class_id == 1]
    assert [(w.start_s, w.end_s, w.merged) for w in rare] == [(0.0, 36_000.0, 10)]


def test_labels_name_the_hour_where_the_trace_has_dates():
    assert window_label(0, 3600, "2026-10-12T00:00:00+00:00") == "Mon 2026-10-12 00:00–01:00"
    assert window_label(0, 90_000, "2026-10-12T00:00:00+00:00").endswith("Tue 2026-10-13 01:00")
    assert window_label(100, 200, "") == "100–200 s"


@given(st.lists(st.integers(0, 20), min_size=1, max_size=50), st.sampled_from([1.0, 3.0]))
def test_spread_ticks_stay_inside_their_tick_and_in_order(ticks, quantum):
    arrival = np.sort(np.asarray(ticks, dtype=float)) * quantum
    spread = spread_ticks(arrival, quantum)
    assert np.all(spread > arrival)
    assert np.all(spread < arrival + quantum)
    assert np.all(np.diff(spread) > 0)


def test_requests_longer_than_the_model_are_never_served():
    requests = requests_of(np.arange(3.0), np.array([100, 900, 1000]), 50)
    traffic = traffic_of(requests, max_model_len=1000)
    assert traffic.served.tolist() == [True, True, False]


def test_cached_prefix_leaves_at_least_one_token_to_prefill():
    requests = requests_of(np.arange(2.0), np.array([100, 100]), 5)
    requests.cached_tokens[:] = [60, 100]
    traffic = traffic_of(requests, max_model_len=1000, cached_share=0.5)
    assert traffic.prompt_tokens.tolist() == [70.0, 50.0]
    full = traffic_of(requests, max_model_len=1000, cached_share=1.0)
    assert full.prompt_tokens.tolist() == [40.0, pytest.approx(1.0)]
