"""Closed forms and other people's answers: queues, the theory's table, Little's law."""

from __future__ import annotations

from dataclasses import replace

import ciw
import numpy as np
import pytest
from sim_cases import plain_cost, requests_of

from planner.perf.step_cost import StepCost
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings


def one_at_a_time(seqs=1):
    return SchedulerSettings(
        max_num_batched_tokens=4096, max_num_seqs=seqs, max_model_len=4096, num_blocks=10_000
    )


def lindley(arrival_s, service_s):
    """Waits of a single first-come-first-served server: W' = max(0, W + S - A)."""
    wait, waits = 0.0, []
    for gap, before in zip(np.diff(arrival_s), service_s[:-1], strict=True):
        waits.append(wait)
        wait = max(0.0, wait + before - gap)
    return np.array([*waits, wait])


def test_one_slot_is_a_single_server_queue():
    """Every wait equals Lindley's recursion: one request at a time, any service law."""
    rng = np.random.default_rng(1)
    n = 4000
    arrival = np.cumsum(rng.exponential(0.1, n))
    output = rng.integers(1, 20, n)
    step = 2.0**-7
    done = replay(requests_of(arrival, np.full(n, 10), output), plain_cost(step), one_at_a_time())
    np.testing.assert_allclose(done.queue_s, lindley(arrival, output * step), atol=1e-9)


def test_md1_mean_wait():
    """Pollaczek-Khinchine for a fixed service time: ρd/(2(1 - ρ)).

    2 million requests: the standard error of the mean wait is about 0.5 % at ρ = 0.7 (waits are
    correlated over some 1/(1 - ρ)² services), so 3 % is six of them.
    """
    rng = np.random.default_rng(2)
    n, service, rho = 2_000_000, 0.008, 0.7
    arrival = np.cumsum(rng.exponential(service / rho, n))
    done = replay(
        requests_of(arrival, np.full(n, 10), np.ones(n)), plain_cost(service), one_at_a_time()
    )
    expected = rho * service / (2 * (1 - rho))
    assert done.queue_s.mean() == pytest.approx(expected, rel=0.03)


def test_several_slots_against_ciw():
    """c slots with a batch-independent step are c servers; ciw runs the same customers.

    Service is slotted: a request that finds a slot waits for the step boundary. That is at most
    one step, and one more for each request it follows in its slot within a busy period.
    """
    rng = np.random.default_rng(3)
    n, slots, step = 600, 3, 0.001
    gaps = rng.exponential(0.05, n)
    output = rng.geometric(1 / 120, n)
    arrival = np.cumsum(gaps)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([*gaps.tolist(), 1e9])],
        service_distributions=[ciw.dists.Sequential((output * step).tolist())],
        number_of_servers=[slots],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(n, method="Finish")
    records = sorted(simulation.get_all_records(), key=lambda record: record.arrival_date)
    expected = np.array([record.waiting_time for record in records])
    done = replay(
        requests_of(arrival, np.full(n, 1), output), plain_cost(step), one_at_a_time(slots)
    )
    assert expected.mean() > 5 * step
    assert done.queue_s.mean() == pytest.approx(expected.mean(), abs=2 * step)


P, FLOPS, BANDWIDTH, KV = 7e9, 300e12, 2e12, 524_288.0


def theory_cost(chunk, *, frozen):
    """The theory's roofline: one max of 2P·n/F and (2P + D·S·k)/W, S frozen at 2048 or growing."""
    budget = chunk + 32
    n = np.arange(budget + 1)
    return StepCost(
        max_num_batched_tokens=budget,
        max_num_seqs=64,
        tokens_per_decode=1,
        compute_s=2 * P * n / FLOPS,
        memory_s=np.full(budget + 1, 2 * P / BANDWIDTH),
        decode_padding=n,
        row_s=np.zeros(65),
        kv_s=np.array([KV / BANDWIDTH]),
        # A window of 2048 holds every context that has passed it at 2048: S frozen.
        window_tokens=np.array([2048 if frozen else 0]),
        seq_s=0.0,
        pair_s=np.zeros(1),
        prefix_s=0.0,
        decode_fixed_s=0.0,
        prefill_fixed_s=0.0,
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=False,
    )


