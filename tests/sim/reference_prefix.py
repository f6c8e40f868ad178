"""vLLM V1 with its prefix cache, every physical block by itself.

A block pool with a queue of free blocks; a full block has a hash that names all tokens up to its
end; blocks are released tail first; taking one from the queue drops its hash. Several blocks can
have one hash: the one filed first is found. Hits are whole blocks, and never the whole sequence.
"""

from __future__ import annotations

import math

from reference_vllm_v1 import Engine


class Pool:
    """All blocks of one replica."""

    def __init__(self, count, *, unhashed_first):
        self.queue = list(range(count))
        self.hash = [None] * count
        self.holders = [0] * count
        self.filed = {}  # hash -> blocks, oldest first
        self.unhashed_first = unhashed_first

    def take(self):
        block = self.queue.pop(0)
        if self.hash[block] is not None:
            self.filed[self.hash[block]].remove(block)
            self.hash[block] = None
        self.holders[block] = 1
        return block

    def hit(self, block):
        if self.holders[block] == 0:
            self.queue.remove(block)
        self.holders[block] += 1

    def file(self, block, name):
        if self.hash[block] is None:
            self.hash[block] = name
            self.filed.setdefault(name, []).append(block)

    def find(self, name):
        blocks = self.filed.get(name)
        return blocks[0] if blocks else None

    def free(self, table):
        for block in reversed(table):
            self.holders[block] -= 1
            if self.holders[block] == 0:
                if self.hash[block] is None and self.unhashed_first:
                    self.queue.insert(0, block)
                else:
                    self.queue.append(block)


class CachingEngine(Engine):
    """One replica. Jobs have `ids`, one for every `unit` prompt tokens (the last may be short)."""

    unit = 0

    def __init__(self, jobs, settings, cost):
        super().__init__(jobs, settings, cost)
        self.pool = Pool(settings.num_blocks, unhashed_first=settings.admission == "full_sequence")
        self.hit_tokens = 0
        for job in jobs:
            job.table, job.lost = [], 0

    def name(self, job, j):
        """Everything that decides the content of tokens 0 … end of block j."""
        end = (j + 1) * self.settings.block_size
        units = math.ceil(end / self.unit)
        if end <= job.prompt and units <= len(job.ids):
            return (end, tuple(job.ids[:units]))
        return (end, id(job))

    def grow(self, job, tokens):
        extra = self.blocks(tokens) - len(job.table)
        if extra > len(self.pool.queue):
            return False
        job.table += [self.pool.take() for _ in range(extra)]
        for j in range(tokens // self.settings.block_size):
            self.pool.file(job.table[j], self.name(job, j))
        return True

    def release(self, job):
        self.pool.free(job.table)
        job.table = []

    def preempt_last(self):
        self.running[-1].lost = self.running[-1].computed
        before = self.recomputed
        victim = super().preempt_last()
        self.recomputed = before  # counted when it resumes: what survived is not recomputed
        return victim

    def hits(self, job):
        found = []
        for j in range((job.tokens - 1) // self.settings.block_size):
            block = self.pool.find(self.name(job, j))
            if block is None:
                break
            found.append(block)
        return found

    def admit(self, batch, budget, cap, now):
        while self.waiting and budget > 0 and len(self.running) < self.settings.max_num_seqs:
            job = self.waiting[0]
            found = self.hits(job)
            hit = len(found) * self.settings.block_size
            n = min(job.tokens - hit, cap, budget)
            whole = self.settings.admission == "full_sequence"
            needed = self.blocks(job.tokens if whole else hit + n)
            needed -= sum(self.pool.holders[block] > 0 for block in found)
            if needed > len(self.pool.queue):
                break
            for block in found:
                self.pool.hit(block)
            job.table = found
            assert self.grow(job, hit + n)
            self.waiting.popleft()
            self.running.append(job)
            job.computed = hit
            if math.isnan(job.scheduled_s):
                job.scheduled_s = now
                self.hit_tokens += hit
            self.recomputed += max(job.lost - hit, 0)
            job.lost = 0
            batch.append((job, n))
            budget -= n
