"""vLLM V1 with scheduling_policy priority, one step at a time.

The waiting are tried in the order (priority, arrival), the preempted among them. A running request
without a block preempts the last of the running in that order; one that had its tokens of this
step gives them back. If that is the request itself, the walk through the running ends.
"""

from __future__ import annotations

from reference_vllm_v1 import Engine


class ByPriority(Engine):
    """One replica. `priority` is by class."""

    priority: tuple[int, ...] = ()

    def key(self, job):
        return (self.priority[job.class_id], self.arrivals.index(job.arrival_s), self.place[job])

    def __init__(self, jobs, settings, cost):
        super().__init__(jobs, settings, cost)
        self.place = {job: i for i, job in enumerate(jobs)}

    def schedule(self, now):
        self.waiting = type(self.waiting)(sorted(self.waiting, key=self.key))
        budget = self.settings.max_num_batched_tokens
        cap = self.chunk_cap()
        taken = {}
        self.preempted_now = False
        i = 0
        while i < len(self.running) and budget > 0:
            job = self.running[i]
            if job.done:
                i += 1
                continue
            n = min(job.tokens - job.computed, cap, budget)
            survived = True
            while not self.grow(job, job.computed + n):
                victim = max(self.running, key=self.key)
                if self.running.index(victim) < i:
                    i -= 1
                self.running.append(self.running.pop(self.running.index(victim)))
                budget += taken.pop(victim, 0)
                self.preempt_last()
                if victim is job:
                    survived = False
                    break
            if not survived:
                break
            taken[job] = n
            budget -= n
            i += 1
        batch = list(taken.items())
        if not self.preempted_now:
            self.admit(batch, budget, cap, now)
        return batch