def long_prompt_among_decodes(chunk, *, frozen):
    """32 decodes of about 2048 tokens, then a prompt of 4096; return the time that takes.

    The 32 come from a prefix cache but for one token each, so they all start in one step.
    """
    settings = SchedulerSettings(
        max_num_batched_tokens=chunk + 32,
        max_num_seqs=64,
        max_model_len=16_384,
        num_blocks=1_000_000,
        block_size=1,
    )
    context = 2048 if frozen else 2048 - 4096 // chunk // 2
    prompts = np.full(33, context)
    prompts[32] = 4096
    outputs = np.full(33, 200)
    outputs[32] = 1
    arrival = np.zeros(33)
    arrival[32] = 1e-4  # while the first step runs
    trace = requests_of(arrival, prompts, outputs)
    trace = replace(trace, cached_tokens=np.where(np.arange(33) < 32, context - 1, 0))
    done = replay(trace, theory_cost(chunk, frozen=frozen), settings, use_cached_tokens=True)
    return done.ttft_s[32] - done.queue_s[32]


# theory.md §3: chunk, τ in ms, steps, TTFT in ms
TABLE = [(128, 24.18, 32, 774), (486, 24.18, 9, 218), (2048, 97.07, 2, 194), (4096, 192.6, 1, 193)]


@pytest.mark.parametrize(("chunk", "tau_ms", "steps", "ttft_ms"), TABLE)
def test_theory_table_with_frozen_context(chunk, tau_ms, steps, ttft_ms):
    """Exact up to the last chunk being shorter, which matters only where compute binds."""
    took = long_prompt_among_decodes(chunk, frozen=True)
    floor = (2 * P + 32 * 2048 * KV) / BANDWIDTH
    sizes = [chunk] * (4096 // chunk) + ([4096 % chunk] if 4096 % chunk else [])
    exact = sum(max(floor, 2 * P * (c + 32) / FLOPS) for c in sizes)
    assert len(sizes) == steps
    assert took == pytest.approx(exact, rel=1e-9)
    assert took * 1e3 == pytest.approx(ttft_ms, abs=0.6)
    assert max(floor, 2 * P * (chunk + 32) / FLOPS) * 1e3 == pytest.approx(tau_ms, rel=2e-3)


@pytest.mark.parametrize(("chunk", "tau_ms", "steps", "ttft_ms"), TABLE)
def test_theory_table_with_growing_context(chunk, tau_ms, steps, ttft_ms):
    """Within 1 %: contexts grow by at most 32 tokens of 2048 while the prompt is computed."""
    took = long_prompt_among_decodes(chunk, frozen=False)
    assert took * 1e3 == pytest.approx(ttft_ms, rel=0.01)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_littles_law(asynchronous):
    """Time integrals measured over time equal sums over requests."""
    rng = np.random.default_rng(5)
    n = 3000
    trace = requests_of(
        np.cumsum(rng.exponential(0.02, n)), rng.integers(1, 400, n), rng.integers(1, 60, n)
    )
    cost = replace(plain_cost(0.01), async_scheduling=asynchronous)
    done = replay(trace, cost, one_at_a_time(24), bin_s=3.0)
    held = float((done.series.running * (done.series.end_s - done.series.start_s)).sum())
    spent = float((done.e2e_s - done.queue_s).sum())
    if asynchronous:  # a finished request keeps its place until the next step is scheduled
        assert spent < held < spent + 0.01 * n * 1.01
    else:
        assert held == pytest.approx(spent, rel=1e-9)
    tokens = float(
        (done.series.decode_tokens_per_s * (done.series.end_s - done.series.start_s)).sum()
    )
    assert tokens + n == pytest.approx(trace.output_tokens.sum(), rel=1e-9)
    prompts = float(
        (done.series.prefill_tokens_per_s * (done.series.end_s - done.series.start_s)).sum()
    )
    assert prompts == pytest.approx(trace.input_tokens.sum(), rel=1e-9)
    assert done.totals.queue_mean == pytest.approx(done.queue_s.sum() / done.totals.span_s)
