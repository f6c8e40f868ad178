"""Small random cases for the equality tests: settings, physics and requests from one seed."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
from reference_vllm_v1 import Job

from planner.ingest.requests import Requests
from planner.perf.step_cost import StepCost
from planner.sim.replay import replay
from planner.sim.settings import SchedulerSettings


def step_cost(rng, mnbt, seqs, *, ideal=False, windows=0, asynchronous=False, host=True):
    """A StepCost with every coefficient at work, or the ideal fused max with its kinks."""
    n = np.arange(mnbt + 1)
    groups = 1 + windows
    window = np.array([0, *(int(rng.integers(2, 60)) for _ in range(windows))])
    pad = np.minimum(-(-n // 4) * 4, mnbt) if rng.random() < 0.7 else n
    zero = ideal
    weights = 7e-3 * rng.uniform(0.5, 2)
    return StepCost(
        max_num_batched_tokens=mnbt,
        max_num_seqs=seqs,
        tokens_per_decode=1,
        compute_s=n * weights / rng.uniform(1, 2 * mnbt) if ideal else np.zeros(mnbt + 1),
        memory_s=np.full(mnbt + 1, weights)
        if ideal
        else weights + n * rng.uniform(0, 2e-4) + np.sqrt(n) * 1e-5,
        decode_padding=n if ideal else pad,
        row_s=np.zeros(seqs + 1) if zero else np.arange(seqs + 1) * rng.uniform(0, 1e-4),
        kv_s=rng.uniform(1e-6, 2e-4, groups) * (1 if rng.random() < 0.9 else 0),
        window_tokens=window,
        seq_s=0.0 if zero else rng.uniform(-1e-5, 1e-4),
        pair_s=np.zeros(groups) if zero else rng.uniform(0, 1e-6, groups),
        prefix_s=0.0 if zero else rng.uniform(0, 1e-6),
        decode_fixed_s=0.0 if zero else rng.uniform(0, 1e-3),
        prefill_fixed_s=0.0 if zero else rng.uniform(0, 1e-3),
        host_step_s=rng.uniform(0, 1e-2) if host and not zero else 0.0,
        host_seq_s=rng.uniform(0, 5e-4) if host and not zero else 0.0,
        host_prefill_s=rng.uniform(0, 1e-3) if host and not zero else 0.0,
        async_scheduling=asynchronous,
        launch_s=0.0 if zero else 0.7 * weights,
        frontend_s=0.0 if zero else weights / 5,
        frontend_token_s=0.0 if zero else weights / 2000,
    )


def settings(rng, *, tight, admission, threshold=0):
    """Scheduler settings; `tight` leaves few blocks, so that requests are preempted."""
    seqs = int(rng.integers(1, 12))
    mnbt = int(rng.integers(seqs, 3 * seqs + 40))
    block = int(rng.choice([1, 2, 3, 4, 8, 16]))
    longest = 120
    need = -(-longest // block)
    blocks = need + int(rng.integers(0, need)) if tight else need * (seqs + 2)
    return SchedulerSettings(
        max_num_batched_tokens=mnbt,
        max_num_seqs=seqs,
        max_model_len=longest,
        num_blocks=blocks,
        block_size=block,
        admission=admission,
        long_prefill_token_threshold=threshold,
    )


def jobs(rng, count, *, classes=1, cached=False, gap_s=0.05):
    """Requests at irregular times, some at the same instant, prompt + output at most 120."""
    gaps = rng.exponential(gap_s, count) * (rng.random(count) < 0.8)
    made = []
    for arrival_s in np.cumsum(gaps):
        prompt = int(rng.integers(1, 80))
        made.append(
            Job(
                arrival_s=float(arrival_s),
                prompt=prompt,
                output=int(rng.integers(1, 120 - prompt + 1)) if rng.random() < 0.8 else 1,
                class_id=int(rng.integers(0, classes)),
                cached=int(rng.integers(0, prompt + 1)) if cached and rng.random() < 0.5 else 0,
            )
        )
    return made


def trace(made, classes=1):
    """The jobs as the arrays that `replay` takes."""
    n = len(made)
    return Requests(
        arrival_s=np.array([job.arrival_s for job in made]),
        input_tokens=np.array([job.prompt for job in made], np.int64),
        output_tokens=np.array([job.output for job in made], np.int64),
        class_id=np.array([job.class_id for job in made], np.int64),
        class_names=tuple(f"class{c}" for c in range(classes)),
        cached_tokens=np.array([job.cached for job in made], np.int64),
        session_id=np.full(n, -1, np.int64),
    )


@dataclass(frozen=True)
class Case:
    settings: SchedulerSettings
    cost: StepCost
    jobs: list
    classes: int = 3

    @property
    def trace(self):
        return trace(self.jobs, self.classes)


def case(
    seed,
    *,
    tight=False,
    admission="full_sequence",
    threshold=False,
    ideal=False,
    windows=0,
    asynchronous=False,
    cached=False,
    most=40,
):
    """One case of a kind; the seed decides everything else."""
    rng = np.random.default_rng(seed)
    chosen = settings(
        rng,
        tight=tight,
        admission=admission,
        threshold=int(rng.integers(1, 30)) if threshold else 0,
    )
    cost = step_cost(
        rng,
        chosen.max_num_batched_tokens,
        chosen.max_num_seqs,
        ideal=ideal,
        windows=windows,
        asynchronous=asynchronous,
    )
    made = jobs(
        rng, int(rng.integers(1, most)), classes=3, cached=cached, gap_s=10 ** rng.uniform(-3, 0)
    )
    for job in made:  # the engine reuses whole blocks
        job.cached = job.cached // chosen.block_size * chosen.block_size
    return Case(settings=chosen, cost=cost, jobs=made)


def results(made):
    """(first token, finish, first scheduling, preemptions) of finished jobs."""
    return (
        np.array([job.token_s[0] for job in made]),
        np.array([job.token_s[-1] for job in made]),
        np.array([job.scheduled_s for job in made]),
        np.array([job.preemptions for job in made]),
    )


def assert_same(replayed, made):
    """Every request's times to 1e-9 relative (sums and closed forms round differently)."""
    first, last, scheduled, preemptions = results(made)
    arrival = np.array([job.arrival_s for job in made])
    near = {"rtol": 1e-9, "atol": 1e-12 * max(1.0, last.max())}
    np.testing.assert_array_equal(replayed.preemptions, preemptions)
    np.testing.assert_allclose(replayed.ttft_s, first - arrival, **near)
    np.testing.assert_allclose(replayed.e2e_s, last - arrival, **near)
    np.testing.assert_allclose(replayed.queue_s, scheduled - arrival, **near)


