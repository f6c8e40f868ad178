"""Prefill and decode in separate pools: two replays with the KV transfer between them.

A request is prefilled in the first pool, its KV crosses the link of its prefill replica, and it
arrives in the second pool. Nothing flows back, so the pools are replayed one after the other, which
is exact. Left out: the blocks that either side holds while the KV is on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.perf.disaggregation import transfer_s
from planner.perf.step_cost import StepCost
from planner.sim.kernel import world
from planner.sim.load import subset
from planner.sim.measuring import Totals
from planner.sim.refusals import refuse_pools, rejections
from planner.sim.replay import Replay, replay
from planner.sim.routing import CACHE_AWARE, CacheAware
from planner.sim.rows import outside_s, spread
from planner.sim.settings import SchedulerSettings
from planner.sim.targets import EVERYTHING, METRIC_CODES, judging, results
from planner.spec.slo import WorkloadClass

Floats = NDArray[np.float64]

FIRST_TOKENS = ("decode", "prefill")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Equal replicas of one kind, and what sends requests to them."""

    cost: StepCost
    settings: SchedulerSettings
    replicas: int = 1
    routing: str = "random"
    cache_aware: CacheAware = CACHE_AWARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The way of the KV from a prefill replica; transfers of one replica follow each other.

    With `layerwise` each layer is sent when it is computed, so all but the last layer's share of
    the prefill hides the transfer (`perf.disaggregation.visible_transfer_s`).
    """

    kv_bytes_per_token: float  # of one rank: every rank has a link of its own
    bytes_per_s: float
    latency_s: float = 0.0
    layerwise: bool = False
    layers: int = 1
    fixed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Disaggregated:
    """Both pools' replays, and `whole`: latencies from first arrival to last token.

    `whole` has its counts from both pools, KV use, figures over time and gaps from the decode pool.
    """

    whole: Replay
    prefill: Replay
    decode: Replay
    handed_s: Floats  # per request: when its KV is in the decode pool, NaN if it never goes there


def replay_disaggregated(
    requests: Requests,
    prefill: Pool,
    decode: Pool,
    link: Link,
    *,
    first_token: str = "decode",
    seed: int = 42,
    classes: Sequence[WorkloadClass] = (),
    windows: Sequence[Floats] | None = None,
    use_cached_tokens: bool = False,
    bin_s: float = 60.0,
    debug: bool = False,
) -> Disaggregated:
    """Replay a trace through a prefill pool, the KV transfer and a decode pool.

    Parameters
    ----------
    requests
        The trace, sorted by arrival.
    prefill, decode
        The two pools. The decode pool keeps no prefix cache: prompts come from the other.
    link
        What the KV crosses.
    first_token
        Who gives out the first token: "decode" as in vLLM, where the decode replica computes the
        prompt's last token again, or "prefill" as in DistServe, Splitwise and SGLang.
    seed, classes, windows, use_cached_tokens, bin_s, debug
        As in `replay`; cached tokens are the prefill pool's.

    Raises
    ------
    InputError
        A pool's policy is not vLLM V1's, or its order is not first come, first served.
    """
    for pool in (prefill, decode):
        refuse_pools(pool.settings)
    if first_token not in FIRST_TOKENS:
        raise ValueError(f"first_token {first_token!r} is not one of {FIRST_TOKENS}")
    edges = windows if windows is not None else [EVERYTHING] * len(requests.class_names)
    refused = rejections(requests, decode.settings.counted_in(tables=False))
    first = replay(
        replace(subset(requests, refused == 0), output_tokens=_ones(np.sum(refused == 0))),
        replace(prefill.cost, frontend_s=0.0, frontend_token_s=0.0),
        prefill.settings,
        replicas=prefill.replicas,
        routing=prefill.routing,
        cache_aware=prefill.cache_aware,
        seed=seed,
        use_cached_tokens=use_cached_tokens,
        bin_s=bin_s,
        debug=debug,
    )
    accepted = np.flatnonzero(refused == 0)
    refused[accepted] = first.rejected
    prefilled = spread(first.arrival_s + first.ttft_s, accepted, len(requests), np.nan)
    prefilled[refused > 0] = np.nan
    handed = spread(handed_over_s(first, link), accepted, len(requests), np.nan)
    ends_early = first_token == "prefill" and np.equal(requests.output_tokens, 1)
    handed[ends_early] = np.nan
    order = np.argsort(_instants(handed), kind="stable")
    order = order[: np.count_nonzero(~np.isnan(handed))]
    arriving = _in_order(requests, order, handed)
    second = replay(
        arriving,
        replace(decode.cost, frontend_s=0.0, frontend_token_s=0.0),
        replace(decode.settings, enable_prefix_caching=False),
        replicas=decode.replicas,
        routing=decode.routing,
        seed=seed,
        classes=_only_itl(classes),
        windows=edges,
        first_elsewhere_s=prefilled[order]
        if first_token == "prefill"
        else np.full(len(order), np.nan),
        bin_s=bin_s,
        debug=debug,
    )
    outside = outside_s(prefill.cost, requests.input_tokens)
    times = _latencies(requests, prefilled, order, second, first_token, outside)
    for values in times.values():
        values[refused > 0] = np.inf
    times[world.TPOT][requests.output_tokens <= 1] = np.nan
    rules = judging(requests, refused, _without_itl(classes), edges)
    judged = results(requests, rules, times, second.gaps, rules.allowed)
    n = len(requests)
    whole = replace(
        second,
        class_id=requests.class_id,
        arrival_s=requests.arrival_s,
        input_tokens=requests.input_tokens,
        ttft_s=times[world.TTFT],
        tpot_s=times[world.TPOT],
        e2e_s=times[world.E2E],
        queue_s=spread(first.queue_s, accepted, n, np.nan),
        preemptions=spread(first.preemptions, accepted, n, 0)
        + spread(second.preemptions, order, n, 0),
        replica=spread(second.replica, order, n, -1),
        rejected=refused,
        replicas=prefill.replicas + decode.replicas,
        routing=prefill.routing,
        totals=_summed(first, second),
        targets=(*second.targets, *judged),
        bubble_s=np.zeros(0),
    )
    return Disaggregated(whole=whole, prefill=first, decode=second, handed_s=handed)


def handed_over_s(prefill: Replay, link: Link) -> Floats:
    """Return when each request's KV has crossed the link of its prefill replica, in s.

    A transfer begins when the prompt is computed, layer by layer with its first layer, and when the
    one before it on the same replica is through; it ends no earlier than the prompt.
    """
    done = prefill.arrival_s + prefill.ttft_s
    begin = done.copy()
    if link.layerwise:
        computing = done - (prefill.arrival_s + prefill.queue_s)
        begin -= computing * (link.layers - 1) / link.layers
    took = transfer_s(
        prefill.input_tokens * link.kv_bytes_per_token, link.bytes_per_s, link.latency_s
    )
    handed = np.full(len(done), np.nan)
    for r in range(prefill.replicas):
        mine = np.flatnonzero(prefill.replica == r)
        mine = mine[np.argsort(_instants(begin[mine]), kind="stable")]
        ends = _one_by_one(begin[mine], np.asarray(took)[mine])
        handed[mine] = np.maximum(ends, done[mine]) + link.fixed_s
    return handed


def _instants(times_s: Floats) -> Floats:
    """Return times to the nanosecond: sums of differences of one moment are one moment."""
    rounded: Floats = np.round(times_s, 9)
    return rounded


def _one_by_one(begin_s: Floats, took_s: Floats) -> Floats:
    """Return ends of jobs served in order: Σ took + the latest start that the line allows."""
    work = np.cumsum(took_s)
    ends: Floats = np.maximum.accumulate(begin_s - (work - took_s)) + work
    return ends


def _latencies(
    requests: Requests,
    prefilled: Floats,
    order: NDArray[np.int64],
    second: Replay,
    first_token: str,
    outside: Floats,
) -> dict[int, Floats]:
    """Return latencies by metric code; the client waits for the front end once."""
    n = len(requests)
    last = spread(second.arrival_s + second.e2e_s, order, n, np.nan)
    last = np.where(np.isnan(last), prefilled, last)
    first = prefilled
    if first_token == "decode":
        first = spread(second.arrival_s + second.ttft_s, order, n, np.nan)
    gaps = np.maximum(requests.output_tokens - 1, 1)
    return {
        world.TTFT: first - requests.arrival_s + outside,
        world.TPOT: (last - first) / gaps,
        world.E2E: last - requests.arrival_s + outside,
    }


def _in_order(requests: Requests, order: NDArray[np.int64], handed_s: Floats) -> Requests:
    """Return the requests as they arrive in the decode pool, without what they had cached."""
    return replace(
        requests,
        arrival_s=np.maximum.accumulate(handed_s[order]),
        input_tokens=requests.input_tokens[order],
        output_tokens=requests.output_tokens[order],
        class_id=requests.class_id[order],
        cached_tokens=np.zeros(len(order), np.int64),
        session_id=requests.session_id[order],
        block_tokens=0,
        block_offset=np.zeros(0, np.int64),
        block_ids=np.zeros(0, np.int64),
        observed_ttft_s=np.zeros(0),
        observed_e2e_s=np.zeros(0),
    )


def _ones(count: int) -> NDArray[np.int64]:
    return np.ones(count, np.int64)


def _only_itl(classes: Sequence[WorkloadClass]) -> list[WorkloadClass]:
    return [
        replace(k, targets=tuple(t for t in k.targets if METRIC_CODES[t.metric] == world.ITL))
        for k in classes
    ]


def _without_itl(classes: Sequence[WorkloadClass]) -> list[WorkloadClass]:
    return [
        replace(k, targets=tuple(t for t in k.targets if METRIC_CODES[t.metric] != world.ITL))
        for k in classes
    ]


def _summed(first: Replay, second: Replay) -> Totals:
    return replace(
        second.totals,
        **{
            name: getattr(first.totals, name) + getattr(second.totals, name)
            for name in ("events", "steps", "preemptions", "recomputed_tokens")
        },
        hit_tokens=first.totals.hit_tokens,
    )
