"""The replicas that `planner simulate` replays: how many, behind what, in one pool or two."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from planner.ingest.requests import Requests
    from planner.sim.disaggregated import Link
    from planner.sim.replay import Replay
    from planner.sim.routing import CacheAware
    from planner.sim.setup import Ready
    from planner.solve.windows import Window
    from planner.spec.slo import Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Replicas and their router; with a link, prefill and decode are separate pools."""

    replicas: int
    routing: str
    cache_aware: CacheAware
    prefill_replicas: int
    link: Link | None

    def counts(self) -> str:
        """Return how many replicas there are of which kind."""
        if self.link is None:
            return f"{self.replicas}"
        return f"({self.prefill_replicas} prefill + {self.replicas} decode)"

    def record(self, setup: Ready) -> dict[str, object]:
        """Return what `--json` says beside the deployment."""
        found: dict[str, object] = {}
        if setup.settings.num_speculative_tokens:
            found["speculation"] = {"acceptance_rates": list(setup.settings.acceptance_rates)}
        if self.routing == "cache_aware":
            found["cache_aware"] = asdict(self.cache_aware)
        if self.link is not None:
            found["disaggregation"] = {
                "prefill_replicas": self.prefill_replicas,
                "decode_replicas": self.replicas,
                "link": asdict(self.link),
            }
        return found

    def lines(self, setup: Ready, done: Replay) -> list[str]:
        """Return what the screen says of pipeline, speculation and pools."""
        from planner.report import format as fmt
        from planner.sim.metrics import percentile_of

        found = []
        if len(done.bubble_s):
            half = fmt.seconds(percentile_of(done.bubble_s, 50.0))
            stages = setup.cost.stages
            found.append(f"{stages} stages: they idled {half} ahead of a request's batches (p50)")
        drafts = setup.settings.num_speculative_tokens
        if drafts:
            step = 1.0 + sum(setup.settings.acceptance_rates)
            found.append(
                f"{drafts} drafts a step give {step:.2f} tokens, by a drafter of one layer"
            )
        if self.link is not None:
            found.append("KV use, busy share and gaps are those of the decode pool")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """When requests come: by themselves, unless turns follow each other or clients send them."""

    sessions: bool
    concurrency: int | None


def kv_link(
    setup: Ready, prefill_replicas: int, bytes_per_s: float | None, *, layerwise: bool
) -> Link | None:
    """Return what the KV crosses between pools; None without a prefill pool."""
    from planner.errors import InputError, Problem
    from planner.sim.disaggregated import Link

    if not prefill_replicas:
        if bytes_per_s is not None or layerwise:
            message = "there is no link between pools: prefill and decode are one"
            hint = "give --prefill-replicas, or leave --kv-link-bytes-per-s and "
            hint += "--layerwise-transfer out"
            raise InputError(Problem(message=message, hint=hint))
        return None
    if bytes_per_s is None:
        hint = "give --kv-link-bytes-per-s, for one GPU and direction: 400 Gbit/s are 50e9"
        raise InputError(Problem(message="the link between the pools has no speed", hint=hint))
    return Link(
        kv_bytes_per_token=setup.memory.kv_bytes_per_token,
        bytes_per_s=bytes_per_s,
        layerwise=layerwise,
        layers=setup.layers,
    )


def replayed(
    requests: Requests,
    setup: Ready,
    slo: Slo,
    fleet: Fleet,
    arrivals: Arrivals,
    windows: tuple[Window, ...] | None,
    *,
    seed: int,
    reuse: bool,
) -> tuple[Replay, float]:
    """Return the replay of a trace through a fleet, and the seconds it took.

    Without `windows` it is judged as a whole: requests of a closed loop have no hour of the day.
    """
    from planner.sim.jit import compiled_before
    from planner.sim.targets import edges_of
    from planner.text import counted

    if not compiled_before(_kernel(setup, fleet, arrivals)):
        click.echo("… compiling the simulator (once, up to 15 s)", err=True)
    click.echo(f"… replaying {counted(len(requests), 'request')}", err=True)
    rules: dict[str, Any] = {
        "seed": seed,
        "classes": [k for k in slo.classes if k.name in requests.class_names],
        "windows": None if windows is None else edges_of(windows, len(requests.class_names)),
        "use_cached_tokens": reuse,
    }
    begun = time.perf_counter()
    done = _run(requests, setup, fleet, arrivals, rules)
    return done, time.perf_counter() - begun


def _kernel(setup: Ready, fleet: Fleet, arrivals: Arrivals) -> str:
    """Return the kernel module that takes longest to compile of those this replay runs."""
    from planner.sim.pipes import is_stepped

    routed = fleet.routing in ("least_loaded", "cache_aware")
    if fleet.link is not None or is_stepped(setup.cost, setup.settings):
        return "stepped_fleet" if routed else "stepped"
    if routed and (arrivals.sessions or arrivals.concurrency is not None):
        return "loop_router"
    if routed:
        return "fleet" if fleet.routing == "least_loaded" else "cache_router"
    return "sglang" if setup.settings.policy == "sglang" else "vllm_v1"


def _run(
    requests: Requests, setup: Ready, fleet: Fleet, arrivals: Arrivals, rules: dict[str, Any]
) -> Replay:
    from planner.sim.disaggregated import Pool, replay_disaggregated
    from planner.sim.refusals import refuse_pools
    from planner.sim.replay import replay

    cost, settings, routing = setup.cost, setup.settings, fleet.routing
    if fleet.link is None:
        return replay(
            requests,
            cost,
            settings,
            replicas=fleet.replicas,
            routing=routing,
            cache_aware=fleet.cache_aware,
            follow_sessions=arrivals.sessions,
            concurrency=arrivals.concurrency,
            **rules,
        )
    refuse_pools(settings, follows_ends=arrivals.sessions or arrivals.concurrency is not None)
    prefill = Pool(
        cost=cost,
        settings=settings,
        replicas=fleet.prefill_replicas,
        routing=routing,
        cache_aware=fleet.cache_aware,
    )
    # The decode pool caches no prefixes: by load is what remains of cache-aware routing.
    calmer = "least_loaded" if routing == "cache_aware" else routing
    decode = Pool(cost=cost, settings=settings, replicas=fleet.replicas, routing=calmer)
    return replay_disaggregated(requests, prefill, decode, fleet.link, **rules).whole