def plain_cost(step_s, budget=4096, seqs=64):
    """Every step takes `step_s`, whatever it carries; synchronous."""
    n = np.arange(budget + 1)
    return StepCost(
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        tokens_per_decode=1,
        compute_s=np.full(budget + 1, step_s),
        memory_s=np.zeros(budget + 1),
        decode_padding=n,
        row_s=np.zeros(seqs + 1),
        kv_s=np.zeros(1),
        window_tokens=np.zeros(1, np.int64),
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


def peak_bytes_a_request(requests, *arguments, **how):
    """Peak memory of a replay beyond its input, in bytes a request, numpy's buffers included."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        replay(requests, *arguments, **how)
        return (tracemalloc.get_traced_memory()[1] - before) / len(requests)
    finally:
        tracemalloc.stop()


def requests_of(arrival_s, input_tokens, output_tokens, class_id=None, names=("all",)):
    """Requests without sessions, ids or observations."""
    n = len(arrival_s)
    return Requests(
        arrival_s=np.asarray(arrival_s, np.float64),
        input_tokens=np.asarray(input_tokens, np.int64),
        output_tokens=np.asarray(output_tokens, np.int64),
        class_id=np.zeros(n, np.int64) if class_id is None else np.asarray(class_id, np.int64),
        class_names=names,
        cached_tokens=np.zeros(n, np.int64),
        session_id=np.full(n, -1, np.int64),
    )
