"""The event kernel against the step-by-step reference: every request, every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, currently_in_test_context, given, reject, settings
from hypothesis import strategies as st
from reference_vllm_v0 import WholePrompts
from reference_vllm_v1 import Engine, Job, simulate, simulate_least_loaded
from sim_cases import Case, assert_same, case, results, step_cost, trace

from planner.sim.kernel.meter import gap_bin
from planner.sim.metrics import gap_percentile
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings

# Closer to a step boundary, rounding may decide which step sees an arrival; ties have tests below.
MARGIN_S = 1e-7


def leave_out_ties(margin_s):
    """Reject a drawn case, or skip a numbered one, that rounding may decide."""
    if margin_s >= MARGIN_S:
        return
    if currently_in_test_context():
        reject()
    pytest.skip(f"an arrival lies {margin_s:.1g} s from the boundary of a step")


common = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@st.composite
def cases(draw, *, tight, ideal=False, windows=0, threshold=False, cached=False):
    """Settings, physics and a trace; requests are drawn one by one, so failures shrink."""
    block = draw(st.sampled_from([1, 2, 3, 4, 8, 16]))
    seqs = draw(st.integers(1, 12))
    longest = 100
    need = -(-longest // block)
    chosen = SchedulerSettings(
        max_num_batched_tokens=seqs + draw(st.integers(0, 60)),
        max_num_seqs=seqs,
        max_model_len=longest,
        num_blocks=need + draw(st.integers(0, need)) if tight else need * (seqs + 2),
        block_size=block,
        admission=draw(st.sampled_from(["chunk", "full_sequence"])),
        long_prefill_token_threshold=draw(st.integers(1, 30)) if threshold else 0,
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    cost = step_cost(
        rng,
        chosen.max_num_batched_tokens,
        seqs,
        ideal=ideal,
        windows=windows,
        asynchronous=draw(st.booleans()),
    )
    lengths = st.tuples(st.integers(1, 70), st.integers(1, 30))
    gaps = st.one_of(st.just(0.0), st.floats(1e-4, 0.5))
    rows = draw(st.lists(st.tuples(gaps, lengths, st.integers(0, 2)), min_size=1, max_size=25))
    made, now = [], 0.0
    for gap_s, (prompt, output), class_id in rows:
        now += gap_s
        hit = draw(st.integers(0, prompt)) // block * block if cached else 0
        made.append(Job(arrival_s=now, prompt=prompt, output=output, class_id=class_id, cached=hit))
    return Case(settings=chosen, cost=cost, jobs=made)


def check(one: Case, bin_s=60.0, reference=Engine):
    engine = simulate(one.jobs, one.settings, one.cost, reference)
    leave_out_ties(engine.margin_s)
    done = replay(
        one.trace, one.cost, one.settings, use_cached_tokens=True, debug=True, bin_s=bin_s
    )
    assert_same(done, one.jobs)
    assert done.totals.steps == engine.steps
    assert done.totals.preemptions == engine.preemptions
    assert done.totals.recomputed_tokens == engine.recomputed
    return done, engine


@common
@given(cases(tight=False))
def test_every_time_equals_the_stepped_scheduler(one):
    check(one)


@common
@given(cases(tight=True))
def test_preemption_takes_the_same_victims(one):
    check(one)


@common
@given(cases(tight=True, ideal=True))
def test_the_ideal_roofline_with_its_kinks(one):
    check(one)


@common
@given(cases(tight=True, windows=2))
def test_contexts_that_outgrow_their_attention_windows(one):
    check(one)


@common
@given(cases(tight=True, threshold=True))
def test_long_prefill_token_threshold_with_several_partial_prompts(one):
    check(one)


@common
@given(cases(tight=True, threshold=True, windows=1, cached=True))
def test_everything_at_once(one):
    check(one)


@common
@given(cases(tight=True), st.floats(1e-3, 0.3))
def test_where_time_bins_end_changes_nothing(one, bin_s):
    check(one, bin_s=bin_s)


@pytest.mark.parametrize("seed", range(40))
def test_long_mixed_cases(seed):
    rng = np.random.default_rng(seed + 10**6)
    one = case(
        seed,
        tight=seed % 3 > 0,
        admission=("chunk", "full_sequence")[seed % 2],
        threshold=seed % 5 == 0,
        ideal=seed % 4 == 0,
        windows=int(rng.integers(0, 3)),
        asynchronous=seed % 7 > 3,
        most=200,
    )
    check(one)


def unchunked(one: Case) -> Case:
    """The same case under vLLM V0's policy, with a watermark of one block."""
    budget = max(one.settings.max_num_batched_tokens, one.settings.max_model_len)
    cost = step_cost(
        np.random.default_rng(len(one.jobs)),
        budget,
        one.settings.max_num_seqs,
        asynchronous=one.cost.async_scheduling,
    )
    chosen = replace(
        one.settings,
        policy="vllm_v0",
        max_num_batched_tokens=budget,
        num_blocks=one.settings.num_blocks + 1,
        watermark_blocks=1,
    )
    return replace(one, settings=chosen, cost=cost)


@common
@given(cases(tight=True, cached=True), st.floats(1e-2, 10.0))
def test_whole_prompts_first(one, bin_s):
    check(unchunked(one), bin_s=bin_s, reference=WholePrompts)


