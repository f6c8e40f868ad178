"""What a user must know before believing a profile, one sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.profile.types import ClassProfile, LengthStats, TraceProfile
from planner.text import counted
from planner.units import DAY_S, HOUR_S, MINUTE_S, WEEK_S

MIN_REQUESTS = 1000  # for a P99: ten requests beyond it
NEAR = 1.03  # P99 over P95 below which lengths pile up at a limit; log-normals have 1.5 and more
POOR_FIT = 0.1  # Kolmogorov distance; samples of the fitted law itself stay below 0.01
SUSPICIOUS_REUSE = 0.98
SHAPED_S = 3 * HOUR_S  # over more than this the rate itself has a shape
COARSE = 0.5  # of a mean gap: time steps longer than this hide the arrival process


def cautions(profile: TraceProfile, *, min_requests: int = MIN_REQUESTS) -> tuple[str, ...]:
    """Return the warnings that this profile deserves, the whole trace first, then class by class.

    `min_requests` is what a class needs in an evaluation window for its percentile.
    """
    found = [*_span(profile), *_time(profile), *_reuse(profile)]
    for item in profile.classes:
        found += [*_enough(profile, item, min_requests), *_limits(item), *_fit(profile, item)]
    return tuple(found)


def _span(profile: TraceProfile) -> Iterator[str]:
    if profile.span_s < DAY_S - HOUR_S:
        yield (
            f"the trace covers {_length(profile.span_s)}: it says nothing about the shape of a day "
            "or a week, so its busiest stretch need not be the service's"
        )
    elif profile.span_s < WEEK_S - HOUR_S:
        yield (
            f"the trace covers {_length(profile.span_s)}: it says nothing about the shape of a week"
        )
    if not profile.origin:
        yield "times are relative: hours of the trace cannot be named or matched to a calendar"


def _time(profile: TraceProfile) -> Iterator[str]:
    arrivals = profile.total.arrivals
    quantum_s = arrivals.time_quantum_s
    if quantum_s > 0.0 and quantum_s * arrivals.mean_per_s > COARSE:
        yield (
            f"timestamps come in steps of {quantum_s:g} s, "
            f"{quantum_s * arrivals.mean_per_s:.1f} requests each "
            f"({arrivals.zero_gap_share:.0%} of gaps are zero): "
            "bursts shorter than a step cannot be seen, the gap CV is an artefact of the steps"
        )


def _reuse(profile: TraceProfile) -> Iterator[str]:
    reuse = profile.total.reuse
    if reuse is None:
        yield (
            "the log says nothing about prefix reuse: prefill load is taken in full, "
            "which is an upper bound if prompts share prefixes"
        )
    elif reuse.block_tokens == 0 and reuse.hit_share_by_cache_blocks["inf"] > SUSPICIOUS_REUSE:
        share = reuse.hit_share_by_cache_blocks["inf"]
        yield (
            f"the log claims that {share:.1%} of input tokens were cached: "
            "disaggregated engines report every prompt as cached, check before relying on it"
        )


def _enough(profile: TraceProfile, item: ClassProfile, min_requests: int) -> Iterator[str]:
    if item.requests < min_requests:
        yield (
            f"class {item.name}: {counted(item.requests, 'request')} in all, its percentile needs "
            f"{min_requests:,} in a window"
        )
    elif profile.span_s > HOUR_S and item.arrivals.peak_per_hour < min_requests:
        yield (
            f"class {item.name}: no hour reaches the {min_requests:,} requests that its percentile "
            f"needs (busiest {item.arrivals.peak_per_hour:,}), windows must be merged"
        )


def _limits(item: ClassProfile) -> Iterator[str]:
    if item.requests < MIN_REQUESTS:
        return
    for noun, lengths, what in (
        ("prompts", item.input_tokens, "a context limit"),
        ("outputs", item.output_tokens, "a max_tokens limit"),
    ):
        if piles_up(lengths):
            yield (
                f"class {item.name}: {noun} pile up between P95 ({lengths.p95:,.0f} tokens) and "
                f"P99 ({lengths.p99:,.0f}): {what} shows, without it they would be longer"
            )


def piles_up(lengths: LengthStats) -> bool:
    """Whether the upper tail ends at a wall: P99 within 3 % of P95, well above the median.

    Examples
    --------
    >>> piles_up(LengthStats(mean=9, std=9, p50=1020, p90=2735, p95=4083, p99=4142, max=14050))
    True
    >>> piles_up(LengthStats(mean=100, std=0, p50=100, p90=100, p95=100, p99=100, max=100))
    False
    """
    return lengths.p99 <= NEAR * lengths.p95 and lengths.p95 >= 1.5 * lengths.p50


def _fit(profile: TraceProfile, item: ClassProfile) -> Iterator[str]:
    arrivals = item.arrivals
    distance = min(arrivals.ks_gamma, arrivals.ks_weibull)
    if math.isnan(distance) or distance <= POOR_FIT or item.requests < MIN_REQUESTS:
        return
    why = (
        "they mix the daily shape with bursts"
        if profile.span_s > SHAPED_S
        else "arrivals switch on and off"
    )
    yield (
        f"class {item.name}: no Gamma or Weibull law fits its gaps over the whole trace "
        f"(KS {distance:.2f}, CV {arrivals.gap_cv:.1f}): {why}, formulas for renewal arrivals "
        "do not apply"
    )


def _length(span_s: float) -> str:
    """Write a span.

    Examples
    --------
    >>> _length(20.0), _length(3540.0), _length(86400.0)
    ('20 s', '59 min', '24.0 h')
    """
    if span_s < 2 * MINUTE_S:
        return f"{span_s:.0f} s"
    return f"{span_s / MINUTE_S:.0f} min" if span_s < 2 * HOUR_S else f"{span_s / HOUR_S:.1f} h"
