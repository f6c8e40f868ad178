"""What a replay turns away: what it does not combine, and requests that the engine refuses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem
from planner.ingest.requests import Requests
from planner.sim.settings import SchedulerSettings

REASONS = (
    "",
    "prompt + output exceed max_model_len",
    "prompt + output exceed the KV cache",
    "no prompt or no output tokens",
)
TOO_LONG_FOR_MODEL, TOO_LONG_FOR_KV, NO_TOKENS = 1, 2, 3


def refuse(
    settings: SchedulerSettings, routing: str, *, follow_sessions: bool, concurrency: int | None
) -> None:
    """Refuse what replay does not combine."""
    if follow_sessions and concurrency is not None:
        raise ValueError("either sessions or clients decide who waits for what")
    if routing != "least_loaded":
        return
    hint = "take random or round_robin routing"
    if settings.policy == "sglang":
        raise InputError(Problem(message="replay routes least_loaded for vllm alone", hint=hint))
    if follow_sessions or concurrency is not None:
        message = "replay routes least_loaded where requests arrive by themselves"
        raise InputError(Problem(message=message, hint=hint))


def rejections(requests: Requests, settings: SchedulerSettings) -> NDArray[np.int8]:
    """Return why each request is turned away (index into REASONS), 0 for the served.

    The engine refuses prompt + output beyond max_model_len. The KV cache must hold all but the
    last token, or the request could never finish.
    """
    total = requests.input_tokens + requests.output_tokens
    found = np.zeros(len(requests), np.int8)
    found[total - 1 > settings.usable_tokens] = TOO_LONG_FOR_KV
    found[total > settings.max_model_len] = TOO_LONG_FOR_MODEL
    found[(requests.input_tokens < 1) | (requests.output_tokens < 1)] = NO_TOKENS
    return found
