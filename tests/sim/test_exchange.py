"""Copies whose sessions bring what others of their class brought."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.ingest.requests import Requests
from planner.sim.copying import Copying
from planner.sim.exchange import LONG_S
from planner.sim.load import between, scale

DAY_S = 86_400.0


def sessions(count=4000, turns=4, seed=3, span_s=DAY_S / 2):
    """Two classes of sessions of four turns, half a minute apart; lengths name session and turn."""
    draw = np.random.default_rng(seed)
    start = np.sort(draw.uniform(0.0, span_s, count))
    kind = draw.integers(0, 2, count)
    arrival = (start[:, None] + 30.0 * np.arange(turns)).ravel()
    order = np.argsort(arrival, kind="stable")
    number = np.repeat(np.arange(count), turns)[order]
    turn = np.tile(np.arange(turns), count)[order]
    first = arrival[order][0]
    return Requests(
        arrival_s=arrival[order] - first,
        input_tokens=10 * number + turn + 1,
        output_tokens=1 + kind[number] * 1000,
        class_id=kind[number],
        class_names=("one", "two"),
        cached_tokens=np.zeros(len(order), np.int64),
        session_id=number,
    )


def wide(hours):
    mixture = ((hours * 3600.0, 1.0),)
    return Copying(within=((600.0, 1.0),), content=(mixture, mixture))


def test_sessions_stay_whole_and_in_their_class():
    trace = sessions()
    more = scale(trace, 3.0, seed=5, copying=wide(12))
    assert (np.diff(more.arrival_s) >= 0).all()
    assert ((more.output_tokens > 1) == (more.class_id == 1)).all()
    by = np.argsort(more.session_id, kind="stable")
    ids, first = np.unique(more.session_id[by], return_index=True)
    for rows in np.split(by, first[1:])[:: len(ids) // 300]:
        tokens, times = more.input_tokens[rows], more.arrival_s[rows]
        assert len({int(each) // 10 for each in tokens - 1}) == 1  # of one session
        assert np.diff(tokens).tolist() == [1] * (len(rows) - 1)  # its turns in order
        assert np.diff(times) == pytest.approx(np.full(len(rows) - 1, 30.0))


def test_the_rate_keeps_its_course():
    """Sessions start where the trace's do: half of the day is four times as busy as the rest."""
    trace = sessions()
    quiet = trace.session_id % 4 == 0
    kept = (trace.arrival_s < DAY_S / 4) | quiet
    trace = between(_subset(trace, kept), 0.0, DAY_S)
    more = scale(trace, 5.0, seed=5, copying=wide(12))
    edges = [0.0, DAY_S / 4 - 600, DAY_S / 4 + 600, DAY_S]
    times = np.histogram(more.arrival_s, edges)[0] / np.histogram(trace.arrival_s, edges)[0]
    # 8,000 and 2,000 requests in sessions of four: 5 % is more than four deviations of each.
    assert times[[0, 2]] == pytest.approx([5.0, 5.0], rel=0.05)


def test_a_stretch_brings_the_lengths_of_the_whole_trace():
    """Prompts grow through the day; a copied hour has them all, and its own where none move."""
    trace = sessions()
    span = (3600.0, 7200.0)
    own = between(trace, *span)
    moved = scale(trace, 6.0, seed=5, copying=wide(24), span=span)
    near = scale(trace, 6.0, seed=5, copying=wide(0), span=span)
    assert near.input_tokens.max() < 1.3 * own.input_tokens.max()
    assert moved.input_tokens.mean() > 2.0 * own.input_tokens.mean()
    assert len(moved) == pytest.approx(6 * len(own), rel=0.02)
    assert moved.arrival_s.min() >= span[0]
    assert moved.arrival_s.max() <= span[1]


def test_long_sessions_keep_their_own_requests():
    trace = sessions(count=200)
    slow = replace(
        trace, arrival_s=np.sort(trace.arrival_s * 1.0), session_id=trace.session_id % 10
    )
    assert slow.arrival_s[-1] > 2 * LONG_S
    more = scale(slow, 2.0, seed=5, copying=wide(24))
    assert np.array_equal(np.sort(more.input_tokens), np.sort(np.tile(slow.input_tokens, 2)))


def test_parts_are_nested():
    trace = sessions(count=800)
    less, more = (scale(trace, f, seed=5, copying=wide(6)) for f in (2.3, 2.7))
    pairs = [
        set(zip(p.arrival_s.tolist(), p.input_tokens.tolist(), strict=True)) for p in (less, more)
    ]
    assert pairs[0] <= pairs[1]


def _subset(trace, keep):
    return replace(
        trace,
        arrival_s=trace.arrival_s[keep],
        input_tokens=trace.input_tokens[keep],
        output_tokens=trace.output_tokens[keep],
        class_id=trace.class_id[keep],
        cached_tokens=trace.cached_tokens[keep],
        session_id=trace.session_id[keep],
    )


@pytest.mark.parametrize("copying", [wide(12), Copying()])
def test_traces_that_differ_in_token_counts_are_copied_alike(copying):
    """Copies are made once, so even the arrays are the same; the tokens are each trace's own."""
    trace = sessions()
    longer = replace(trace, output_tokens=3 * trace.output_tokens)
    span = (3600.0, 7200.0)
    one, other = (scale(each, 2.4, seed=5, copying=copying, span=span) for each in (trace, longer))
    assert one.arrival_s is other.arrival_s
    assert one.session_id is other.session_id
    assert (other.output_tokens == 3 * one.output_tokens).all()
    assert (other.input_tokens == one.input_tokens).all()
    moved = replace(trace, arrival_s=trace.arrival_s + 1.0)
    third = scale(moved, 2.4, seed=5, copying=copying, span=span)
    assert not np.array_equal(third.arrival_s, one.arrival_s)
