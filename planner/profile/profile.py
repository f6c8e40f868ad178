"""What the traffic is: the whole trace and each workload class, from the request arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem
from planner.ingest.requests import Requests
from planner.profile.arrivals import arrival_stats, hour_of_week
from planner.profile.counts import value_counts
from planner.profile.lengths import correlations, joint_histogram, length_stats
from planner.profile.reuse import prefix_depths, reuse_stats
from planner.profile.sessions import session_stats
from planner.profile.types import ClassProfile, TraceProfile
from planner.profile.windows import hardest_windows

TOTAL = "all"


def profile_requests(requests: Requests) -> TraceProfile:
    """Profile a trace: every class that has requests, and all of them together.

    Raises
    ------
    InputError
        There is no request.
    """
    if len(requests) == 0:
        raise InputError(Problem(message="the trace holds no usable request"))
    has_blocks = requests.block_tokens > 0 and len(requests.block_ids) > 0
    depths = prefix_depths(requests) if has_blocks else None
    everyone = np.ones(len(requests), np.bool_)
    total = _class_profile(requests, TOTAL, everyone, depths)
    counts = np.bincount(requests.class_id, minlength=len(requests.class_names))
    present = [index for index, count in enumerate(counts) if count]
    if len(present) == 1:  # the only class is the total: do not measure it twice
        classes = [replace(total, name=requests.class_names[present[0]])]
    else:
        classes = [
            _class_profile(
                requests, requests.class_names[index], requests.class_id == index, depths
            )
            for index in present
        ]
    return TraceProfile(
        requests=len(requests),
        span_s=requests.span_s,
        origin=requests.origin,
        total=total,
        classes=tuple(classes),
        hardest_windows=hardest_windows(requests),
    )


def _class_profile(
    requests: Requests,
    name: str,
    chosen: NDArray[np.bool_],
    depths: NDArray[np.int64] | None,
) -> ClassProfile:
    arrival_s = requests.arrival_s[chosen]
    inputs = value_counts(requests.input_tokens[chosen])
    outputs = value_counts(requests.output_tokens[chosen])
    pearson, spearman = correlations(inputs, outputs)
    return ClassProfile(
        name=name,
        requests=len(arrival_s),
        share=len(arrival_s) / len(requests),
        input_tokens=length_stats(inputs),
        output_tokens=length_stats(outputs),
        arrivals=arrival_stats(arrival_s, requests.span_s),
        pearson=pearson,
        spearman=spearman,
        joint=joint_histogram(inputs, outputs),
        hour_of_week=hour_of_week(arrival_s, requests.span_s, requests.origin),
        reuse=reuse_stats(requests, chosen, depths),
        sessions=session_stats(requests, chosen),
    )
