"""Words for the plan's ids. An id nobody has words for is shown as it is, never dropped."""

from __future__ import annotations

import re
from collections.abc import Mapping

VERDICTS: Mapping[str, str] = {
    "holds": "holds the ten minutes with its whole band",
    "knife_edge": "on a knife's edge: overload in the ten minutes lies inside the band",
    "overloads": "overloads: prompts queue for as long as the ten minutes last",
}
VERDICTS_SHORT: Mapping[str, str] = {
    "holds": "holds",
    "knife_edge": "knife's edge",
    "overloads": "overloads",
}
GRADES: Mapping[str, str] = {
    "measured": "measured",
    "calibrated": "model calibrated on measurements",
    "datasheet": "datasheet",
    "published": "published",
    "closed_form": "closed-form estimate",
    "replayed": "replayed",
    "declared": "declared by you",
}
REASONS: Mapping[str, str] = {
    "costs_more": "costs more",
    "violates": "misses a target",
    "overloads": "overloads in the surge",
    "does_not_fit": "does not fit in memory",
    "engine_default": "engine defaults",
    "not_allowed": "not allowed",
    "smaller_margin": "no larger margin",
}
OUTCOMES: Mapping[str, str] = {
    "chosen": "holds the plan",
    "misses_where_cheaper": "at every count that would cost less, a target is missed",
    "no_cheaper_at_best": "no cheaper even if only throughput counted",
    "does_not_fit": "does not fit in memory",
    "slower_everywhere": "in every step slower than experts cut over the GPUs, with as much memory",
}
SPLITS: Mapping[str, str] = {
    "no_cheaper_at_best": "no cheaper even if only throughput counted",
    "not_asked": "could be cheaper by throughput alone; --share-or-split asks by replay",
    "misses": "a pool misses a target at every count",
    "no_cheaper": "no cheaper by replay",
    "cheaper": "cheaper by replay",
}
PRIORITIES: Mapping[str, str] = {
    "no_cheaper_at_best": "is no cheaper even if only throughput counted",
    "not_asked": "could be cheaper by throughput alone; --share-or-split asks by replay",
    "not_replayed": "is not replayed together with the rest of the plan",
    "no_cheaper": "is no cheaper by replay",
    "cheaper": "is cheaper",
}
VARIANTS: Mapping[str, str] = {
    "saves": "fewer replicas hold",
    "no_fewer": "no fewer replicas hold",
    "same": "holds on as many replicas",
    "costs_more": "needs more replicas",
    "misses": "misses a target at every count",
    "throughput": "cannot save a replica: throughput alone needs as many",
    "one_replica": "cannot save a replica: there is only one",
    "no_prefix_ids": "changes nothing here: the trace names no shared prefixes",
    "prefix_cache_off": "finds nothing: the plan's prefix cache is off",
    "kv_never_full": "cannot save a replica: every slot with the longest request fits the KV cache",
    "does_not_fit": "does not fit in memory",
    "already_highest": "the plan's is the highest with which the engine starts",
    "not_combined": "not replayed together with the rest of the plan",
}
FIELDS: Mapping[str, str] = {
    "output_tokens": "output length",
    "input_tokens": "prompt length",
    "prompt_tokens": "prompt length",
    "step_time": "step time",
    "draw": "which requests meet on a replica",
    "bursts_of_the_sample": "the sample's bursts",
    "session_reuse": "session history",
    "growth": "growth",
    "load": "load",
    "headroom": "headroom",
    "kv_capacity": "KV capacity",
    "kv_tokens": "KV capacity",
    "seed": "seed",
    "demand": "demand",
}
DOUBTS: Mapping[str, str] = {
    "step_time": "steps slower or faster by their band (section 8)",
    "draw": "another draw of which requests meet on a replica",
    "bursts_of_the_sample": "the sample's bursts are the service's own",
}
METRICS: Mapping[str, str] = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}


_METRIC_ID = re.compile(r"\b(?:all )?(ttft_s|tpot_s|itl_s|e2e_s)\b")
_ONLY_CLASS = re.compile(r"\ball (?=TTFT|TPOT|ITL|E2E)")


def worded(text: str) -> str:
    """Return `text` with metric ids as people say them.

    >>> worded("chat ttft_s p99 ≤ 2 s")
    'chat TTFT p99 ≤ 2 s'
    >>> worded("all ttft_s p99 ≤ 2 s")
    'TTFT p99 ≤ 2 s'
    """
    return _METRIC_ID.sub(lambda match: METRICS[match[1]], text)


def without_only_class(text: str) -> str:
    """Return `text` without the name that the one class of an undivided trace has.

    >>> without_only_class("nearest to its limit is all TPOT p99 ≤ 200 ms")
    'nearest to its limit is TPOT p99 ≤ 200 ms'
    """
    return _ONLY_CLASS.sub("", text)


def word(table: Mapping[str, str], key: str) -> str:
    """Return the words for `key`, or `key` with spaces for underscores.

    >>> word(VERDICTS, "holds"), word(OUTCOMES, "some_new_outcome")
    ('holds the ten minutes with its whole band', 'some new outcome')
    """
    return table.get(key, key.replace("_", " "))


def assumption(key: str) -> str:
    """Return the words for what a sensitivity moves.

    >>> assumption("output_tokens"), assumption("tpot_s target of chat")
    ('output length', 'TPOT target of chat')
    """
    return worded(key) if " " in key or key in METRICS else word(FIELDS, key)
