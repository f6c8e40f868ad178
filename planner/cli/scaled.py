"""The traffic that `planner simulate` replays: the trace as a plan reads it, times a factor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from planner.ingest.requests import Requests
    from planner.sim.copying import Copying
    from planner.sim.setup import Ready
    from planner.solve.copies import Reading
    from planner.solve.windows import Window
    from planner.spec.slo import Slo


def scaled(
    requests: Requests,
    setup: Ready,
    slo: Slo,
    replicas: int,
    *,
    load: float,
    seed: int,
    burstier: bool,
    sessions: bool,
) -> tuple[Requests, tuple[Window, ...]]:
    """Return the whole service's requests times `load`, and the windows to judge them in.

    Says on stderr how they are made. Windows are merged by the requests that the log holds. With
    `sessions`, think times are the log's own, so that coarse timestamps stay as they are.
    """
    from planner.sim.load import scale
    from planner.solve.copies import burstier as closer

    factor = load / slo.sample_rate
    reading = _reading(requests, setup, slo, factor / replicas)
    if reading.spread_ticks and not sessions:
        click.echo("… spreading requests that share a coarse timestamp over it", err=True)
        requests = replace(requests, arrival_s=reading.arrival_s)
    if factor == 1.0:
        return requests, reading.windows
    copying = closer(reading.copying) if burstier else reading.copying
    how = f": {_how(reading, copying)}" if factor > 1.0 else ""
    click.echo(f"… scaling the traffic by {factor:g}{how}", err=True)
    return scale(requests, factor, seed=seed, copying=copying), reading.windows


def _reading(requests: Requests, setup: Ready, slo: Slo, load: float) -> Reading:
    """Return how `planner recommend` reads this trace for this deployment."""
    from planner.profile.profile import profile_requests
    from planner.solve.copies import reading_at
    from planner.solve.redo import case_of

    made, profile = setup.deployment, profile_requests(requests)
    case = case_of(made, replace(slo, model=made.model), requests, profile)
    return reading_at(case, made.max_model_len, float(setup.memory.kv_tokens), load)


def _how(reading: Reading, copying: Copying) -> str:
    """Return how far copies lie apart, and whose requests their sessions bring."""
    from planner.report import format as fmt

    def apart(how: Copying) -> str:
        *nearer, (widest, _) = how.within
        parts = [f"{fmt.percent(p)} by at most {fmt.duration(width / 2)}" for width, p in nearer]
        more = f" ({', '.join(parts)} at random)" if parts else ""
        return f"by up to ± {fmt.duration(widest / 2)}{more}"

    if copying != reading.copying:
        return (
            f"copies displaced {apart(copying)}, burstier than recommend, which displaces them"
            f" {apart(reading.copying)}"
        )
    lengths = ""
    if any(mixture[-1][0] > 0.0 for mixture in copying.content):
        lengths = ", their sessions with the lengths of others of their class"
    return f"copies displaced {apart(copying)} as recommend does{lengths}"
