"""What replay() says about targets, windows, rejections, load and early stops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_vllm_v1 import simulate
from sim_cases import case, peak_bytes_a_request, plain_cost, requests_of, step_cost

from planner.perf import step_cost as physics
from planner.sim import run
from planner.sim.copying import INDEPENDENT, TOGETHER, Copying
from planner.sim.kernel import clock
from planner.sim.load import scale, subset, thin
from planner.sim.metrics import gap_percentile, needed, percentile_of
from planner.sim.refusals import REASONS
from planner.sim.replay import replay
from planner.sim.routing import uniforms
from planner.sim.settings import SchedulerSettings
from planner.sim.targets import edges_of, window_of
from planner.spec.slo import Target, WorkloadClass

ROOMY = SchedulerSettings(
    max_num_batched_tokens=512, max_num_seqs=32, max_model_len=2000, num_blocks=4000
)


def busy_trace(n=6000, seed=7, classes=2, gap_s=0.03):
    rng = np.random.default_rng(seed)
    return requests_of(
        np.cumsum(rng.exponential(gap_s, n) * (np.arange(n) > 0)),
        rng.integers(1, 500, n),
        rng.integers(1, 80, n),
        rng.integers(0, classes, n),
        tuple(f"class{c}" for c in range(classes)),
    )


def cost(asynchronous=False):
    return replace(
        step_cost(np.random.default_rng(3), 512, 32, asynchronous=asynchronous),
        pair_s=np.array([1e-8]),
        kv_s=np.array([2e-7]),
    )


def targets(*limits):
    return [
        WorkloadClass(
            name="class0",
            targets=tuple(
                Target(metric=metric, percentile=p, limit_s=x) for metric, p, x in limits
            ),
        )
    ]


def test_attainment_and_percentile_are_one_statement():
    trace = busy_trace()
    edges = np.array([0.0, 60.0, 120.0, trace.arrival_s[-1]])
    plain = replay(trace, cost(), ROOMY)
    for metric, values in (
        ("ttft_s", plain.ttft_s),
        ("tpot_s", plain.tpot_s),
        ("e2e_s", plain.e2e_s),
    ):
        limit = float(np.nanquantile(values, 0.9))
        done = replay(
            trace, cost(), ROOMY, classes=targets((metric, 90.0, limit)), windows=[edges] * 2
        )
        (result,) = done.targets
        assert len(result.windows) == 3
        for window in result.windows:
            inside = (trace.class_id == 0) & (trace.arrival_s >= window.start_s)
            inside &= trace.arrival_s < window.end_s if window.end_s < edges[-1] else True
            mine = values[inside & ~np.isnan(values)]
            assert window.count == len(mine)
            assert window.value_s == np.quantile(mine, 0.9, method="inverted_cdf")
            assert window.attainment == np.mean(mine <= limit)
            assert window.holds == (window.value_s <= limit) == (window.attainment >= 0.9)
        assert result.holds == all(window.holds for window in result.windows)
        assert result.worst.value_s == max(window.value_s for window in result.windows)


@given(st.integers(1, 5000), st.sampled_from([50.0, 90.0, 95.0, 99.0, 99.9]))
def test_needed_is_the_inverted_cdf(count, percentile):
    exact = -(-round(percentile * 10) * count // 1000)  # percentiles have one decimal at most
    assert needed(percentile, count) == max(1, exact)
    values = np.arange(count, dtype=float)[::-1].copy()
    assert percentile_of(values, percentile) == max(1, exact) - 1


@pytest.mark.parametrize("seed", range(1, 11))
def test_itl_targets_are_counted_exactly(seed):
    """Limits between the gaps that occurred: the count is exact, whatever the bins."""
    one = case(seed, tight=seed % 2 == 0, threshold=seed % 3 == 0, most=60)
    simulate(one.jobs, one.settings, one.cost)
    gaps = np.sort(
        np.concatenate([np.diff(job.token_s) for job in one.jobs if job.class_id == 0] or [[]])
    )
    apart = np.flatnonzero(np.diff(gaps) > 1e-7)  # equal gaps differ by rounding
    for share in (0.3, 0.9):
        at = apart[np.argmin(np.abs(apart - share * len(gaps)))]
        limit = float(gaps[at] + gaps[at + 1]) / 2
        done = replay(one.trace, one.cost, one.settings, classes=targets(("itl_s", 90.0, limit)))
        (result,) = done.targets
        assert result.windows[0].count == len(gaps)
        assert result.attainment == np.mean(gaps <= limit)
        assert result.holds == (result.attainment >= 0.9) == (result.whole_s <= limit)


def test_rejected_requests_are_named_and_count_as_violations():
    trace = requests_of([0.0, 1.0, 2.0, 3.0], [10, 1990, 900, 10], [5, 20, 5, 0])
    small = replace(ROOMY, num_blocks=50)
    done = replay(
        trace,
        plain_cost(0.01, 512, 32),
        small,
        classes=[
            WorkloadClass(
                name="all", targets=(Target(metric="ttft_s", percentile=50.0, limit_s=9.0),)
            )
        ],
    )
    assert [REASONS[r] for r in done.rejected] == ["", REASONS[1], REASONS[2], REASONS[3]]
    assert done.rejection_counts() == {REASONS[1]: 1, REASONS[2]: 1, REASONS[3]: 1}
    assert np.isinf(done.ttft_s[1:]).all()
    assert done.replica.tolist() == [0, -1, -1, -1]
    assert done.targets[0].attainment == 0.25
    assert not done.holds
    assert math.isinf(done.classes()[0].ttft_s.p99)


def test_the_longest_request_that_fits_is_served():
    exactly = replace(ROOMY, num_blocks=4, block_size=16, max_model_len=2000)
    trace = requests_of([0.0], [60], [5])  # 64 tokens are computed, the 65th is only given out
    done = replay(trace, plain_cost(0.01, 512, 32), exactly, debug=True)
    assert done.rejected.tolist() == [0]
    assert done.e2e_s[0] == pytest.approx(0.05)
    assert (
        replay(requests_of([0.0], [60], [6]), plain_cost(0.01, 512, 32), exactly).rejected[0] == 2
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("routing", ["random", "least_loaded"])
def test_an_early_stop_never_changes_the_verdict(seed, routing):
    rng = np.random.default_rng(seed)
    trace = busy_trace(1500, seed, gap_s=0.02)
    plain = replay(trace, cost(), ROOMY, replicas=2, routing=routing)
    metric = ("ttft_s", "tpot_s", "e2e_s")[seed % 3]
    mine = getattr(plain, metric)[trace.class_id == 0]
    limit = float(np.nanquantile(mine, rng.uniform(0.7, 1.0)))
    edges = [np.array([0.0, 10.0, 20.0, trace.arrival_s[-1]])] * 2
    ask = {"classes": targets((metric, 90.0, limit)), "windows": edges}
    whole = replay(trace, cost(), ROOMY, replicas=2, routing=routing, **ask)
    probe = replay(trace, cost(), ROOMY, replicas=2, routing=routing, stop_when_lost=True, **ask)
    assert probe.holds == whole.holds
    assert probe.lost == (not whole.holds)
    if probe.lost:
        assert probe.totals.events < whole.totals.events


def test_an_early_stop_saves_most_of_a_hopeless_probe():
    trace = busy_trace(20_000, gap_s=0.001)
    ask = {"classes": targets(("ttft_s", 99.0, 0.5))}
    whole = replay(trace, cost(), ROOMY, **ask)
    probe = replay(trace, cost(), ROOMY, stop_when_lost=True, **ask)
    assert probe.lost
    assert probe.totals.events < 0.1 * whole.totals.events


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize(
    "how", [{}, {"routing": "least_loaded"}, {"concurrency": 40}, {"follow_sessions": True}]
)
def test_an_early_stop_for_gaps_never_changes_the_verdict(seed, how):
    """In one window over everything a target is lost if and only if it does not hold.

    Of several, a window's gaps are known when it is over: what it misses by a few is told then.
    """
    rng = np.random.default_rng(seed)
    trace = replace(busy_trace(1500, seed, gap_s=0.02), session_id=np.arange(1500) % 700)
    how = {**how, "replicas": 2}
    plain = replay(trace, cost(), ROOMY, **how)
    quantile = float(rng.uniform(70.0, 99.0))
    limit = gap_percentile(plain.gaps[:, 0].sum(axis=0), quantile)
    for edges in (None, [np.array([0.0, 10.0, 20.0, trace.arrival_s[-1]])] * 2):
        ask = {"classes": targets(("itl_s", 90.0, limit)), "windows": edges, **how}
        whole = replay(trace, cost(), ROOMY, **ask)
        probe = replay(trace, cost(), ROOMY, stop_when_lost=True, **ask)
        assert probe.holds == whole.holds
        if edges is None:
            assert probe.lost == (not whole.holds)
        if probe.lost:
            assert probe.totals.events < whole.totals.events


def test_an_early_stop_for_gaps_saves_most_of_a_hopeless_probe():
    """Half of all gaps are too long, a tenth may be: a fifth of them is enough to know."""
    trace = busy_trace(20_000, gap_s=0.02)
    plain = replay(trace, cost(), ROOMY)
    limit = gap_percentile(plain.gaps[:, 0].sum(axis=0), 50.0)
    ask = {"classes": targets(("itl_s", 90.0, limit))}
    probe = replay(trace, cost(), ROOMY, stop_when_lost=True, **ask)
    assert probe.lost
    assert not replay(trace, cost(), ROOMY, **ask).holds
    assert probe.totals.events < 0.3 * plain.totals.events


@pytest.mark.parametrize("policy", ["vllm_v0", "sglang"])
def test_gaps_that_grow_while_they_wait_are_lost_once(policy):
    """What waits for a prefill is counted again with the wait: it must not be lost twice."""
    chosen = {"policy": policy, "max_num_batched_tokens": 2000}
    if policy == "sglang":
        pages = {"block_size": 1, "num_blocks": ROOMY.kv_tokens}
        chosen |= {"admission": "reserved_output", **pages}
    settings = replace(ROOMY, **chosen)
    trace = busy_trace(1500, gap_s=0.05)
    step = plain_cost(0.01, 2000, 32)
    plain = replay(trace, step, settings)
    for quantile in np.linspace(85.0, 95.0, 11):
        limit = gap_percentile(plain.gaps[:, 0].sum(axis=0), quantile)
        ask = {"classes": targets(("itl_s", 90.0, limit))}
        whole = replay(trace, step, settings, **ask)
        probe = replay(trace, step, settings, stop_when_lost=True, **ask)
        assert probe.lost == (not whole.holds)


def test_windows_take_a_lead_in():
    """Requests outside every window are simulated, not judged."""
    trace = busy_trace(3000)
    edges = np.array([30.0, 60.0])
    done = replay(
        trace,
        cost(),
        ROOMY,
        classes=targets(("ttft_s", 90.0, 1.0), ("itl_s", 90.0, 1.0)),
        windows=[edges, edges],
    )
    itl, ttft = done.targets
    inside = (trace.class_id == 0) & (trace.arrival_s >= 30.0) & (trace.arrival_s <= 60.0)
    assert ttft.windows[0].count == inside.sum()
    assert not np.isnan(done.e2e_s).any()
    whole = replay(trace, cost(), ROOMY).gaps[0, 0].sum()
    assert 0 < itl.windows[0].count < whole


def test_edges_of_windows_by_class():
    from planner.solve.windows import class_windows

    trace = busy_trace(3000)
    found = class_windows(
        trace.arrival_s, trace.class_id, 2, span_s=trace.span_s, window_s=20.0, min_requests=400
    )
    edges = edges_of(found, 3)
    assert np.isinf(edges[2]).all()
    for class_id in range(2):
        mine = [window for window in found if window.class_id == class_id]
        inside = window_of(trace.arrival_s[trace.class_id == class_id], edges[class_id])
        assert np.bincount(inside).tolist() == [window.requests for window in mine]


def test_routing_is_seeded_and_fair():
    trace = busy_trace(8000)
    once, again = (replay(trace, cost(), ROOMY, replicas=4, seed=5) for _ in range(2))
    other = replay(trace, cost(), ROOMY, replicas=4, seed=6)
    assert once.e2e_s.tobytes() == again.e2e_s.tobytes()
    assert (once.replica != other.replica).mean() > 0.6
    counts = np.bincount(once.replica, minlength=4)
    assert abs(counts - 2000).max() < 5 * math.sqrt(8000 * 0.25 * 0.75)
    turns = replay(trace, cost(), ROOMY, replicas=4, routing="round_robin")
    assert turns.replica.tolist() == [i % 4 for i in range(8000)]


def test_independent_replicas_are_separate_replays():
    trace = busy_trace(4000)
    done = replay(trace, cost(True), ROOMY, replicas=3)
    for r in range(3):
        alone = replay(subset(trace, done.replica == r), cost(True), ROOMY)
        np.testing.assert_allclose(alone.e2e_s, done.e2e_s[done.replica == r], rtol=1e-9)


def test_least_loaded_beats_random():
    trace = busy_trace(8000, gap_s=0.012)
    waits = {
        routing: replay(trace, cost(), ROOMY, replicas=3, routing=routing).queue_s.mean()
        for routing in ("random", "least_loaded")
    }
    assert waits["least_loaded"] < waits["random"]


def test_thinning_is_nested_and_keeps_sessions_whole():
    trace = busy_trace(20_000)
    sessions = np.where(np.arange(20_000) % 2, np.arange(20_000) // 10, -1)
    trace = replace(trace, session_id=sessions)
    kept = [set(thin(trace, f, seed=3).arrival_s) for f in (0.2, 0.5, 0.9, 1.0)]
    assert kept[0] < kept[1] < kept[2] < kept[3]
    for share, part in zip((0.2, 0.5, 0.9), kept, strict=False):
        # 10,000 lone requests and 2,000 sessions of 5: standard deviation below 0.55 %.
        assert len(part) / 20_000 == pytest.approx(share, abs=0.03)
    part = thin(trace, 0.5, seed=3)
    counts = np.bincount(part.session_id[part.session_id >= 0])
    assert set(counts[counts > 0]) == {5}
    with pytest.raises(ValueError, match="share"):
        thin(trace, 0.0)


def test_uniforms_are_uniform_and_independent_of_each_other():
    n = 200_000
    a, b, c = (uniforms(np.arange(n), seed, stream) for seed, stream in ((1, 1), (1, 2), (2, 1)))
    for draws in (a, b, c):
        assert draws.min() >= 0.0
        assert draws.max() < 1.0
        # Kolmogorov-Smirnov: 1.95/sqrt(n) is the 0.1 % point.
        assert np.abs(np.sort(draws) - (np.arange(n) + 0.5) / n).max() < 1.95 / math.sqrt(n)
    for x, y in ((a, b), (a, c), (a[:-1], a[1:])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 5 / math.sqrt(n)


@pytest.mark.parametrize("correlated", [False, True])
def test_more_load_lays_copies_over_each_other(correlated):
    trace = busy_trace(20_000)
    more = scale(trace, 2.5, seed=1, copying=TOGETHER if correlated else INDEPENDENT)
    assert len(more) == pytest.approx(50_000, abs=600)
    assert (np.diff(more.arrival_s) >= 0).all()
    assert more.arrival_s[-1] <= trace.arrival_s[-1]
    assert set(trace.arrival_s) <= set(more.arrival_s)
    bins = np.arange(0.0, trace.arrival_s[-1], 2.0)
    counts = np.histogram(more.arrival_s, bins)[0]
    # Variance over mean is 1 for the Poisson trace, about 2.5 where copies stay together.
    fano = counts.var() / counts.mean()
    assert 1.7 < fano < 2.6 if correlated else 0.7 < fano < 1.3
    assert scale(trace, 1.0).arrival_s.tolist() == trace.arrival_s.tolist()


@pytest.mark.parametrize("spread_s", [60.0, 600.0, 3600.0])
def test_copies_do_not_pile_up_where_the_displacement_exceeds_the_trace(spread_s):
    """Ten minutes at a constant rate, eleven times: no tenth of them holds much more than a tenth.

    5 % is four standard deviations of 6,000 · 11 · 0.1 arrivals.
    """
    trace = requests_of(np.arange(6000) * 0.1, np.ones(6000, int), np.ones(6000, int))
    more = scale(trace, 11.0, seed=3, copying=Copying(within=((spread_s, 1.0),)))
    assert len(more) == 66_000
    counts, _ = np.histogram(more.arrival_s, bins=10)
    assert counts.max() / counts.mean() < 1.05


def test_copies_of_a_short_trace_pile_up_at_neither_end():
    """Displaced by half an hour either way, twenty minutes of even traffic stay even."""
    n = 20_000
    even = replace(busy_trace(n), arrival_s=np.linspace(0.0, 1200.0, n))
    more = scale(even, 4.0, seed=3, copying=Copying(within=((3600.0, 1.0),)))
    counts = np.histogram(more.arrival_s, np.linspace(0.0, 1200.0, 21))[0]
    # 4,000 a minute; the draw of three copies leaves a deviation of about √3,000 = 55.
    assert counts == pytest.approx(np.full(20, 4.0 * n / 20), abs=5 * 55)
    assert more.arrival_s.min() >= 0.0
    assert more.arrival_s.max() <= 1200.0


def test_scaled_traces_keep_block_ids_with_their_requests():
    n = 50
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, n)
    offset = np.concatenate(([0], np.cumsum(counts)))
    ids = np.repeat(np.arange(n), counts)  # every block names its request
    trace = replace(busy_trace(n), block_tokens=16, block_offset=offset, block_ids=ids)
    for factor in (0.4, 1.7, 3.0):
        part = scale(trace, factor, seed=2)
        names = dict(zip(trace.input_tokens * 1000 + trace.output_tokens, range(n), strict=True))
        assert len(part.block_offset) == len(part) + 1
        for i in range(len(part)):
            which = names[part.input_tokens[i] * 1000 + part.output_tokens[i]]
            mine = part.block_ids[part.block_offset[i] : part.block_offset[i + 1]]
            assert len(mine) == counts[which]
            assert len(set(mine)) <= 1


@pytest.mark.parametrize("seed", range(30))
def test_the_kernel_reads_step_costs_as_the_equations_do(seed):
    """One prompt beside decodes, and a decode run, against planner.perf.step_cost.step_s."""
    rng = np.random.default_rng(seed)
    mine = step_cost(rng, 64, 8, ideal=seed % 4 == 0, asynchronous=seed % 2 == 1)
    chosen = SchedulerSettings(
        max_num_batched_tokens=64, max_num_seqs=8, max_model_len=500, num_blocks=1000
    )
    prompt, output = int(rng.integers(1, 60)), int(rng.integers(2, 40))
    done = replay(requests_of([0.0], [prompt], [output]), mine, chosen)
    first = physics.step_s(
        mine,
        tokens=prompt,
        decode_seqs=0,
        kv_tokens=0,
        rows=1,
        pairs=prompt * (prompt + 1) / 2,
    )
    outside = mine.frontend_s + mine.frontend_token_s * prompt
    assert done.ttft_s[0] == pytest.approx(float(first) + outside, rel=1e-12)
    contexts = prompt + np.arange(1, output)
    ones = np.ones_like(contexts)
    steps = physics.step_s(mine, tokens=ones, decode_seqs=ones, kv_tokens=contexts, rows=ones)
    assert done.e2e_s[0] == pytest.approx(float(first + steps.sum()) + outside, rel=1e-12)


@settings(max_examples=300, deadline=None)
@given(
    st.floats(1e-4, 0.1),
    st.floats(1e-4, 0.1),
    st.floats(0.0, 1e-3),
    st.integers(1, 400),
    st.floats(1e-6, 1.0),
)
def test_runs_of_steps_in_closed_form(floor, first, slope, steps, share):
    each = np.maximum(floor, first + slope * np.arange(steps))
    total = clock.run_s(floor, first, slope, steps)
    assert total == pytest.approx(each.sum(), rel=1e-12)
    until = total * share
    found = clock.steps_until(floor, first, slope, steps, until)
    assert clock.run_s(floor, first, slope, found) >= until
    assert found == 1 or clock.run_s(floor, first, slope, found - 1) < until
    limit = float(each[0] + share * (each[-1] - each[0]))
    assert clock.steps_below(floor, first, slope, steps, limit) == np.count_nonzero(each <= limit)


def test_debug_mode_finds_a_broken_law():
    """The conservation check is alive: a replica that lost a block is reported."""
    one = case(3, tight=True)
    short = replace(one.settings)
    states = run.idle_states(short, one.cost, 1)
    states.free_blocks -= 1
    rows_before = run.idle_states
    try:
        run.idle_states = lambda *_: states
        with pytest.raises(AssertionError, match="blocks do not add up"):
            replay(one.trace, one.cost, one.settings, debug=True)
    finally:
        run.idle_states = rows_before


def test_what_cannot_be_replayed_is_refused():
    with pytest.raises(ValueError, match="2 tokens a decode, the settings 0 drafts"):
        replay(busy_trace(5), replace(cost(), tokens_per_decode=2), ROOMY)
    with pytest.raises(ValueError, match="not one of"):
        replay(busy_trace(5), cost(), ROOMY, routing="nearest")
    with pytest.raises(ValueError, match="no class chat"):
        replay(busy_trace(5), cost(), ROOMY, classes=[WorkloadClass(name="chat", targets=())])
    with pytest.raises(ValueError, match="at least max_num_seqs"):
        replace(ROOMY, max_num_batched_tokens=8)


def test_an_empty_trace_is_no_trouble():
    done = replay(requests_of([], [], []), cost(), ROOMY, replicas=2)
    assert len(done) == 0
    assert done.totals.events == 0
    assert done.classes()[0].ttft_s.count == 0


def test_the_frontend_adds_to_ttft_and_e2e_alone():
    trace, slow = busy_trace(800), replace(cost(), frontend_s=0.25)
    plain, done = (replay(trace, each, ROOMY) for each in (replace(slow, frontend_s=0.0), slow))
    np.testing.assert_allclose(done.ttft_s, plain.ttft_s + 0.25, rtol=1e-12)
    np.testing.assert_allclose(done.e2e_s, plain.e2e_s + 0.25, rtol=1e-12)
    np.testing.assert_array_equal(done.tpot_s, plain.tpot_s)
    np.testing.assert_array_equal(done.queue_s, plain.queue_s)
    assert done.totals == plain.totals
    for metric, moved in (("ttft_s", 0.25), ("e2e_s", 0.25), ("tpot_s", 0.0)):
        mine = getattr(plain, metric)[trace.class_id == 0]
        for share, holds in ((0.95, True), (0.5, False)):
            limit = float(np.nanquantile(mine, share)) + moved
            ask = {"classes": targets((metric, 90.0, limit)), "stop_when_lost": True}
            assert replay(trace, slow, ROOMY, **ask).holds == holds


@pytest.mark.parametrize("how", [{}, {"routing": "least_loaded"}, {"concurrency": 200}])
def test_memory_beyond_the_input(how):
    """At most 150 bytes a request; a closed loop keeps 32 more of who follows whom.

    What does not grow with the trace (slots, tables, histograms) is a few bytes of it here.
    """
    n = 200_000
    rng = np.random.default_rng(0)
    requests = requests_of(
        np.cumsum(rng.exponential(0.05, n)), rng.integers(10, 500, n), rng.integers(2, 60, n)
    )
    settings = SchedulerSettings(
        max_num_batched_tokens=2048, max_num_seqs=256, max_model_len=1024, num_blocks=10_000
    )
    size = peak_bytes_a_request(requests, plain_cost(0.01, 2048, 256), settings, replicas=3, **how)
    assert size < (190 if "concurrency" in how else 155)
