"""KV cache groups with sliding windows: every block of every table by itself.

A request has one block table for each group. When it is given tokens, blocks of a window's tables
that no token from the first unprocessed one on can see become None; then every table grows to the
new length. Tokens of a step that is still running when the next is decided are not processed.
"""

from __future__ import annotations

import math

from reference_vllm_v1 import Engine


def windowed(engine=Engine):  # noqa: C901 - one class
    """Return `engine` with the block tables of `settings.kv_layout`."""

    class Windowed(engine):
        def __init__(self, jobs, settings, cost):
            super().__init__(jobs, settings, cost)
            layout = settings.kv_layout
            self.windows = [0] * layout.full_tables
            for each in layout.windows:
                self.windows += [each.window_tokens] * each.tables
            self.free = self.total = layout.num_blocks
            for job in jobs:
                job.tables, job.state, job.in_flight = [], 0, 0

        def outside(self, window, processed):
            """Blocks all of whose tokens the token at `processed` and later ones cannot see."""
            if not window:
                return 0
            first_seen = processed - (window - 1)
            return max(first_seen, 0) // self.settings.block_size

        def held(self, job):
            return job.state + sum(block is not None for table in job.tables for block in table)

        def grow(self, job, tokens):
            processed = job.computed - job.in_flight
            for window, table in zip(self.windows, job.tables, strict=True):
                for i in range(min(self.outside(window, processed), len(table))):
                    self.free += table[i] is not None
                    table[i] = None
            need = sum(self.blocks(tokens) - len(table) for table in job.tables)
            if need > self.free:
                return False
            self.free -= need
            for table in job.tables:
                table.extend([job] * (self.blocks(tokens) - len(table)))
            return True

        def release(self, job):
            self.free += self.held(job)
            job.tables, job.state, job.in_flight = [], 0, 0

        def notice(self):
            super().notice()
            for job in self.running:
                job.in_flight = 0

        def step(self, batch):
            super().step(batch)
            assert self.free + sum(self.held(job) for job in self.running) == self.total
            if self.cost.async_scheduling:
                for job, n in batch:
                    job.in_flight = n

        def required(self, tokens, hit, *, capped):
            """Blocks to take for `tokens` tokens, the found ones inside the window among them."""
            layout, size = self.settings.kv_layout, self.settings.block_size
            need = layout.state_blocks
            for window in self.windows:
                whole = self.blocks(tokens)
                if capped and window:
                    reach = window - 1 + layout.in_flight_tokens
                    whole = min(whole, math.ceil(reach / size) + 1)
                need += max(whole - hit // size, 0)
                need += hit // size - self.outside(window, hit)
            return need

        def admit(self, batch, budget, cap, now):
            while self.waiting and budget > 0 and len(self.running) < self.settings.max_num_seqs:
                job = self.waiting[0]
                start = min(job.cached, job.tokens - 1)
                n = min(job.tokens - start, cap, budget)
                whole = self.settings.admission == "full_sequence"
                need = self.required(start + n, start, capped=False)
                if whole:
                    need = max(need, self.required(job.tokens, start, capped=True))
                if need > self.free:
                    break
                job.computed = start
                job.state = self.settings.kv_layout.state_blocks
                self.free -= job.state
                job.tables = [[None] * self.outside(window, start) for window in self.windows]
                assert self.grow(job, start + n)
                self.waiting.popleft()
                self.running.append(job)
                if math.isnan(job.scheduled_s):
                    job.scheduled_s = now
                batch.append((job, n))
                budget -= n

    return Windowed
