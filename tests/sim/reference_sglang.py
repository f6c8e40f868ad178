"""SGLang's default scheduler, one step at a time: fcfs, chunked prefill, no mixing, no radix hits.

An iteration first tries a prefill batch, and only decodes if there is none. Admission wants free
room for the prompt, its output limit (at most 4,096) and, for every running request, a share
(`ratio`) of what it may still produce. The share falls with every decode and rises when decodes
run out of memory: then requests are retracted, those with the fewest output tokens first, to the
end of the queue. Once a request was refused, none is tried until the running batch has shrunk,
which the scheduler finds out when it next prepares a decode.
"""

from __future__ import annotations

from reference_vllm_v1 import Engine

INIT, LEAST, STEPS, RETRACT_STEPS, CLIP = 0.7, 0.14, 600, 20, 4096


class SGLang(Engine):
    """One replica. A block is one token."""

    max_prefill_tokens = 16_384

    def __init__(self, jobs, settings, cost):
        super().__init__(jobs, settings, cost)
        assert settings.block_size == 1
        self.initial = min(INIT * settings.schedule_conservativeness, 1.0)
        self.chunked = None
        self.full = False  # nobody is tried
        self.leaving = 0  # finished, but still in the running batch
        self.idle()

    def idle(self):
        self.ratio, self.decays = self.initial, 0
        self.leaving, self.full = 0, False

    def share(self):
        least = self.initial * LEAST
        return max(self.ratio - self.decays * ((self.initial - least) / STEPS), least)

    def schedule(self, now):
        batch = self.prefills(now) or self.decodes()
        if not batch:
            self.idle()
        return batch

    def may_produce(self, job):
        return min(job.output - job.given, CLIP)

    def prefills(self, now):
        if self.full and not self.chunked:
            return []
        promised = sum(self.may_produce(job) for job in self.running if job.in_decode)
        self.room = self.free - promised * self.share()
        self.chunk = self.settings.max_num_batched_tokens
        self.budget = self.max_prefill_tokens
        self.full = False
        batch = []
        if self.chunked:
            job, self.chunked = self.chunked, None
            self.add(job, min(job.tokens - job.computed, self.chunk), batch)
        while self.waiting and not self.full:
            if not self.try_head(batch, now):
                break
        return batch

    def add(self, job, n, batch):
        assert self.grow(job, job.computed + n)
        batch.append((job, n))
        self.chunk, self.budget, self.room = self.chunk - n, self.budget - n, self.room - n
        if job.computed + n == job.tokens:
            self.room -= self.may_produce(job)
        else:
            self.chunked = job

    def try_head(self, batch, now):
        """Admit the head of the queue; return whether the next may be tried."""
        job = self.waiting[0]
        self.full = len(self.running) + self.leaving >= self.settings.max_num_seqs
        self.full = self.full or job.tokens + self.may_produce(job) >= self.room
        if self.full or (batch and job.tokens >= self.budget) or self.chunk == 0:
            return False
        self.waiting.popleft()
        self.running.append(job)
        if job.scheduled_s != job.scheduled_s:
            job.scheduled_s = now
        self.add(job, min(job.tokens, self.chunk), batch)
        self.full = self.room <= 0
        return self.budget > 0 and self.chunk > 0

    def decodes(self):
        if self.leaving:
            self.leaving, self.full = 0, False
        active = [job for job in self.running if job.in_decode and not job.done]
        if self.free < len(active):
            active = self.retract(active)
        elif active:
            self.decays += 1
        for job in active:
            assert self.grow(job, job.computed + 1)
        return [(job, 1) for job in active]

    def retract(self, active):
        order = sorted(active, key=lambda job: (job.given, -job.prompt), reverse=True)
        while self.free < len(order):
            victim = order.pop()
            self.running.remove(victim)
            self.release(victim)
            victim.preemptions += 1
            self.preemptions += 1
            self.recomputed += victim.computed
            victim.computed, victim.in_decode = 0, False
            self.waiting.append(victim)
        self.full = False
        given, most = sum(job.given for job in order), sum(job.output for job in order)
        self.ratio, self.decays = min(1.0, (given + RETRACT_STEPS * len(order)) / (most + 1)), 0
        return [job for job in active if job in order]

    def notice(self):
        for job in self.unnoticed:
            if job.ended_in_prefill and not self.cost.async_scheduling:
                self.full = False
            else:
                self.leaving += 1
        super().notice()

    def emit(self, job):
        job.ended_in_prefill = not job.in_decode
        super().emit(job)
