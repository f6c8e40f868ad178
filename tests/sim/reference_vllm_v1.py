"""vLLM V1 stepped one step at a time, in ordinary Python, from the engine's documented semantics.

Nothing here is shared with `planner.sim`: objects, a deque and a list, every token of every request
by itself. It exists to be obviously right; tests hold the event kernel against it.

One step: take the running requests in admission order, then (unless one was preempted) admit from
the head of the queue; run; every request whose computed tokens have caught up gives out a token.
With asynchronous scheduling step k + 1 is decided when step k starts: arrivals during step k and
requests finishing in it are noticed one step late.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from dataclasses import dataclass, field


@dataclass(eq=False)
class Job:
    """One request and everything that happens to it."""

    arrival_s: float
    prompt: int
    output: int
    class_id: int = 0
    cached: int = 0
    computed: int = 0
    given: int = 0
    blocks: int = 0
    preemptions: int = 0
    scheduled_s: float = math.nan
    in_decode: bool = False  # its prompt (or recomputed context) is computed
    done: bool = False  # its last token is out
    done_s: float = math.nan  # when, as the engine sees it
    token_s: list[float] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.prompt + self.given


def step_seconds(cost, decodes, chunks, finishing):
    """The StepCost docstring, literally. `chunks` are (past, tokens) of prefill."""
    prefill_tokens = sum(n for _, n in chunks)
    n = len(decodes) * cost.tokens_per_decode + prefill_tokens
    if not chunks:
        n = int(cost.decode_padding[n])
    reads = 0.0
    pairs = 0.0
    for g, window in enumerate(cost.window_tokens):
        limit = window or 10**12
        reads += cost.kv_s[g] * sum(min(job.tokens, limit) for job in decodes)
        pairs += cost.pair_s[g] * sum(
            min(past + q, limit) for past, tokens in chunks for q in range(1, tokens + 1)
        )
    rows = len(decodes) + finishing
    gpu = max(cost.compute_s[n], cost.memory_s[n] + reads + cost.seq_s * len(decodes))
    if chunks:
        gpu = math.sqrt(gpu**2 + cost.launch_s**2)
    gpu += cost.row_s[rows] + pairs + cost.prefix_s * sum(past for past, _ in chunks)
    host = cost.host_step_s + cost.host_seq_s * rows
    if decodes:
        gpu += cost.decode_fixed_s
    if chunks:
        gpu += cost.prefill_fixed_s
        host += cost.host_prefill_s
    return max(gpu, host) if cost.async_scheduling else gpu + host


class Engine:
    """One replica."""

    def __init__(self, jobs, settings, cost):
        self.settings, self.cost = settings, cost
        self.future = deque(jobs)
        self.arrivals = [job.arrival_s for job in jobs]
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.free = settings.num_blocks
        self.unnoticed: list[Job] = []
        self.preempted_now = False
        self.preemptions = 0
        self.recomputed = 0
        self.steps = 0
        self.now = self.visible = -math.inf
        self.margin_s = math.inf  # smallest distance of an arrival to a step boundary

    def blocks(self, tokens):
        return -(-tokens // self.settings.block_size)

    def grow(self, job, tokens):
        """Give `job` the blocks for `tokens`; False if they are not free."""
        extra = self.blocks(tokens) - job.blocks
        if extra > self.free:
            return False
        self.free -= extra
        job.blocks += extra
        return True

    def release(self, job):
        self.free += job.blocks
        job.blocks = 0

    def preempt_last(self):
        victim = self.running.pop()
        victim.preemptions += 1
        self.preemptions += 1
        self.preempted_now = True
        self.release(victim)
        if victim.done:
            self.unnoticed.remove(victim)
        else:
            self.recomputed += max(victim.computed - victim.cached, 0)
            victim.computed = 0
            victim.in_decode = False
            self.waiting.appendleft(victim)
        return victim

    def chunk_cap(self):
        threshold = self.settings.long_prefill_token_threshold
        if threshold == 0:
            return 10**12
        current = self.settings.admission == "full_sequence"
        if current and len(self.running) + len(self.waiting) < 2:
            return 10**12
        return threshold

    def schedule(self, now):
        """Return [(job, tokens)] of the next step."""
        budget = self.settings.max_num_batched_tokens
        cap = self.chunk_cap()
        batch = []
        self.preempted_now = False
        i = 0
        while i < len(self.running) and budget > 0:
            job = self.running[i]
            i += 1
            if job.done:
                continue
            n = min(job.tokens - job.computed, cap, budget)
            assert n > 0
            survived = True
            while not self.grow(job, job.computed + n):
                if self.preempt_last() is job:
                    survived = False
                    break
            if not survived:
                break
            batch.append((job, n))
            budget -= n
        if not self.preempted_now:
            self.admit(batch, budget, cap, now)
        return batch

    def admit(self, batch, budget, cap, now):
        while self.waiting and budget > 0 and len(self.running) < self.settings.max_num_seqs:
            job = self.waiting[0]
            hit = min(job.cached, job.tokens - 1)
            n = min(job.tokens - hit, cap, budget)
            if self.settings.admission == "full_sequence" and self.blocks(job.tokens) > self.free:
                break
            if not self.grow(job, hit + n):
                break
            self.waiting.popleft()
            self.running.append(job)
            job.computed = hit
            if math.isnan(job.scheduled_s):
                job.scheduled_s = now
            batch.append((job, n))
            budget -= n

    def seconds(self, batch):
        decodes = [job for job, _ in batch if job.in_decode]
        chunks = [(job.computed, n) for job, n in batch if not job.in_decode]
        finishing = sum(job.computed + n == job.tokens for job, n in batch if not job.in_decode)
        return step_seconds(self.cost, decodes, chunks, finishing)

    def notice(self):
        for job in self.unnoticed:
            self.running.remove(job)
            self.release(job)
        self.unnoticed = []

    def note_boundary(self, time_s, *, woke):
        at = bisect.bisect_left(self.arrivals, time_s)
        for arrival_s in self.arrivals[max(at - 1, 0) : at + 2]:
            if not (woke and arrival_s == time_s):
                self.margin_s = min(self.margin_s, abs(arrival_s - time_s))

    def arrive(self):
        while self.future and self.future[0].arrival_s <= self.visible:
            self.waiting.append(self.future.popleft())

    def idle(self):
        """Wait for an arrival."""

    def run(self, until_s=math.inf):
        """Run every step that starts before `until_s`."""
        while True:
            self.arrive()
            if not self.running and not self.waiting:
                if self.visible < self.now:
                    self.visible = self.now
                    continue
                if not self.future or self.future[0].arrival_s >= until_s:
                    return
                self.idle()
                self.now = self.visible = self.future[0].arrival_s
                self.note_boundary(self.now, woke=True)
                continue
            if self.now >= until_s:
                return
            batch = self.schedule(self.now)
            if batch:
                self.step(batch)
            else:  # nothing to do takes no time
                self.notice()
                self.visible = self.now

    def step(self, batch):
        start = self.now
        self.now = start + self.seconds(batch)
        self.steps += 1
        self.note_boundary(self.now, woke=False)
        self.notice()
        for job, n in batch:
            job.computed += n
            if job.computed == job.tokens:
                self.emit(job)
        if not self.cost.async_scheduling:
            self.notice()
        self.visible = start if self.cost.async_scheduling else self.now

    def emit(self, job):
        job.in_decode = True
        job.given += 1
        outside = self.cost.frontend_s + self.cost.frontend_token_s * job.prompt
        job.token_s.append(self.now + outside)  # as the client sees it
        if job.given == job.output:
            job.done = True
            job.done_s = self.now
            self.unnoticed.append(job)


def simulate(jobs, settings, cost, engine=Engine) -> Engine:
    """Run one replica to the end."""
    replica = engine(jobs, settings, cost)
    replica.run()
    return replica


def simulate_least_loaded(jobs, settings, cost, replicas):
    """Route each job to the replica with the fewest unfinished; return (replicas, choices)."""
    engines = [Engine([], settings, cost) for _ in range(replicas)]
    assigned = [[] for _ in engines]
    choices, last = [], replicas - 1
    for engine in engines:
        engine.arrivals = [job.arrival_s for job in jobs]
    for job in jobs:
        loads = []
        for engine, mine in zip(engines, assigned, strict=True):
            engine.run(job.arrival_s)
            loads.append(sum(not j.done or j.done_s > job.arrival_s for j in mine))
        # Ties go round, starting behind the last choice.
        order = [(last + 1 + k) % replicas for k in range(replicas)]
        last = min(order, key=lambda r: loads[r])
        choices.append(last)
        assigned[last].append(job)
        engines[last].future.append(job)
    for engine in engines:
        engine.run()
    return engines, choices
