"""Arrivals that follow ends, one step at a time: sessions and closed loops on any engine.

A session's turn arrives when its user has read the last answer and thought: end of the last turn
(as the client sees it) + think time, and not before its earliest time. A client of a closed loop
sends the next request in line when it has seen the end of its last one.
"""

from __future__ import annotations

import bisect
import math
from collections import deque

from reference_vllm_v1 import Engine


def sent(future, ready, line):
    """Clients that are to send, by when they are ready, and the line: one each; return the new."""
    times = sorted([job.arrival_s for job in future] + ready)
    jobs = [line.popleft() for _ in ready if line]
    if ready:
        for job, ready_s in zip([*future, *jobs], times, strict=False):
            job.arrival_s = ready_s
    return jobs


def following_step(engine):
    """Return `engine` with what happens to arrivals in a step, for its hooks to call."""

    class Steps(engine):
        def __init__(self, jobs, *rest):
            self.line, self.closed = deque(), False
            super().__init__(jobs, *rest)
            self.place = {job: i for i, job in enumerate(jobs)}
            self.future = deque(job for job in jobs if job.arrival_s > -math.inf)
            self.arrivals = [job.arrival_s for job in self.future]

        def note_end(self, job):
            if not job.done:
                return
            ready_s = job.token_s[-1]
            if self.closed:
                self.ready.append(ready_s)
            elif hasattr(job, "next_turn"):
                after = job.next_turn
                after.arrival_s = max(after.earliest_s, ready_s + after.think_s)
                self.released.append(after)

        def step_of(self, run):
            self.released, self.ready = [], []
            run()
            before = {job: job.arrival_s for job in self.future}
            self.released += sent(self.future, self.ready, self.line)
            coming = [*self.future, *self.released]
            coming.sort(key=lambda job: (job.arrival_s, self.place[job]))
            for job in coming:
                # A release at a step's very end is meant to meet it: it sets no margin.
                if job.arrival_s != self.now and before.get(job) != job.arrival_s:
                    self.margin_s = min(self.margin_s, abs(job.arrival_s - self.now))
                    bisect.insort(self.arrivals, job.arrival_s)
            self.future = deque(coming)

    return Steps


def following(engine=Engine):
    """Return `engine` with arrivals that follow ends; pipelines have other hooks."""
    if hasattr(engine, "come_back"):
        return following_pipeline(engine)

    class Following(following_step(engine)):
        def emit(self, job):
            super().emit(job)
            self.note_end(job)

        def step(self, batch):
            self.step_of(lambda: super(Following, self).step(batch))

    return Following


def following_pipeline(engine):
    """Return a pipeline's engine with arrivals that follow ends."""

    class Following(following_step(engine)):
        def give(self, job, tokens, scheduled):
            super().give(job, tokens, scheduled)
            self.note_end(job)

        def come_back(self):
            self.step_of(super().come_back)

    return Following
