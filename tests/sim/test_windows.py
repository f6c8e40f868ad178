"""Blocks of sliding-window layers: the event kernel against every block of every table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_priority import ByPriority
from reference_vllm_v1 import Engine, simulate
from reference_windows import windowed
from sim_cases import Case, assert_same, case, plain_cost, requests_of
from test_equality import cases, common, leave_out_ties

from planner.perf.kv_layout import KvLayout, WindowTables
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings
from planner.spec.slo import WorkloadClass


def in_groups(one: Case, full, tables, spare, state=0, windows=None):
    """The same case with `full` tables that keep everything and `tables` for each of its windows.

    The pool is large enough for one request of any length, and `spare` blocks larger.
    """
    chosen = one.settings
    found = windows or [int(w) for w in one.cost.window_tokens if w]
    layout = KvLayout(
        num_blocks=1,
        block_tokens=chosen.block_size,
        full_tables=full,
        windows=tuple(
            WindowTables(window_tokens=w, tables=n)
            for w, n in zip(dict.fromkeys(found), tables, strict=False)
        ),
        in_flight_tokens=chosen.max_num_batched_tokens * (1 + one.cost.async_scheduling),
        state_blocks=state,
    )
    peak = int(layout.peak_blocks(np.array([chosen.max_model_len + 20]))[0])
    layout = replace(layout, num_blocks=peak + spare)
    return replace(one, settings=replace(chosen, kv_layout=layout))


def check(one, bin_s=60.0, engine=Engine, **how):
    stepped = simulate(one.jobs, one.settings, one.cost, windowed(engine))
    leave_out_ties(stepped.margin_s)
    done = replay(
        one.trace, one.cost, one.settings, use_cached_tokens=True, debug=True, bin_s=bin_s, **how
    )
    assert_same(done, one.jobs)
    assert done.totals.steps == stepped.steps
    assert done.totals.preemptions == stepped.preemptions
    assert done.totals.recomputed_tokens == stepped.recomputed
    return done, stepped


layouts = st.tuples(
    st.integers(0, 2),  # tables that keep everything
    st.lists(st.integers(1, 5), min_size=2, max_size=2),
    st.integers(0, 40),
    st.integers(0, 2),
)


@common
@given(cases(tight=False, windows=2), layouts)
def test_every_block_outside_a_window_comes_back(one, layout):
    check(in_groups(one, *layout))


@common
@given(cases(tight=True, windows=1, threshold=True, cached=True), layouts, st.floats(1e-2, 10.0))
def test_with_thresholds_and_cached_prompts(one, layout, bin_s):
    check(in_groups(one, *layout), bin_s=bin_s)


@common
@given(
    cases(tight=True, windows=1, threshold=True, cached=True),
    layouts,
    st.tuples(st.integers(-1, 1), st.integers(-1, 1), st.integers(-1, 1)),
)
def test_by_priority(one, layout, priority):
    one = in_groups(one, *layout)
    one = replace(one, settings=replace(one.settings, scheduling_policy="priority"))
    classes = [WorkloadClass(name=f"class{c}", targets=(), priority=priority[c]) for c in range(3)]
    ranked = type("Ranked", (ByPriority,), {"priority": priority})
    check(one, engine=ranked, classes=classes)


def grouped(seed, **kind):
    rng = np.random.default_rng(seed + 7)
    one = case(
        seed,
        tight=True,
        admission=("full_sequence", "chunk")[seed % 4 == 3],
        windows=1 + seed % 2,
        asynchronous=seed % 3 > 0,
        cached=seed % 5 == 0,
        **kind,
    )
    return in_groups(
        one,
        int(rng.integers(0, 3)),
        [int(n) for n in rng.integers(1, 6, 2)],
        int(rng.integers(0, 60)),
        state=int(rng.integers(0, 2)),
    )


@pytest.mark.parametrize("seed", range(60))
def test_long_cases(seed):
    check(grouped(seed, most=200, threshold=seed % 5 == 0))


def test_the_cases_preempt_and_wait_for_blocks():
    """The equality tests mean something only if blocks run short and come back in them."""
    preempted = shared = 0
    for seed in range(30):
        one = grouped(seed, most=100)
        done, _ = check(one)
        preempted += done.totals.preemptions
        layout = one.settings.kv_layout
        kept = replace(layout, full_tables=layout.tables, windows=())
        whole = replace(one, settings=replace(one.settings, kv_layout=kept))
        other = replay(whole.trace, whole.cost, whole.settings, use_cached_tokens=True)
        shared += not np.array_equal(other.e2e_s, done.e2e_s)
    assert preempted > 100
    assert shared > 20  # as many tables without windows behave otherwise


class EarlyRelease(Engine):
    """A wrong engine: what is in flight counts as done."""

    def step(self, batch):
        super().step(batch)
        for job, _ in batch:
            job.in_flight = 0


def test_a_wrong_release_is_told_apart():
    different = 0
    for seed in range(30):
        one, wrong = grouped(seed, most=60), grouped(seed, most=60)
        if not one.cost.async_scheduling:
            continue
        engine = type("Early", (EarlyRelease, windowed(Engine)), {})
        simulate(wrong.jobs, wrong.settings, wrong.cost, engine)
        done = replay(one.trace, one.cost, one.settings, use_cached_tokens=True)
        ends = np.array([job.token_s[-1] - job.arrival_s for job in wrong.jobs])
        different += not np.allclose(done.e2e_s, ends, rtol=1e-6)
    assert different >= 3


def test_one_layout_without_windows_is_the_plain_account():
    """One table that keeps everything: the same replay as without a layout, to the last bit."""
    for seed in range(6):
        one = case(seed, tight=True, most=80, threshold=seed % 2 == 0, asynchronous=seed % 3 == 0)
        layout = KvLayout(
            num_blocks=one.settings.num_blocks,
            block_tokens=one.settings.block_size,
            full_tables=1,
            windows=(),
            in_flight_tokens=1,
        )
        plain = replay(one.trace, one.cost, one.settings)
        other = replay(one.trace, one.cost, replace(one.settings, kv_layout=layout))
        np.testing.assert_array_equal(plain.e2e_s, other.e2e_s)
        assert plain.totals == other.totals


def lone(layout, prompt, output, **changes):
    """One request, steps of 1 s, blocks of 4 tokens, 8 tokens a step."""
    chosen = SchedulerSettings(
        max_num_batched_tokens=8,
        max_num_seqs=4,
        max_model_len=1000,
        num_blocks=1000,
        block_size=4,
        kv_layout=layout,
        **changes,
    )
    cost = replace(plain_cost(1.0, 8, 4), window_tokens=np.array([6]))
    return replay(requests_of([0.0], [prompt], [output]), cost, chosen, debug=True)


def test_a_window_holds_its_own_and_what_is_in_flight():
    """A prompt of 40 tokens in chunks of 8, a window of 6, blocks of 4.

    Once 8k tokens are done, those from 8k − 5 on are seen: ⌊(8k − 5)/4⌋ = 2k − 2 blocks are given
    back before 2 are taken. The table goes 2, 4, 4, 4, 4, so with one that keeps everything the
    request holds 4, 8, 10, 12, 14 blocks, at most 14. At admission the table is counted with
    ⌈(5 + 8)/4⌉ + 1 = 5 blocks: 15 in all.
    """
    tables = (WindowTables(window_tokens=6, tables=1),)
    layout = KvLayout(
        num_blocks=15, block_tokens=4, full_tables=1, windows=tables, in_flight_tokens=8
    )
    done = lone(layout, 40, 1)
    assert done.e2e_s.tolist() == [5.0]
    assert done.totals.kv_use_max == pytest.approx(14 / 15)
    assert lone(replace(layout, num_blocks=14), 40, 1).rejection_counts() == {
        "prompt + output exceed the KV cache": 1
    }


def test_a_pool_of_windows_alone_carries_requests_of_any_length():
    """Every layer attends 6 tokens: 300 tokens of output need no more blocks than 30 do."""
    tables = (WindowTables(window_tokens=6, tables=1),)
    layout = KvLayout(
        num_blocks=5, block_tokens=4, full_tables=0, windows=tables, in_flight_tokens=8
    )
    done = lone(layout, 20, 300)
    assert done.totals.preemptions == 0
    assert done.e2e_s.tolist() == [302.0]


@pytest.mark.parametrize("seed", range(8))
def test_routed_replicas_have_a_pool_each(seed):
    one = grouped(4 * seed, most=80)
    many = replay(one.trace, one.cost, one.settings, replicas=3, routing="least_loaded", debug=True)
    for r in range(3):
        mine = many.replica == r
        if not mine.any():
            continue
        jobs = [replace(job, cached=0) for job, own in zip(one.jobs, mine, strict=True) if own]
        engine = simulate(jobs, one.settings, one.cost, windowed())
        leave_out_ties(engine.margin_s)
        ends = np.array([job.token_s[-1] - job.arrival_s for job in jobs])
        np.testing.assert_allclose(many.e2e_s[mine], ends, rtol=1e-9, atol=1e-12)
