"""vLLM V1 with batches in flight and drafts, in ordinary Python, from the engine's semantics.

Nothing here is shared with `planner.sim`; of the other reference only its `Job`.

The engine's loop: while fewer than `stages` batches are in flight, schedule another from what is
ready; when there is no place or nothing to schedule, wait for the oldest one and hand out its
tokens. `num_computed_tokens` grows when a chunk is scheduled, so a prompt's chunks follow each
other through the stages; a request whose token is under way is skipped. A preempted request keeps
the token that is under way and waits for it.

A decode schedules its next token and its drafts. Each verify pass accepts `accept(job, given)`
drafts, those left out by the budget excepted, and adds the model's own token. Asynchronous
scheduling (one stage): step k + 1 is decided when k starts, with all drafts of k counted as
accepted, and skips only requests that k finishes for certain.
"""

from __future__ import annotations

import bisect
import math
from collections import deque


class Batch:
    """What was sent off together."""

    def __init__(self, start_s):
        self.start_s, self.end_s = start_s, math.nan
        self.prompts = []  # (job, past, tokens, completes)
        self.decodes = []  # (job, tokens, ghost)


class PipelineEngine:
    """One replica."""

    def __init__(self, jobs, settings, cost, accept=None):
        self.settings, self.cost = settings, cost
        self.accept = accept or (lambda job, given: 0)
        self.drafts = cost.tokens_per_decode - 1
        self.lag = cost.async_scheduling and cost.stages == 1
        self.future = deque(jobs)
        self.arrivals = [job.arrival_s for job in jobs]
        self.waiting, self.running = deque(), []
        self.free = settings.num_blocks
        self.flights: deque[Batch] = deque()
        self.stage_free_s = [-math.inf] * cost.stages
        self.unnoticed = []
        self.steps = self.preemptions = self.recomputed = 0
        self.now = self.visible = -math.inf
        self.margin_s = math.inf
        self.under_way = set()  # jobs whose token is in flight
        self.rejected = {}  # job -> drafts of its last step that the scheduler takes for accepted
        self.ghosts = set()
        self.lost = {}  # job -> tokens computed before its preemption
        self.bubble_s = 0.0
        self.preempted_under_way = self.surprises = 0

    # Blocks

    def blocks(self, tokens):
        return -(-tokens // self.settings.block_size)

    def grow(self, job, tokens):
        extra = max(self.blocks(min(tokens, self.settings.max_model_len)) - job.blocks, 0)
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
        self.release(victim)
        if victim.done:
            self.unnoticed.remove(victim)
            return victim
        known = victim.computed + (victim.in_decode and victim in self.under_way)
        self.lost[victim] = known
        self.preempted_under_way += victim in self.under_way
        victim.computed, victim.in_decode = 0, False
        self.rejected.pop(victim, None)
        self.waiting.appendleft(victim)
        return victim

    # Scheduling

    def cap(self):
        threshold = self.settings.long_prefill_token_threshold
        alone = len(self.running) + len(self.waiting) < 2
        if not threshold or (self.settings.admission == "full_sequence" and alone):
            return 10**12
        return threshold

    def wanted(self, job):
        if job in self.under_way or (job.done and job not in self.ghosts):
            return 0
        if not job.in_decode:
            return job.tokens - job.computed
        believed = job.computed + self.rejected.get(job, 0)
        return min(1 + self.drafts, self.settings.max_model_len - 1 - believed)

    def schedule(self):
        batch = Batch(self.now)
        budget, cap = self.settings.max_num_batched_tokens, self.cap()
        most = self.settings.pp_max_micro_batch_size or 10**12
        before = self.preemptions
        i, alive = 0, True
        while i < len(self.running) and budget > 0 and alive and self.size(batch) < most:
            job = self.running[i]
            i += 1
            n = min(self.wanted(job), budget, cap)
            if n <= 0:
                continue
            reach = job.computed + self.rejected.get(job, 0) + n + self.drafts
            while alive and not self.grow(job, reach):
                alive = self.preempt_last() is not job
            if alive:
                self.take(batch, job, n)
                budget -= n
        self.rejected.clear()
        if self.preemptions == before:
            self.admit(batch, budget, cap, most)
        return batch

    def size(self, batch):
        return len(batch.prompts) + len(batch.decodes)

    def take(self, batch, job, n):
        if job.in_decode:
            batch.decodes.append((job, n, job in self.ghosts))
            if job not in self.ghosts:
                self.under_way.add(job)
            return
        completes = job.computed + n == job.tokens
        batch.prompts.append((job, job.computed, n, completes))
        job.computed += n
        if completes:
            self.under_way.add(job)

    def admit(self, batch, budget, cap, most):
        seats = self.settings.max_num_seqs
        while self.waiting and budget > 0 and len(self.running) < seats and self.size(batch) < most:
            job = self.waiting[0]
            if job in self.under_way:
                return
            hit = min(job.cached, job.tokens - 1)
            n = min(job.tokens - hit, cap, budget)
            if self.settings.admission == "full_sequence" and self.blocks(job.tokens) > self.free:
                return
            if not self.grow(job, hit + n):
                return
            self.waiting.popleft()
            self.running.append(job)
            self.recomputed += max(self.lost.pop(job, 0) - hit, 0)
            job.computed = hit
            if math.isnan(job.scheduled_s):
                job.scheduled_s = self.now
            self.take(batch, job, n)
            budget -= n

    # Time

    def seconds(self, batch):
        """(GPU time of all stages, host time, tokens), from the StepCost docstring."""
        cost = self.cost
        reads = [job.computed + n for job, n, _ in batch.decodes]
        finishing = sum(completes for *_, completes in batch.prompts)
        tokens = sum(n for _, _, n, _ in batch.prompts) + sum(n for _, n, _ in batch.decodes)
        row = len(reads) + finishing
        at = tokens if batch.prompts else int(cost.decode_padding[tokens])
        kv, pairs = 0.0, 0.0
        for g, window in enumerate(cost.window_tokens):
            limit = window or 10**12
            kv += cost.kv_s[g] * sum(min(read, limit) for read in reads)
            for _, past, n, _ in batch.prompts:
                pairs += cost.pair_s[g] * sum(min(past + q, limit) for q in range(1, n + 1))
        gpu = max(cost.compute_s[at], cost.memory_s[at] + kv + cost.seq_s * len(reads))
        if batch.prompts:
            gpu = math.sqrt(gpu**2 + cost.launch_s**2)
        gpu += cost.row_s[row] + pairs
        gpu += cost.prefix_s * sum(past for _, past, _, _ in batch.prompts)
        gpu += (cost.decode_fixed_s if reads else 0.0) + (
            cost.prefill_fixed_s if batch.prompts else 0.0
        )
        host = cost.host_step_s + cost.host_seq_s * row
        host += cost.host_prefill_s if batch.prompts else 0.0
        return gpu, host, tokens

    def send_off(self, batch):
        self.steps += 1
        gpu, host, tokens = self.seconds(batch)
        stages = self.cost.stages
        send = self.cost.send_fixed_s + self.cost.send_s_per_token * tokens
        at, idle = self.now, 0.0
        for stage in range(stages):
            share = self.cost.slowest_stage_share
            if stages == 1:
                own = gpu
            else:
                own = gpu * (share if stage == 0 else (1.0 - share) / (stages - 1))
            if stage == 0:
                own = max(own, host) if self.cost.async_scheduling else own + host
            if stage < stages - 1:
                own += send
            idle += max(at - self.stage_free_s[stage], 0.0)
            at = max(at, self.stage_free_s[stage]) + own
            self.stage_free_s[stage] = at
        if self.flights:
            self.bubble_s += idle * self.size(batch)
        batch.end_s = at
        self.flights.append(batch)

    def note_boundary(self, time_s):
        at = bisect.bisect_left(self.arrivals, time_s)
        for arrival_s in self.arrivals[max(at - 1, 0) : at + 2]:
            self.margin_s = min(self.margin_s, abs(arrival_s - time_s))

    def notice(self):
        for job in self.unnoticed:
            self.running.remove(job)
            self.release(job)
        self.unnoticed = []
        self.ghosts.clear()

    def come_back(self):
        batch = self.flights.popleft()
        self.now = batch.end_s
        self.note_boundary(self.now)
        self.visible = batch.start_s if self.lag else self.now
        self.notice()
        for job, _, _, completes in batch.prompts:
            if completes:
                self.give(job, 1, 0)
        for job, n, ghost in batch.decodes:
            if not ghost:
                accepted = min(self.accept(job, job.given), n - 1) if n > 1 else 0
                self.give(job, min(1 + accepted, job.output - job.given), n)

    def give(self, job, tokens, scheduled):
        before = job.given
        self.under_way.discard(job)
        job.given += tokens
        outside = self.cost.frontend_s + self.cost.frontend_token_s * job.prompt
        job.token_s += [self.now + outside] * tokens
        seated = job in self.running
        if seated:
            if scheduled:
                job.computed += tokens
                if self.lag:
                    self.rejected[job] = scheduled - tokens
            job.in_decode = True
        if job.given < job.output:
            return
        job.done, job.done_s = True, self.now
        if not seated:
            self.waiting.remove(job)
        elif self.lag:
            self.unnoticed.append(job)
            if before + 1 < job.output:
                self.ghosts.add(job)
                self.surprises += 1
        else:
            self.running.remove(job)
            self.release(job)

    def run(self, until_s=math.inf):
        while True:
            while self.future and self.future[0].arrival_s <= self.visible:
                self.waiting.append(self.future.popleft())
            if len(self.flights) < self.cost.stages:
                if self.now >= until_s:
                    return
                before = self.preemptions
                batch = self.schedule()
                if self.size(batch):
                    self.send_off(batch)
                    continue
                if not self.flights:
                    if self.preemptions > before or self.running or self.visible < self.now:
                        self.notice()
                        self.visible = self.now
                        continue
                    if not self.future or self.future[0].arrival_s >= until_s:
                        return
                    self.now = self.visible = self.future[0].arrival_s
                    continue
            self.come_back()