@pytest.mark.parametrize("seed", range(12))
def test_gaps_hold_the_stalls_of_whole_prompts(seed):
    one = unchunked(case(seed, tight=seed % 2 == 1, asynchronous=seed % 3 == 1, most=80))
    done, _ = check(one, reference=WholePrompts)
    gaps = np.sort(np.concatenate([np.diff(job.token_s) for job in one.jobs] or [[]]))
    assert done.gaps.sum() == len(gaps)
    for share in (0.5, 0.9, 1.0):
        at = int(np.ceil(share * len(gaps))) - 1
        found = gap_percentile(done.gaps.sum(axis=(0, 1)), 100 * share)
        assert gaps[at] * (1 - 1e-9) <= found <= gaps[at] * 1.02  # a bin is at most 1.6 % wide


def test_the_cases_preempt_and_starve():
    """The equality tests above mean something only if hard things happen in them."""
    preempted = 0
    for seed in range(30):
        one = case(seed, tight=True, admission="chunk", threshold=True)
        preempted += simulate(one.jobs, one.settings, one.cost).preemptions
    assert preempted > 100


class FirstVictim(Engine):
    """A wrong engine: it preempts the request admitted first."""

    def preempt_last(self):
        self.running.append(self.running.pop(0))
        return super().preempt_last()


class NoLag(Engine):
    """A wrong engine: asynchronous, yet it notices arrivals at once."""

    def step(self, batch):
        super().step(batch)
        self.visible = self.now


@pytest.mark.parametrize(
    ("engine", "kind"),
    [(FirstVictim, {"tight": True}), (NoLag, {"asynchronous": True})],
)
def test_a_wrong_scheduler_is_told_apart(engine, kind):
    different = 0
    for seed in range(10):
        one, wrong = case(seed, most=30, **kind), case(seed, most=30, **kind)
        simulate(wrong.jobs, wrong.settings, wrong.cost, engine)
        done = replay(one.trace, one.cost, one.settings)
        arrival = np.array([job.arrival_s for job in wrong.jobs])
        different += not np.allclose(done.e2e_s, results(wrong.jobs)[1] - arrival, rtol=1e-6)
    assert different >= 5


@pytest.mark.parametrize("seed", range(12))
def test_gaps_are_pooled_by_class(seed):
    one = case(seed, tight=seed % 2 == 1, threshold=seed % 3 == 2, most=60)
    done, _ = check(one)
    gaps = np.zeros_like(done.gaps)
    for job in one.jobs:
        for gap_s in np.diff(job.token_s):
            gaps[0, job.class_id, gap_bin(gap_s)] += 1
    np.testing.assert_array_equal(done.gaps.sum(axis=2), gaps.sum(axis=2))
    # A gap on a bin's edge may round to the neighbour: only a few, and only by one bin.
    moved = np.abs(np.cumsum(done.gaps - gaps, axis=2)).sum()
    assert moved <= 2 + 0.01 * gaps.sum()


@pytest.mark.parametrize("seed", range(25))
def test_least_loaded_routing(seed):
    one = case(seed, tight=seed % 2 == 1, asynchronous=seed % 3 == 1, most=80)
    replicas = 2 + seed % 3
    engines, choices = simulate_least_loaded(one.jobs, one.settings, one.cost, replicas)
    assert min(engine.margin_s for engine in engines) >= MARGIN_S
    done = replay(
        one.trace,
        one.cost,
        one.settings,
        replicas=replicas,
        routing="least_loaded",
        debug=True,
        bin_s=0.7,
    )
    assert done.replica.tolist() == choices
    assert_same(done, one.jobs)
    assert done.totals.steps == sum(engine.steps for engine in engines)


def dyadic_cost(mnbt, seqs, *, asynchronous, slope):
    """Step times that are multiples of 2^-12 s: sums of them are exact in binary."""
    unit = 2.0**-12
    cost = step_cost(np.random.default_rng(0), mnbt, seqs, asynchronous=asynchronous)
    n = np.arange(mnbt + 1)
    exact = {
        "memory_s": (16.0 + n // 4) * unit,
        "decode_padding": np.minimum(-(-n // 4) * 4, mnbt),
        "row_s": np.arange(seqs + 1) * unit,
        "kv_s": np.array([slope * unit / 16]),
        "pair_s": np.zeros(1),
    }
    plain = dict.fromkeys(
        (
            "seq_s",
            "prefix_s",
            "decode_fixed_s",
            "prefill_fixed_s",
            "launch_s",
            "host_seq_s",
            "frontend_token_s",
        ),
        0.0,
    )
    return replace(
        cost, **exact, **plain, host_step_s=2 * unit, host_prefill_s=unit, frontend_s=3 * unit
    )


@common
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 20)),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
    st.integers(0, 2),
    st.integers(8, 40),
)
def test_arrivals_exactly_on_step_boundaries(rows, asynchronous, slope, blocks):
    """With exact arithmetic there is no margin to keep: arrivals may fall on any boundary."""
    mnbt, seqs = 24, 6
    chosen = SchedulerSettings(
        max_num_batched_tokens=mnbt,
        max_num_seqs=seqs,
        max_model_len=64,
        num_blocks=max(blocks, 16),
        block_size=4,
    )
    cost = dyadic_cost(mnbt, seqs, asynchronous=asynchronous, slope=slope)
    made, now = [], 0.0
    for ticks, prompt, output in rows:
        now += ticks * 2.0**-12 * 4
        made.append(Job(arrival_s=now, prompt=prompt, output=output))
    simulate(made, chosen, cost)
    done = replay(trace(made), cost, chosen, debug=True)
    first, last, _, preemptions = results(made)
    arrival = np.array([job.arrival_s for job in made])
    assert done.ttft_s.tolist() == (first - arrival).tolist()
    assert done.e2e_s.tolist() == (last - arrival).tolist()
    assert done.preemptions.tolist() == preemptions.tolist()
