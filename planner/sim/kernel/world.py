"""Everything one replica's kernel reads and writes: a record of scalars and arrays of records.

A *slot* is a place among the running requests. A decoding slot needs no update from step to step:
with `start` fixed when decoding begins, it attends start + step tokens in decode step `step`.
Field names avoid those of numpy.ndarray, which records inherit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

STATE = np.dtype(
    [
        # Settings, see planner.sim.settings.SchedulerSettings
        ("max_num_batched_tokens", "i8"),
        ("max_num_seqs", "i8"),
        ("block_size", "i8"),
        ("num_blocks", "i8"),
        ("full_sequence", "i8"),
        ("prefill_first", "i8"),  # vLLM V0: whole prompts, in steps of their own
        ("whole_prompts", "i8"),  # Orca: prompts are not cut
        ("one_prefill", "i8"),  # SARATHI: one prompt a step
        ("prompt_blocks", "i8"),  # Sarathi-Serve: admission takes the whole prompt's blocks
        ("admits_always", "i8"),  # Sarathi-Serve: in a step that preempts too
        ("watermark_blocks", "i8"),
        ("max_prefill_tokens", "i8"),  # SGLang: of a prefill batch, chunk apart
        ("observed", "i8"),  # a router looks at the cache between steps
        ("routed", "i8"),  # a router takes what is released
        ("caching", "i8"),  # blocks are reused by the trace's ids
        ("windowed", "i8"),  # KV cache groups give back what lies outside their windows
        ("tables", "i8"),  # block tables of a request, over all groups
        ("full_tables", "i8"),  # of them, those that keep everything
        ("state_blocks", "i8"),  # of a request whatever its length
        ("trace_block", "i8"),  # tokens of a trace block
        ("unit_blocks", "i8"),  # engine blocks that end in one trace block, at most
        ("threshold", "i8"),  # long_prefill_token_threshold
        ("threshold_needs_company", "i8"),
        ("by_priority", "i8"),  # the waiting and the victims go by priority, then arrival
        ("clients", "i8"),  # of a closed loop; 0: arrivals, and turns that follow a session's last
        ("asynchronous", "i8"),
        ("debug", "i8"),
        # Physics, see planner.perf.step_cost.StepCost
        ("kv_s", "f8"),  # full-attention groups together
        ("pair_s", "f8"),
        ("seq_s", "f8"),
        ("prefix_s", "f8"),
        ("decode_fixed_s", "f8"),
        ("prefill_fixed_s", "f8"),
        ("launch_s", "f8"),
        ("host_step_s", "f8"),
        ("host_seq_s", "f8"),
        ("host_prefill_s", "f8"),
        ("frontend_s", "f8"),  # added to TTFT and E2E, to no step
        ("frontend_token_s", "f8"),  # … per prompt token
        # Clock
        ("now", "f8"),  # when the next step starts
        ("visible", "f8"),  # arrivals up to here are known to the scheduler
        ("resume", "f8"),  # end of a run that was put off: nothing finishes before
        ("bin_end", "f8"),
        ("bin", "i8"),
        ("step", "i8"),  # steps executed
        ("cross", "i8"),  # (-step) mod block_size: residue class that needs a block next
        # Who runs, who waits
        ("head", "i8"),  # first request that was never scheduled, -1: none known
        ("turns", "i8"),  # admissions so far
        ("queued", "i8"),  # waiting by priority
        ("line", "i8"),  # closed loop: what the next free client sends; below 0: nothing
        ("released", "i8"),  # their arrival is known, but they are not in the list yet
        ("arrived", "i8"),  # last of the list that is known to have arrived, -1: none
        ("running", "i8"),  # slots in use, those of finished but unnoticed requests included
        ("decodes", "i8"),
        ("partials", "i8"),  # running requests whose prompt is not yet computed
        ("partial", "i8"),  # the slot of the last of them
        ("stacked", "i8"),  # preempted requests at the front of the waiting queue
        ("zombies", "i8"),  # finished in the last step, unnoticed (asynchronous scheduling)
        ("unsettled", "i8"),  # decodes that are watched, see planner.sim.kernel.windows
        ("late", "i8"),  # decodes that the current or last step left out
        ("tardy", "i8"),  # decodes of this step that the last one left out
        ("front", "i8"),  # running list, in admission order
        ("back", "i8"),
        ("free_blocks", "i8"),
        ("free_slots", "i8"),
        ("kv_tokens", "i8"),  # tokens the decodes of the next step attend
        ("heap_size", "i8"),
        ("cross_size", "i8"),
        # SGLang, see planner.sim.kernel.sglang
        ("batch_full", "i8"),  # 1: the queue's head was refused
        ("leaving", "i8"),  # finished and released, but still counted in the running batch
        ("decays", "i8"),  # decode steps since `ratio` was set
        ("ratio", "f8"),
        ("ratio_init", "f8"),
        # Prefix cache, see planner.sim.kernel.prefix
        ("blank_blocks", "i8"),  # free, without content: taken first
        ("lru_blocks", "i8"),
        ("lru_front", "i8"),
        ("lru_back", "i8"),
        ("spare_node", "i8"),
        ("node_top", "i8"),
        ("cache_version", "i8"),
        ("hit_version", "i8"),  # the version that the next four were found in
        ("hit_request", "i8"),
        ("hit_blocks", "i8"),
        ("hit_used", "i8"),
        # The batch being gathered
        ("stalled", "i8"),  # 1: the last step left every decode out
        ("fresh", "i8"),  # prompts that finish in this step
        ("batch_decodes", "i8"),
        ("batch_tokens", "i8"),
        ("batch_prefix", "i8"),
        ("batch_prefills", "i8"),
        ("batch_pair_s", "f8"),
        ("used_before", "i8"),
        ("ran_steps", "i8"),
        ("span", "f8"),
        ("last_start", "f8"),
        # Counts
        ("events", "i8"),
        ("preempted", "i8"),
        ("recomputed_tokens", "i8"),
        ("hit_tokens", "i8"),  # found in the prefix cache when first scheduled
        ("finished", "i8"),
        ("finished_last", "i8"),  # of them, in the last executed step
        ("max_used_blocks", "i8"),
        ("peak_s", "f8"),  # start of the step or run that held them first
        ("high_blocks", "i8"),  # so many held count as a full cache coming
        ("high_since", "f8"),
        ("high_s", "f8"),  # the longest time without a break
        ("itl_targets", "i8"),
        ("lost", "i8"),  # 1: a probed target can no longer be met
        ("fault", "i8"),  # debug: which conservation law broke
    ],
    align=True,
)

SLOT = np.dtype(
    [
        ("request", "i8"),
        ("start", "i8"),  # decode: attends start + step tokens
        ("finish_step", "i8"),  # decode: its last token comes when `step` gets here
        ("total", "i8"),  # prefill: tokens to compute before the next output token
        ("computed", "i8"),  # prefill: of them, done
        ("generated", "i8"),  # prefill: output tokens given before
        ("last_token_s", "f8"),  # prefill after preemption: when the last output token came
        ("late_s", "f8"),  # decode: time lost since the last output token
        ("growing", "i8"),  # decode: bit g is set while the context is inside window g
        ("turn", "i8"),  # how many were admitted before
        ("planned", "i8"),  # by priority: tokens of the step being gathered
        ("processed", "i8"),  # windows: tokens done at the last visit, if not settled
        ("in_flight", "i8"),  # windows: tokens of the step before, if not settled
        ("shedding", "i8"),  # settled: bit g is set when window g gives blocks back
        ("before", "i4"),
        ("after", "i4"),
        ("decoding", "i4"),
        ("zombie", "i4"),
        ("settled", "i4"),
        ("watched", "i4"),  # in unsettled_list
        # Lists that happen to have as much room as there are slots; not about this slot.
        ("vacant", "i4"),
        ("zombie_list", "i4"),
        ("fresh_list", "i4"),
        ("starved_list", "i4"),
        ("tardy_list", "i4"),
        ("unsettled_list", "i4"),
        ("stack_request", "i4"),
        ("stack_generated", "i8"),
        ("stack_last_token_s", "f8"),
        ("stack_computed", "i8"),
        ("stack_run", "i8"),  # node of its own blocks in the prefix cache, -1: none left
    ],
    align=True,
)

REQUEST = np.dtype(
    [
        ("arrival_s", "f8"),
        ("scheduled_s", "f8"),
        ("first_token_s", "f8"),
        ("finish_s", "f8"),
        ("input_tokens", "i4"),
        ("output_tokens", "i4"),
        ("cached_tokens", "i4"),
        ("following", "i4"),  # next request of the same replica, -1: none known
        ("class_id", "i4"),
        ("window", "i4"),  # evaluation window of the arrival, -1 outside
        ("preemptions", "i4"),
    ],
    align=True,
)

RESUME = np.dtype(
    [
        ("last_token_s", "f8"),
        ("generated", "i8"),
        ("computed", "i8"),  # lost to the last preemption
        ("run", "i8"),  # node of its own blocks in the prefix cache, -1: none left
    ],
    align=True,
)

TURN = np.dtype(
    [
        ("following", "i8"),  # its session's next turn, or the next in line; -1: none
        ("think_s", "f8"),  # from the end of what it waits for to its arrival
        ("earliest_s", "f8"),
    ],
    align=True,
)

PREFIX = np.dtype(
    [
        ("begin", "i8"),  # its first id
        ("shared_blocks", "i8"),  # leading full blocks that another request may hold too
    ],
    align=True,
)

NODE = np.dtype(
    [
        ("key", "i4"),  # -1: a run of blocks that no other request can hit
        ("count", "i4"),  # blocks, 1 for a shared one
        ("holders", "i4"),  # running requests that hold it; queued when there are none
        ("before", "i4"),  # the queue
        ("after", "i4"),
        ("copy_before", "i4"),  # ring of the blocks with the same key, oldest first
        ("copy_after", "i4"),
        ("full", "i4"),  # run: full blocks, the last of it
        ("stack", "i4"),  # run: its request's place among the preempted, or number; -1: none
    ],
    align=True,
)

TABLE = np.dtype(
    [
        ("compute_s", "f8"),  # by scheduled tokens of a step with prefill
        ("memory_s", "f8"),
        ("row_s", "f8"),  # by sampled rows
        ("floor_s", "f8"),  # by sequences of a decode-only step: it lasts
        ("first_s", "f8"),  # max(floor_s, first_s + KV read time)
    ],
    align=True,
)

GROUP = np.dtype(
    [
        ("window", "i8"),
        ("tables", "i8"),  # block tables that give back what lies outside the window
        ("cap", "i8"),  # blocks of one of them that admission asks for, at most
        ("kv_s", "f8"),
        ("pair_s", "f8"),
        ("kv_tokens", "i8"),  # tokens the decodes of the next step attend in this group
        ("growing", "i8"),  # decodes whose context is still inside the window
    ],
    align=True,
)

BIN = np.dtype(
    [
        ("end_s", "f8"),
        ("steps", "i8"),
        ("decode_tokens", "i8"),
        ("prefill_tokens", "i8"),
        ("preemptions", "i8"),
        ("finished", "i8"),
        ("busy_s", "f8"),
        ("decode_seq_s", "f8"),
        ("running_seq_s", "f8"),
        ("used_block_s", "f8"),
    ],
    align=True,
)

TARGET = np.dtype([("class_id", "i8"), ("metric", "i8"), ("limit_s", "f8")], align=True)
ITL, TTFT, TPOT, E2E = 0, 1, 2, 3  # target metrics; ITL targets come first


class World(NamedTuple):
    """One replica. The types are numpy's; Any because records' fields are unknown to checkers."""

    st: Any  # STATE, one record
    slots: Any  # SLOT [max_num_seqs]
    requests: Any  # REQUEST [n]
    table: Any  # TABLE [max_num_batched_tokens + 1]
    groups: Any  # GROUP [window groups]
    residue: NDArray[np.int64]  # [block_size] decodes by (start - 1) mod block_size
    shed: NDArray[np.int64]  # [window groups, block_size] decodes that give a block back
    classes: NDArray[np.int64]  # decodes by class
    heap: NDArray[np.int64]  # completions by step
    cross_heap: NDArray[np.int64]  # window crossings by step
    resume: Any  # RESUME [n], of the preempted, for SGLang and priorities
    waiting: NDArray[np.int64]  # [n] heap of the waiting requests, for priorities
    rank: NDArray[np.int64]  # [classes] order of their priorities, the most urgent is 0
    turns: Any  # TURN [n], where arrivals follow ends
    releases: NDArray[np.int64]  # [n] heap of the released
    prefix: Any  # PREFIX [n], without prefix cache empty like the next four
    ids: NDArray[np.int32]  # trace blocks of each request
    nodes: Any  # NODE [num_blocks + 1]
    first_node: NDArray[np.int32]  # [keys] oldest node of each key, -1: none
    held: NDArray[np.int32]  # [max_num_seqs, most shared blocks] nodes of running requests
    bins: Any  # BIN [time bins]
    bin_window: NDArray[np.int64]  # [bins, classes] evaluation window, -1 outside
    gaps: NDArray[np.int64]  # [windows, classes, GAP_BINS] gaps between tokens
    targets: Any  # TARGET
    # [targets, windows] ITL: gaps within; else violations still allowed, ITL's in rows behind all
    tally: NDArray[np.int64]


def records(shape: int | tuple[int, ...], dtype: np.dtype[np.void]) -> Any:  # noqa: ANN401
    """Return zeroed records whose fields are attributes, in numba as in plain Python."""
    return np.zeros(shape, dtype).view(np.recarray)
