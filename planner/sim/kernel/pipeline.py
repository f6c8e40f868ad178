"""Batches in flight: what the stepped kernel keeps beside a World, and how long a batch takes.

The stages of a pipeline are a line of servers: a batch enters a stage when it has left the one
before and the stage has finished the batch ahead. Batches of unequal length leave stages idle in
between, the bubbles.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.sim.jit import part
from planner.sim.kernel.world import World

FIRST, CHUNK = -1, -2  # a member's `drafts`: it completes its prompt, or gives nothing back

PIPE = np.dtype(
    [
        ("stages", "i8"),
        ("overlapped", "i8"),  # asynchronous scheduling hides the host behind the first stage
        ("first_share", "f8"),  # of a batch's GPU time
        ("rest_share", "f8"),  # each other stage
        ("send_fixed_s", "f8"),
        ("send_token_s", "f8"),
        ("per_decode", "i8"),  # 1 + num_speculative_tokens
        ("lookahead", "i8"),  # slots the drafter writes ahead
        ("max_model_len", "i8"),
        ("micro_batch", "i8"),  # most requests of one batch
        ("draw_mask", "i8"),
        ("remote", "i8"),  # prompts were computed elsewhere and come with their KV
        ("oldest", "i8"),  # the flight that lands next
        ("in_flight", "i8"),
        ("blocked", "i8"),  # nothing could be scheduled: the engine waits for the oldest flight
        ("decoding", "i8"),
        ("decode_tokens", "i8"),  # of the batch being gathered
        ("members", "i8"),
        ("read_s", "f8"),
    ],
    align=True,
)

LANE = np.dtype(
    [
        ("blocks", "i8"),  # held, those for rejected drafts included
        ("due", "i4"),  # 1: its token is in flight
        ("ghost", "i4"),  # finished, which the scheduler could not know: scheduled once more
        ("ahead", "i8"),  # drafts rejected in the last step, which an asynchronous scheduler
        ("stack_due", "i8"),  # has not heard of; and `due` of a preempted request
    ],
    align=True,
)

FLIGHT = np.dtype([("start_s", "f8"), ("end_s", "f8"), ("members", "i8")], align=True)

MEMBER = np.dtype([("turn", "i8"), ("request", "i4"), ("slot", "i4"), ("drafts", "i4")], align=True)


class Pipe(NamedTuple):
    """One replica's batches in flight; with a leading axis of replicas, a fleet's."""

    st: Any  # PIPE, one record
    lanes: Any  # LANE [max_num_seqs], beside the slots
    flights: Any  # FLIGHT [stages]
    members: Any  # MEMBER [stages, max_num_seqs]
    ready_s: NDArray[np.float64]  # [stages] when each has finished what it was given
    padding: NDArray[np.int64]  # [max_num_batched_tokens + 1]
    draws: NDArray[np.int8]  # accepted drafts, one for each place of the table
    first_draw: NDArray[np.int64]  # [requests], without speculation empty
    bubble_s: NDArray[np.float64]  # [requests], with one stage empty


@part
def gpu_s(w: World, p: Pipe) -> float:
    """Return the GPU time of the gathered batch over all stages (see `StepCost`)."""
    st = w.st
    decodes = st.batch_decodes
    tokens = st.batch_tokens + p.st.decode_tokens
    if st.batch_prefills == 0:
        tokens = p.padding[tokens]
    entry = w.table[tokens]
    gpu = max(entry.compute_s, entry.memory_s + p.st.read_s + st.seq_s * decodes)
    if st.batch_prefills > 0:
        gpu = np.hypot(gpu, st.launch_s)
    gpu += w.table[decodes + st.fresh].row_s + st.batch_pair_s + st.prefix_s * st.batch_prefix
    if decodes > 0:
        gpu += st.decode_fixed_s
    if st.batch_prefills > 0:
        gpu += st.prefill_fixed_s
    return float(gpu)


@part
def host_s(w: World) -> float:
    """Return the host time of the gathered batch."""
    st = w.st
    host = st.host_step_s + st.host_seq_s * (st.batch_decodes + st.fresh)
    if st.batch_prefills > 0:
        host += st.host_prefill_s
    return float(host)


@part
def launch(w: World, p: Pipe) -> None:
    """Send the gathered batch through the stages.

    The first stage holds the slowest share of the layers and the host's part, each boundary
    delays the stage in front of it.
    """
    gpu = gpu_s(w, p)
    host = host_s(w)
    send = p.st.send_fixed_s + p.st.send_token_s * (w.st.batch_tokens + p.st.decode_tokens)
    own = gpu * p.st.first_share
    own = max(own, host) if p.st.overlapped == 1 else own + host
    end = w.st.now
    idle = 0.0
    for stage in range(p.st.stages):
        if stage > 0:
            own = gpu * p.st.rest_share
        if stage < p.st.stages - 1:
            own += send
        ready = p.ready_s[stage]
        if end > ready:
            idle += end - ready
        end = max(end, ready) + own
        p.ready_s[stage] = end
    k = (p.st.oldest + p.st.in_flight) % p.st.stages
    flight = p.flights[k]
    flight.start_s = w.st.now
    flight.end_s = end
    flight.members = p.st.members
    if p.st.in_flight > 0:  # an empty pipeline that fills lacks work: no bubble
        for i in range(p.st.members if p.st.stages > 1 else 0):
            p.bubble_s[p.members[k, i].request] += idle
    p.st.in_flight += 1
