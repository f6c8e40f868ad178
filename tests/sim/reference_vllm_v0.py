"""vLLM V0 without chunked prefill, one step at a time, from the engine's documented semantics.

A step is all prefill or all decode. Waiting prompts go first: whole, in order, while the token
budget, max_num_seqs and the blocks above the watermark last; every decode waits meanwhile. Only a
step that admits nobody decodes, each running sequence by one token; a sequence without a block
preempts the one admitted last, by recompute.
"""

from __future__ import annotations

from reference_vllm_v1 import Engine


class WholePrompts(Engine):
    """One replica."""

    def schedule(self, now):
        self.preempted_now = False
        return self.prefills(now) or self.decodes()

    def prefills(self, now):
        batch = []
        budget = self.settings.max_num_batched_tokens
        while self.waiting and len(self.running) < self.settings.max_num_seqs:
            job = self.waiting[0]
            hit = min(job.cached, job.tokens - 1)
            needed = job.tokens - hit
            spare = self.free - self.blocks(job.tokens)
            if needed > budget or spare < self.settings.watermark_blocks:
                break
            self.waiting.popleft()
            self.running.append(job)
            assert self.grow(job, job.tokens)
            job.computed = hit
            if job.scheduled_s != job.scheduled_s:
                job.scheduled_s = now
            batch.append((job, needed))
            budget -= needed
        return batch

    def decodes(self):
        batch = []
        i = 0
        while i < len(self.running):
            job = self.running[i]
            i += 1
            if job.done:
                continue
            assert job.in_decode
            survived = True
            while survived and not self.grow(job, job.computed + 1):
                survived = self.preempt_last() is not job
            if not survived:
                break
            batch.append((job, 1))
        return batch
