"""Replicas behind a router with arrivals that follow ends: one step of one replica at a time.

Always the replica whose next step starts first takes it, so that whatever ends until then is known;
a request is routed when no step starts before it arrives.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from reference_loop import sent


def recorded(engine):
    """Return `engine` with the ends of its steps and of its requests noted."""

    class Recorded(engine):
        def __init__(self, *arguments):
            self.ends, self.boundaries = [], []
            super().__init__(*arguments)

        def emit(self, job):
            super().emit(job)
            if job.done:
                self.ends.append(job)

        def step(self, batch):
            super().step(batch)
            self.boundaries.append(self.now)

    return Recorded


def next_start_s(engine):
    """When a replica can take its next step, infinite if it has nothing to do."""
    if engine.running or engine.waiting:
        return engine.now
    if engine.future:
        return max(engine.now, engine.future[0].arrival_s)
    return math.inf


class RoutedLoop:
    """`choose(job, engines, loads, order)` names the replica; `order` is how ties go."""

    def __init__(self, jobs, engines, choose, line=None):
        self.jobs, self.engines, self.choose = jobs, engines, choose
        self.place = {job: i for i, job in enumerate(jobs)}
        self.closed, self.line = line is not None, deque(line or ())
        self.known = [job for job in jobs if job.arrival_s > -math.inf]
        self.assigned = [[] for _ in engines]
        self.replica_of = {}

    def run(self):
        last = len(self.engines) - 1
        while True:
            first = min(self.engines, key=next_start_s)
            at_s = self.known[0].arrival_s if self.known else math.inf
            if math.isinf(at_s) and math.isinf(next_start_s(first)):
                break
            if at_s > next_start_s(first):
                first.run(np.nextafter(next_start_s(first), math.inf))
                self.release(first)
                continue
            job = self.known.pop(0)
            loads = [
                sum(not other.done or other.done_s > at_s for other in mine)
                for mine in self.assigned
            ]
            order = [(last + 1 + k) % len(loads) for k in range(len(loads))]
            last = self.choose(job, self.engines, loads, order)
            self.assigned[last].append(job)
            self.engines[last].future.append(job)
            self.replica_of[job] = last
        return [self.replica_of[job] for job in self.jobs]

    def release(self, engine):
        ready = [job.token_s[-1] for job in engine.ends]
        if self.closed:
            self.known += sent(self.known, ready, self.line)
        else:
            for job, ready_s in zip(engine.ends, ready, strict=True):
                if hasattr(job, "next_turn"):
                    after = job.next_turn
                    after.arrival_s = max(after.earliest_s, ready_s + after.think_s)
                    self.known.append(after)
        engine.ends = []
        self.known.sort(key=lambda job: (job.arrival_s, self.place[job]))

    def margin_s(self):
        """Smallest distance of an arrival to the end of a step that it is not meant to meet."""
        ends = np.sort(np.concatenate([engine.boundaries for engine in self.engines]))
        smallest = math.inf
        for job in self.jobs:
            apart = np.abs(ends - job.arrival_s)
            apart = apart[apart > 0.0]
            if len(apart):
                smallest = min(smallest, apart.min())
        return smallest


def lightest(job, engines, loads, order):
    """The fewest unfinished requests."""
    return min(order, key=loads.__getitem__)
