"""Arrivals that follow ends, one step at a time: sessions and closed loops on any engine.

A session's turn arrives when its user has read the last answer and thought: end of the last turn
(as the client sees it) + think time, and not before its earliest time. A client of a closed loop
sends the next request in line when its last one has ended.
"""

from __future__ import annotations

import bisect
import math
from collections import deque

from reference_vllm_v1 import Engine


def following(engine=Engine):
    """Return `engine` with arrivals that follow ends."""

    class Following(engine):
        def __init__(self, jobs, settings, cost):
            self.line = deque()
            super().__init__(jobs, settings, cost)
            self.place = {job: i for i, job in enumerate(jobs)}
            self.future = deque(job for job in jobs if job.arrival_s > -math.inf)
            self.arrivals = [job.arrival_s for job in self.future]

        def emit(self, job):
            super().emit(job)
            if not job.done:
                return
            after = self.line.popleft() if self.line else getattr(job, "next_turn", None)
            if after is None:
                return
            after.arrival_s = max(
                getattr(after, "earliest_s", -math.inf),
                job.token_s[-1] + getattr(after, "think_s", 0.0),
            )
            self.released.append((after.arrival_s, self.place[after], after))

        def step(self, batch):
            self.released = []
            super().step(batch)
            for arrival_s, _, job in sorted(self.released, key=lambda r: r[:2]):
                # A release at a step's very end is meant to meet it: it sets no margin.
                if arrival_s != self.now:
                    self.margin_s = min(self.margin_s, abs(arrival_s - self.now))
                    bisect.insort(self.arrivals, arrival_s)
                at = len(self.future)
                while at and (self.future[at - 1].arrival_s, self.place[self.future[at - 1]]) > (
                    arrival_s,
                    self.place[job],
                ):
                    at -= 1
                self.future.insert(at, job)

    return Following
