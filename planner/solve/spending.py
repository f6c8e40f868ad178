"""Cost at the load that is really there: rates of the traffic, classes, kinds of price, energy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from planner.perf.cost import (
    kwh_per_million_tokens,
    usd_per_hour,
    usd_per_million_tokens,
    usd_per_month,
)
from planner.solve.case import Decision
from planner.solve.plan import ChunkAnalysis, ClassCost, Cost, CostAtLoad
from planner.solve.steps import step
from planner.solve.traffic import Traffic
from planner.text import counted
from planner.units import MINUTE_S

Floats = NDArray[np.float64]

WATTS_PER_KW = 1000.0
WHOLE = 0.95  # of a window: a log of an hour ends at its last arrival, somewhat before the hour


def cost_of(decision: Decision, gpus: int) -> Cost:
    """Return what the fleet costs; nothing but the reason where no price is known."""
    case = decision.case
    price, source = case.price(case.gpu(decision.deployment.gpu))
    if price is None:
        return Cost(
            usd_per_gpu_hour=None,
            price_source=source,
            usd_per_hour=None,
            usd_per_month=None,
            usd_per_million_tokens_mean=None,
            usd_per_million_tokens_peak=None,
            mean_tokens_per_s=None,
            peak_tokens_per_s=None,
        )
    hour = usd_per_hour(gpus, price)
    mean, peak = token_rates(decision)
    return Cost(
        usd_per_gpu_hour=price,
        price_source=source,
        usd_per_hour=hour,
        usd_per_month=usd_per_month(hour),
        usd_per_million_tokens_mean=_usd_per_million(hour, mean),
        usd_per_million_tokens_peak=_usd_per_million(hour, peak),
        mean_tokens_per_s=mean,
        peak_tokens_per_s=peak,
    )


def cost_at_load(decision: Decision, chunk: ChunkAnalysis, gpus: int) -> CostAtLoad:
    """Return what the fleet costs at the traffic's own rates.

    Parameters
    ----------
    decision
        The plan.
    chunk
        D and S of the window that decides: what a decode's token takes.
    gpus
        GPUs of the fleet, spares included.
    """
    case = decision.case
    gpu = case.gpu(decision.deployment.gpu)
    price, _ = case.price(gpu)
    hour = None if price is None else usd_per_hour(gpus, price)
    rates = window_rates(decision)
    p95 = float(np.percentile(rates, 95.0, method="inverted_cdf")) if len(rates) else None
    mean = _mean_rate(decision)
    power = None if gpu.tdp_w is None else gpus * gpu.tdp_w / WATTS_PER_KW
    return CostAtLoad(
        p95_tokens_per_s=p95,
        usd_per_million_tokens_p95=_usd_per_million(hour, p95),
        usd_per_hour_by_price=_by_price(decision, gpus),
        classes=_classes(decision, chunk, hour),
        tdp_kw=power,
        kwh_per_million_tokens_mean=None
        if power is None or mean is None
        else kwh_per_million_tokens(power, mean),
    )


def window_rates(decision: Decision) -> Floats:
    """Return served input + output tokens/s of the fleet in every whole evaluation window, grown.

    None of them where the trace is shorter than a window.
    """
    traffic, needs = decision.demand.traffic, decision.case.needs
    window = decision.case.slo.evaluation_window_s
    if traffic.span_s < WHOLE * window:
        return np.empty(0)
    window = min(window, traffic.span_s)
    tokens = np.concatenate([[0.0], np.cumsum(_served_tokens(traffic))])
    edges = np.arange(0.0, traffic.span_s + 1e-9, window)
    places = np.searchsorted(traffic.arrival_s, [*edges, np.inf])
    sums = np.diff(tokens[places])[: max(1, int(traffic.span_s // window))]
    rates: Floats = sums / window * needs.fleet_factor
    return rates


def token_rates(decision: Decision) -> tuple[float | None, float | None]:
    """Return served input + output tokens/s of the fleet: mean, and in the busiest window.

    None where the trace is too short to tell: a minute for the mean, a window for the busiest.
    Windows that the trace does not fill are not counted; the busiest is never below the mean.
    """
    mean, rates = _mean_rate(decision), window_rates(decision)
    return mean, max(mean or 0.0, float(rates.max())) if len(rates) else None


def _served_tokens(traffic: Traffic) -> Floats:
    """Return input + output tokens of each request; none of those that are turned away."""
    return np.where(traffic.served, traffic.input_tokens + traffic.output_tokens, 0.0)


def _mean_rate(decision: Decision) -> float | None:
    traffic = decision.demand.traffic
    if traffic.span_s < MINUTE_S:
        return None
    return float(_served_tokens(traffic).sum()) / traffic.span_s * decision.case.needs.fleet_factor


def _usd_per_million(usd_hour: float | None, tokens_per_s: float | None) -> float | None:
    """Return $ per million tokens; None where price or rate is unknown, or nothing is served."""
    if usd_hour is None or not tokens_per_s:
        return None
    return usd_per_million_tokens(usd_hour, tokens_per_s)


def _by_price(decision: Decision, gpus: int) -> Mapping[str, float]:
    """Return $/h of the fleet by every kind of price that is known of its GPU."""
    case = decision.case
    gpu = case.gpu(decision.deployment.gpu)
    found = {price.kind: usd_per_hour(gpus, price.usd_per_hour) for price in gpu.prices}
    price, source = case.price(gpu)
    if price is not None and source == "slo.yaml":
        found["slo.yaml"] = usd_per_hour(gpus, price)
    return dict(sorted(found.items()))


def _classes(
    decision: Decision, chunk: ChunkAnalysis, usd_hour: float | None
) -> tuple[ClassCost, ...]:
    """Return each class's share of the GPU time, and with it of the cost."""
    traffic, needs = decision.demand.traffic, decision.case.needs
    prefill_s, decode_s = token_seconds(decision, chunk)
    spent = traffic.prompt_tokens * prefill_s + traffic.output_tokens * decode_s
    spent = np.where(traffic.served, spent, 0.0)
    work = np.bincount(traffic.class_id, spent, len(traffic.class_names))
    tokens = np.bincount(traffic.class_id, _served_tokens(traffic), len(traffic.class_names))
    known = _mean_rate(decision) is not None
    rows = []
    for i, name in enumerate(traffic.class_names):
        if tokens[i] <= 0.0:
            continue
        share = float(work[i] / work.sum())
        part = None if usd_hour is None else share * usd_hour
        rate = float(tokens[i] / traffic.span_s * needs.fleet_factor) if known else None
        rows.append(
            ClassCost(
                class_name=name,
                gpu_time_share=share,
                mean_tokens_per_s=rate,
                usd_per_hour=part,
                usd_per_million_tokens_mean=_usd_per_million(part, rate),
            )
        )
    return tuple(rows)


def token_seconds(decision: Decision, chunk: ChunkAnalysis) -> tuple[float, float]:
    """Return the time of a replica that a prompt's token and an answer's token take, in s.

    A prompt's token is its part of a full prefill step, an answer's its part of a step of the D
    decodes that run beside it in the window that decides.
    """
    budget = float(decision.deployment.max_num_batched_tokens)
    decodes = max(1.0, chunk.decode_seqs)
    prefill = float(step(decision.cost, 0.0, 0.0, budget).interval_s) / budget
    decode = float(step(decision.cost, decodes, chunk.context_tokens).interval_s) / decodes
    return prefill, decode


def turned_away(decision: Decision) -> tuple[str, ...]:
    """Return the warning that requests are longer than the plan takes, where some are."""
    served = decision.demand.traffic.served
    count = int((~served).sum())
    if not count:
        return ()
    are = "is" if count == 1 else "are"
    text = (
        f"{count:,} of {counted(len(served), 'request')} {are} longer than max_model_len "
        f"{decision.deployment.max_model_len:,} and would be turned away: they miss every target, "
        "and costs per token leave them out"
    )
    return (text,)
