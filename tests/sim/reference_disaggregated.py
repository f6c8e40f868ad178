"""Prefill pool, KV links and decode pool in ordinary Python, request by request.

The prefill pool is the stepped vLLM V1 with one output token each. Every prefill replica sends one
request's KV at a time. The decode pool admits a request with its prompt's KV as a decode.
"""

from __future__ import annotations

import itertools
import math

from reference_pipeline import PipelineEngine
from reference_vllm_v1 import Engine, Job


class RemoteEngine(PipelineEngine):
    """A decode replica: a request comes with all its KV but the last token's."""

    def admit(self, batch, budget, cap, most):
        while self.waiting and budget > 0 and len(self.running) < self.settings.max_num_seqs:
            job = self.waiting[0]
            if job.preemptions:
                before = len(self.waiting)
                one = min(budget, self.settings.max_num_batched_tokens)
                taken = self.size(batch)
                self.admit_one(batch, one, cap)
                if len(self.waiting) == before:
                    return
                budget -= batch.prompts[-1][2] if self.size(batch) > taken else 0
                continue
            if self.blocks(job.tokens) > self.free:
                return
            self.grow(job, job.tokens)
            self.waiting.popleft()
            self.running.append(job)
            job.computed, job.in_decode = job.tokens - 1, True
            job.scheduled_s = self.now
            self.take(batch, job, 1)
            budget -= 1

    def admit_one(self, batch, budget, cap):
        """Recompute a preempted request like any other."""
        rest, seats = self.waiting, self.settings.max_num_seqs
        self.waiting = type(rest)([rest[0]])
        super().admit(batch, budget, cap, 10**12)
        if not self.waiting:
            rest.popleft()
        self.waiting = rest
        assert len(self.running) <= seats


def closest(times):
    """Return the smallest distance of two different times."""
    ordered = sorted(set(times))
    return min((b - a for a, b in itertools.pairwise(ordered)), default=math.inf)


def simulate(jobs, prefill, decode, link, owners, destinations, first_token):
    """Return (prefilled, handed, first token, last token) times by job, and the engines' margin.

    `owners` and `destinations` are the replicas of each job in its two pools; `prefill` and
    `decode` are (settings, cost).
    """
    margin = math.inf
    prefilled, begun, handed = {}, {}, {}
    for r in set(owners):
        mine = [job for job, owner in zip(jobs, owners, strict=True) if owner == r]
        copies = [Job(arrival_s=job.arrival_s, prompt=job.prompt, output=1) for job in mine]
        engine = Engine(copies, *prefill)
        engine.run()
        margin = min(margin, engine.margin_s)
        for job, copy in zip(mine, copies, strict=True):
            prefilled[id(job)] = copy.token_s[0]
            computing = copy.token_s[0] - copy.scheduled_s
            hidden = computing * (link.layers - 1) / link.layers if link.layerwise else 0.0
            begun[id(job)] = copy.token_s[0] - hidden
        margin = min(margin, closest(begun[id(job)] for job in mine))
        free = -math.inf
        for job in sorted(mine, key=lambda job: begun[id(job)]):  # stable: in order of arrival
            start = max(begun[id(job)], free)
            free = start + job.prompt * link.kv_bytes_per_token / link.bytes_per_s + link.latency_s
            handed[id(job)] = max(free, prefilled[id(job)]) + link.fixed_s
    margin = min(margin, closest(handed.values()))
    first, last = {}, {}
    going = [job for job in jobs if first_token == "decode" or job.output > 1]
    order = sorted(going, key=lambda job: handed[id(job)])
    for r in set(destinations):
        mine = [job for job, d in zip(order, destinations, strict=True) if d == r]
        copies = []
        for job in mine:
            copy = Job(arrival_s=handed[id(job)], prompt=job.prompt, output=job.output)
            if first_token == "prefill":
                copy.given, copy.token_s = 1, [prefilled[id(job)]]
            copies.append(copy)
        engine = RemoteEngine(copies, *decode)
        engine.run()
        margin = min(margin, engine.margin_s)
        for job, copy in zip(mine, copies, strict=True):
            first[id(job)], last[id(job)] = copy.token_s[0], copy.token_s[-1]
    for job in jobs:
        first.setdefault(id(job), prefilled[id(job)])
        last.setdefault(id(job), prefilled[id(job)])
    return first, last, handed, margin
