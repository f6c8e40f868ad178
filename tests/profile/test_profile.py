"""The whole profile: conservation, determinism, windows, sessions, files and warnings."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.profile.cautions import cautions
from planner.profile.codec import profile_from_dict, profile_to_dict
from planner.profile.profile import profile_requests
from planner.profile.store import dumps, read_profile, write_profile
from planner.profile.windows import hardest_windows

ROWS = st.lists(
    st.tuples(
        st.integers(0, 9_000_000_000).map(lambda us: us * 1e-6),  # logs resolve microseconds
        st.integers(0, 5000),
        st.integers(0, 900),
        st.sampled_from(["chat", "rag", "agent"]),
    ),
    min_size=1,
    max_size=60,
)


def traffic(samples, rows=4000, **more):
    rng = np.random.default_rng(11)
    return samples.requests(
        np.cumsum(rng.exponential(2.0, rows)),
        rng.integers(10, 4000, rows),
        rng.integers(1, 500, rows),
        classes=rng.choice(["chat", "rag"], rows).tolist(),
        **more,
    )


@settings(deadline=None)
@given(ROWS)
def test_classes_add_up_to_the_total(samples, rows) -> None:
    times, inputs, outputs, classes = zip(*rows, strict=True)
    profile = profile_requests(samples.requests(times, inputs, outputs, classes=list(classes)))
    assert sum(item.requests for item in profile.classes) == profile.requests == len(rows)
    assert sum(item.share for item in profile.classes) == pytest.approx(1.0)
    tokens = sum(item.requests * item.input_tokens.mean for item in profile.classes)
    assert tokens == pytest.approx(sum(inputs), abs=1e-6)
    for item in (profile.total, *profile.classes):
        assert sum(map(sum, item.joint.counts)) == item.requests
        mine = [row for row in rows if item.name in ("all", row[3])]
        for lengths, column in ((item.input_tokens, 1), (item.output_tokens, 2)):
            values = {row[column] for row in mine}
            assert {lengths.p50, lengths.p90, lengths.p95, lengths.p99, lengths.max} <= values
            assert lengths.p50 <= lengths.p90 <= lengths.p95 <= lengths.p99 <= lengths.max


def test_the_only_class_is_the_total(samples) -> None:
    requests = samples.requests([0, 1, 5], [1, 2, 3], [4, 5, 6])
    profile = profile_requests(replace(requests, class_names=("chat", "unused")))
    assert [item.name for item in profile.classes] == ["chat"]
    assert replace(profile.classes[0], name="all") == profile.total


def test_no_request_is_an_error(samples) -> None:
    with pytest.raises(InputError, match="no usable request"):
        profile_requests(samples.requests([], [], []))


@settings(deadline=None)
@given(ROWS)
def test_hardest_windows_are_the_hardest(samples, rows) -> None:
    times, inputs, outputs, _ = zip(*rows, strict=True)
    requests = samples.requests(times, inputs, outputs)
    for window in hardest_windows(requests):
        weights = {
            "requests": np.ones(len(requests)),
            "prompt tokens": requests.input_tokens,
            "output tokens": requests.output_tokens,
            "KV held": requests.output_tokens
            * (requests.input_tokens + requests.output_tokens / 2),
        }[window.label.split(" by ")[1]]
        loads = [
            weights[(requests.arrival_s >= t) & (requests.arrival_s < t + window.duration_s)].sum()
            for t in requests.arrival_s
        ]
        at = list(requests.arrival_s).index(window.start_s)
        assert loads[at] == pytest.approx(max(loads))
        inside = (requests.arrival_s >= window.start_s) & (
            requests.arrival_s < window.start_s + window.duration_s
        )
        assert window.requests == inside.sum()
        assert window.input_tokens_per_s == pytest.approx(
            requests.input_tokens[inside].sum() / window.duration_s
        )


def test_windows_that_the_trace_does_not_reach_are_left_out(samples) -> None:
    windows = hardest_windows(samples.requests([0, 30, 70], [1, 1, 1], [1, 1, 1]))
    assert {window.duration_s for window in windows} == {1.0, 60.0}


def test_sessions_by_hand(samples) -> None:
    """Session 5 asks at 0, 10 and 40, session 6 once; -1 is no session."""
    requests = samples.requests(
        [0, 5, 10, 12, 40], [1] * 5, [1] * 5, session_id=np.array([5, -1, 5, 6, 5])
    )
    found = profile_requests(requests).total.sessions
    assert found is not None
    assert (found.sessions, found.turns_per_session_mean, found.turns_per_session_p95) == (2, 2, 3)
    assert (found.think_time_p50_s, found.think_time_p95_s) == (10.0, 30.0)


def test_think_time_starts_at_the_logged_end_of_the_answer(samples) -> None:
    """Answers take 4 s: 10 s from start to start is 6 s of thinking; the overlapping call has none.

    The latency of the second answer is unknown, so its 30 s stay whole.
    """
    requests = samples.requests(
        [0, 10, 40, 41],
        [1] * 4,
        [1] * 4,
        session_id=np.zeros(4, np.int64),
        observed_e2e_s=np.array([4.0, math.nan, 4.0, 4.0]),
    )
    found = profile_requests(requests).total.sessions
    assert found is not None
    assert (found.think_time_p50_s, found.think_time_p95_s) == (6.0, 30.0)


def test_profile_survives_its_file(samples, tmp_path) -> None:
    profile = profile_requests(traffic(samples, origin="2026-10-12T00:00:00+00:00"))
    data = profile_to_dict(profile)
    again = profile_from_dict(json.loads(json.dumps(data)))
    assert profile_to_dict(again) == data
    assert again.total.input_tokens == replace(
        profile.total.input_tokens,
        mean=again.total.input_tokens.mean,
        std=again.total.input_tokens.std,
    )
    write_profile(profile, tmp_path / "profile.json")  # read_profile checks it against the schema
    assert dumps(read_profile(tmp_path / "profile.json")) == dumps(profile)
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json"]


@pytest.mark.parametrize("rows", [1, 2, 30])
def test_tiny_profiles_are_valid_too(samples, tmp_path, rows) -> None:
    write_profile(profile_requests(traffic(samples, rows)), tmp_path / "profile.json")
    assert read_profile(tmp_path / "profile.json").requests == rows


def test_a_broken_profile_is_refused_with_every_problem(samples, tmp_path) -> None:
    data = profile_to_dict(profile_requests(traffic(samples, 50)))
    data["span_s"] = -1
    data["total"]["share"] = 2
    del data["classes"]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        read_profile(path)
    text = str(caught.value)
    assert "classes is missing" in text
    assert "span_s" in text
    assert "total.share" in text


def test_a_profile_that_cannot_be_written_is_an_input_error(samples, tmp_path) -> None:
    profile = profile_requests(traffic(samples, 5))
    with pytest.raises(InputError, match="cannot be written"):
        write_profile(profile, tmp_path / "missing" / "profile.json")


def test_same_requests_same_bytes(samples) -> None:
    assert dumps(profile_requests(traffic(samples))) == dumps(profile_requests(traffic(samples)))


def said(profile, **more) -> str:
    return "\n".join(cautions(profile, **more))


def test_short_undated_trace_is_cautioned(samples) -> None:
    text = said(profile_requests(traffic(samples)))
    assert "shape of a day or a week" in text
    assert "relative" in text
    assert "prefix reuse" in text
    assert "timestamps come in steps" not in text
    assert "pile up" not in text


def test_coarse_timestamps_are_cautioned(samples) -> None:
    """Ten requests in each 3 s batch."""
    times = np.repeat(np.arange(500) * 3.0, 10)
    text = said(profile_requests(samples.requests(times, times + 5, times + 1)))
    assert "steps of 3 s, 10.0 requests each" in text


def test_fine_clocks_are_not_cautioned(samples) -> None:
    """One request every two seconds on a millisecond clock."""
    requests = traffic(samples)
    rounded = replace(requests, arrival_s=np.round(requests.arrival_s, 3))
    profile = profile_requests(rounded)
    assert profile.total.arrivals.time_quantum_s == 0.001
    assert "timestamps" not in said(profile)


def test_context_limit_is_cautioned(samples) -> None:
    rng = np.random.default_rng(12)
    prompts = np.minimum(rng.lognormal(7, 1, 4000).astype(int), 4096)
    text = said(profile_requests(samples.requests(np.arange(4000), prompts, prompts % 97 + 1)))
    assert "prompts pile up between P95 (4,096 tokens) and P99 (4,096)" in text
    assert "outputs pile up" not in text


def test_small_classes_are_cautioned_against_their_own_need(samples) -> None:
    profile = profile_requests(traffic(samples))
    assert "class chat: no hour reaches the 1,000 requests" in said(profile)
    assert "class chat" not in said(profile, min_requests=200)
    tiny = profile_requests(traffic(samples, 100))
    assert "requests in all, its percentile needs 1,000" in said(tiny)


@pytest.mark.parametrize(
    ("scale", "why"), [(1.0, "arrivals switch on and off"), (20.0, "mix the daily shape")]
)
def test_gaps_that_no_law_fits_are_cautioned(samples, scale, why) -> None:
    """Bursts of a hundred regular gaps between silences, over an hour and over a day."""
    rng = np.random.default_rng(13)
    silent = rng.random(3000) < 0.01
    gaps = scale * np.where(silent, 50.0, rng.uniform(0.9, 1.1, 3000))
    text = said(profile_requests(samples.requests(np.cumsum(gaps), gaps * 9, gaps * 5)))
    assert "no Gamma or Weibull law fits" in text
    assert why in text


def test_a_cache_that_hits_everything_is_doubted(samples) -> None:
    requests = samples.requests([0, 1], [100, 300], [1, 1], cached_tokens=np.array([99, 299]))
    assert "check before relying on it" in said(profile_requests(requests))
