"""The traffic that `planner simulate` replays: the trace as a plan reads it, times a factor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from planner.ingest.requests import Requests
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
    from planner.solve.copies import burstier_spread_s

    factor = load / slo.sample_rate
    reading = _reading(requests, setup, slo, factor / replicas)
    if reading.spread_ticks and not sessions:
        click.echo("… spreading requests that share a coarse timestamp over it", err=True)
        requests = replace(requests, arrival_s=reading.arrival_s)
    if factor == 1.0:
        return requests, reading.windows
    spread_s = burstier_spread_s(reading.spread_s) if burstier else reading.spread_s
    how = f": {_how(reading, spread_s)}" if factor > 1.0 else ""
    click.echo(f"… scaling the traffic by {factor:g}{how}", err=True)
    return scale(requests, factor, seed=seed, spread_s=spread_s), reading.windows


def _reading(requests: Requests, setup: Ready, slo: Slo, load: float) -> Reading:
    """Return how `planner recommend` reads this trace for this deployment."""
    from planner.profile.profile import profile_requests
    from planner.solve.copies import reading_at
    from planner.solve.redo import case_of

    made, profile = setup.deployment, profile_requests(requests)
    case = case_of(made, replace(slo, model=made.model), requests, profile)
    return reading_at(case, made.max_model_len, float(setup.memory.kv_tokens), load)


def _how(reading: Reading, spread_s: float) -> str:
    """Return how far copies lie apart, and why."""
    from planner.report import format as fmt

    if spread_s != reading.spread_s:
        return (
            f"copies displaced by up to ± {fmt.duration(spread_s / 2)}, burstier than"
            f" the ± {fmt.duration(reading.spread_s / 2)} that recommend takes"
        )
    real = fmt.percent(reading.real_share)
    return (
        f"copies displaced by up to ± {fmt.duration(spread_s / 2)} as recommend does, for"
        f" {real} of what ten-minute rates deviate from the hour by is the service's own and"
        " not the luck of the sample"
    )
