"""The schedulers of Orca, SARATHI and Sarathi-Serve, one step at a time, from their papers.

Orca batches whole prompts with decodes; SARATHI adds one prompt chunk to all decodes; both reserve
the longest sequence for every request, here as one block of that size. Sarathi-Serve takes all
decodes, then the unfinished prompt, then new ones, whose blocks it allocates for the whole prompt.
"""

from __future__ import annotations

from reference_vllm_v1 import Engine


class Papers(Engine):
    """What the three share: one admission at a time."""

    def start(self, job, tokens, n, batch, now):
        self.waiting.popleft()
        self.running.append(job)
        assert self.grow(job, tokens)
        job.computed = 0
        if job.scheduled_s != job.scheduled_s:
            job.scheduled_s = now
        batch.append((job, n))

    def has_room(self, tokens):
        return self.blocks(tokens) <= self.free - self.settings.watermark_blocks


class Orca(Papers):
    """Whole prompts beside the decodes."""

    def admit(self, batch, budget, cap, now):
        while self.waiting and len(self.running) < self.settings.max_num_seqs:
            job = self.waiting[0]
            if job.tokens > budget or not self.has_room(job.tokens):
                return
            self.start(job, job.tokens, job.tokens, batch, now)
            budget -= job.tokens


class Sarathi(Papers):
    """Decode-maximal batches: one chunk, whatever decodes leave of the chunk size."""

    def admit(self, batch, budget, cap, now):
        if not self.waiting or budget == 0 or len(self.running) >= self.settings.max_num_seqs:
            return
        job = self.waiting[0]
        if all(each.in_decode for each, _ in batch) and self.has_room(job.tokens):
            n = min(job.tokens, budget)
            self.start(job, n, n, batch, now)


class SarathiServe(Papers):
    """Stall-free batches."""

    def schedule(self, now):
        batch = []
        for job in list(self.running):
            if not job.in_decode or job.done or job not in self.running:
                continue
            survived = True
            while survived and not self.grow(job, job.computed + 1):
                survived = self.preempt_last() is not job
            if survived:
                batch.append((job, 1))
        budget = self.settings.max_num_batched_tokens - len(batch)
        for job in self.running:
            if not job.in_decode and budget > 0:
                n = min(job.tokens - job.computed, budget)
                batch.append((job, n))
                budget -= n
        while self.waiting and budget > 0 and len(self.running) < self.settings.max_num_seqs:
            job = self.waiting[0]
            if not self.has_room(job.tokens):
                break
            n = min(job.tokens, budget)
            self.start(job, job.tokens, n, batch, now)
            budget -= n
        return batch


class SplitFuse(Engine):
    """Dynamic SplitFuse: every step holds exactly the budget, as long as there is work for it.

    Decodes first, then prompts in order: a long one is cut, short ones are joined and the last is
    cut. A prompt starts when all of it fits into the free blocks.
    """

    def schedule(self, now):
        room = self.settings.max_num_batched_tokens
        self.preempted_now = False
        batch = []
        for job in list(self.running):
            if job.in_decode and not job.done and job in self.running:
                batch += self.part(job, 1)
        for job in list(self.running):
            if not job.in_decode and job in self.running:
                batch += self.part(job, min(job.tokens - job.computed, room - len(batch)))
        room -= sum(n for _, n in batch)
        while self.waiting and room and not self.preempted_now:
            job = self.waiting[0]
            if len(self.running) == self.settings.max_num_seqs or not self.fits(job):
                break
            self.running.append(self.waiting.popleft())
            if job.scheduled_s != job.scheduled_s:
                job.scheduled_s = now
            piece = min(job.tokens, room)
            batch += self.part(job, piece)
            room -= piece
        return batch

    def fits(self, job):
        return self.blocks(job.tokens) <= self.free

    def part(self, job, n):
        """Give `job` its blocks for n tokens, at the cost of the last admitted."""
        while n and not self.grow(job, job.computed + n):
            if self.preempt_last() is job:
                return []
        return [(job, n)] if n else []
