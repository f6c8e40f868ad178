"""What a replay turns away: what it does not combine, and requests that the engine refuses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem
from planner.ingest.requests import Requests
from planner.sim.blocks import has_ids
from planner.sim.settings import SchedulerSettings

REASONS = (
    "",
    "prompt + output exceed max_model_len",
    "prompt + output exceed the KV cache",
    "no prompt or no output tokens",
)
TOO_LONG_FOR_MODEL, TOO_LONG_FOR_KV, NO_TOKENS = 1, 2, 3


def refuse(
    requests: Requests,
    settings: SchedulerSettings,
    routing: str,
    *,
    stepped: bool,
    follows_ends: bool,
) -> None:
    """Refuse what replay does not combine.

    Parameters
    ----------
    requests, settings, routing
        What is to be replayed.
    stepped
        Whether there are pipeline stages, drafts or a decode pool.
    follows_ends
        Whether arrivals wait for the ends of other requests.
    """
    if stepped:
        what, instead = "pipelines, drafts and separate pools", "take one stage without drafts"
        if settings.policy == "sglang":
            message = f"the policy sglang is replayed without {what}"
            raise InputError(Problem(message=message, hint=f"{instead}, or another policy"))
        _refuse_with(settings, what, instead)
    if routing not in ("least_loaded", "cache_aware"):
        return
    hint = "take random or round_robin routing"
    if settings.policy == "sglang":
        raise InputError(Problem(message=f"replay routes {routing} for vllm alone", hint=hint))
    if follows_ends and stepped:
        message = f"replay routes {routing} through pipelines where requests arrive by themselves"
        raise InputError(Problem(message=message, hint=hint))
    if routing == "cache_aware":
        _refuse_cache_aware(requests, settings, stepped=stepped)


def refuse_pools(settings: SchedulerSettings, *, follows_ends: bool = False) -> None:
    """Refuse what replay does not combine with separate pools, of which `settings` is one's."""
    if settings.policy != "vllm_v1":
        hint = "take an engine that schedules by vllm_v1"
        raise InputError(Problem(message="replay separates pools of vllm alone", hint=hint))
    what, instead = "separate pools", "put prefill and decode in one pool"
    _refuse_with(settings, what, instead)
    if follows_ends:
        message = f"sessions and closed loops are replayed without {what}"
        raise InputError(
            Problem(message=message, hint=f"{instead}, or let requests come as logged")
        )


def _refuse_with(settings: SchedulerSettings, what: str, instead: str) -> None:
    """Refuse orders that are replayed only without `what`."""
    if settings.scheduling_policy == "priority":
        message = f"scheduling policy priority is replayed without {what}"
        raise InputError(Problem(message=message, hint=f"{instead}, or take fcfs"))


def _refuse_cache_aware(requests: Requests, settings: SchedulerSettings, *, stepped: bool) -> None:
    if not (settings.enable_prefix_caching and has_ids(requests)):
        hint = "take another routing, or a trace with block ids and --enable-prefix-caching"
        raise InputError(Problem(message="cache_aware routing finds no prefix cache", hint=hint))
    if stepped:
        hint = "take least_loaded routing, or one pipeline stage without drafts"
        message = "replay routes cache_aware without pipelines and speculation"
        raise InputError(Problem(message=message, hint=hint))


def rejections(requests: Requests, settings: SchedulerSettings) -> NDArray[np.int8]:
    """Return why each request is turned away (index into REASONS), 0 for the served.

    The engine refuses prompt + output beyond max_model_len. The KV cache must hold all but the
    last token, or the request could never finish.
    """
    total = requests.input_tokens + requests.output_tokens
    found = np.zeros(len(requests), np.int8)
    reach = np.minimum(total - 1 + settings.draft_slots, settings.max_model_len)
    found[~settings.fits_alone(reach)] = TOO_LONG_FOR_KV
    found[total > settings.max_model_len] = TOO_LONG_FOR_MODEL
    found[(requests.input_tokens < 1) | (requests.output_tokens < 1)] = NO_TOKENS
    return found
