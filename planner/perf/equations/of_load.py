"""Equations of queues, preemption and cost, each with a case worked out apart."""

from __future__ import annotations

import math

from planner.perf import cost as c
from planner.perf import preemption as p
from planner.perf import queueing as q
from planner.perf.equations.equation import equation as eq

QUEUES = (
    eq(
        q.utilization,
        "ρ",
        "1",
        "{arrivals_per_s}·{service_s}/{servers}",
        0.5,
        arrivals_per_s=2.0,
        service_s=0.25,
        servers=1,
    ),
    eq(
        q.wait_md1_s,
        "W",
        "s",
        "{arrivals_per_s}·{service_s}²/(2·(1 − {arrivals_per_s}·{service_s}))",
        0.125,
        arrivals_per_s=2.0,
        service_s=0.25,
    ),
    eq(
        q.wait_mg1_s,
        "W",
        "s",
        "{arrivals_per_s}·{service_s}²·(1 + {service_cv2})/(2·(1 − {arrivals_per_s}·{service_s}))",
        0.25,  # M/M/1: ρ/(μ − λ)
        arrivals_per_s=2.0,
        service_s=0.25,
        service_cv2=1.0,
    ),
    eq(
        q.wait_gg1_s,
        "W",
        "s",
        "ρ/(1 − ρ)·({arrival_cv2} + {service_cv2})/2·{service_s}, ρ = {arrivals_per_s}·{service_s}",
        0.25,
        arrivals_per_s=2.0,
        service_s=0.25,
        arrival_cv2=1.0,
        service_cv2=1.0,
    ),
    eq(
        q.erlang_c,
        "P(wait)",
        "1",
        "ErlangC({servers}, {offered_load})",
        1.0 / 3.0,
        servers=2,
        offered_load=1.0,
    ),
    eq(
        q.wait_ggc_s,
        "W",
        "s",
        "ErlangC({servers}, a)/({servers}/{service_s} − {arrivals_per_s})"
        "·({arrival_cv2} + {service_cv2})/2, a = {arrivals_per_s}·{service_s}",
        1.0 / 12.0,  # M/M/2, λ = 4, μ = 4: (1/3)/(8 − 4)
        arrivals_per_s=4.0,
        service_s=0.25,
        servers=2,
        arrival_cv2=1.0,
        service_cv2=1.0,
    ),
    eq(
        q.wait_exceeds,
        "P(W > w)",
        "1",
        "{waiting_probability}·exp(−{waiting_probability}·{wait_s}/{mean_wait_s})",
        0.5 * math.exp(-1.0),
        wait_s=0.5,
        mean_wait_s=0.25,
        waiting_probability=0.5,
    ),
    eq(
        q.wait_percentile_s,
        "w_q",
        "s",
        "max(0, {mean_wait_s}/{waiting_probability}"
        "·ln({waiting_probability}/(1 − {percentile}/100)))",
        math.log(50.0) / 2.0,
        percentile=99,
        mean_wait_s=0.25,
        waiting_probability=0.5,
    ),
    eq(
        q.little_residents,
        "L",
        "sequences",
        "{arrivals_per_s}·{residence_s}",
        20.0,
        arrivals_per_s=5.0,
        residence_s=4.0,
    ),
    eq(
        q.throughput_bound_per_s,
        "λ_max",
        "1/s",
        "1/({prefill_s_per_request} + {output_tokens}·{decode_step_s}/{batch_seqs})",
        1.0 / 0.15,
        prefill_s_per_request=0.05,
        output_tokens=200,
        decode_step_s=0.02,
        batch_seqs=40,
    ),
)

PREEMPTION = (
    eq(
        p.held_tokens_mean,
        "μ",
        "tokens",
        "{prompt_output_mean}/{output_mean} + {output_square_mean}/(2·{output_mean})",
        1100.0,
        prompt_output_mean=200_000,
        output_mean=200,
        output_square_mean=40_000,
    ),
    eq(
        p.overflow_probability,
        "P(overflow)",
        "1",
        "Φ(−({capacity_tokens} − {running_seqs}·{held_mean})/(√{running_seqs}·{held_std}))",
        0.15865525,  # one standard deviation of room
        running_seqs=100,
        held_mean=400,
        held_std=300,
        capacity_tokens=43_000,
    ),
    eq(
        p.safe_running_seqs,
        "N",
        "sequences",
        "N from N·{held_mean} + {z}·√N·{held_std} = {capacity_tokens}",
        100.0,
        held_mean=400,
        held_std=300,
        capacity_tokens=43_000,
        z=1.0,
    ),
    eq(
        p.load_factor_to_capacity,
        "x",
        "1",
        "{capacity_tokens}/{mean_held_total}",
        4.0,
        mean_held_total=10_000,
        capacity_tokens=40_000,
    ),
    eq(
        p.recompute_s,
        "t",
        "s",
        "{tokens}/{prefill_tokens_per_s}",
        0.1,
        tokens=2000,
        prefill_tokens_per_s=20_000,
    ),
)

COST = (
    eq(
        c.usd_per_hour,
        "$/h",
        "$/h",
        "{gpus}·{usd_per_gpu_hour}",
        23.6,
        gpus=8,
        usd_per_gpu_hour=2.95,
    ),
    eq(c.usd_per_month, "$/month", "$", "730·{usd_hour}", 7300.0, usd_hour=10.0),
    eq(
        c.usd_per_million_tokens,
        "$/Mtok",
        "$",
        "10⁶·{usd_hour}/(3600·{tokens_per_s})",
        1.0,
        usd_hour=3.6,
        tokens_per_s=1000,
    ),
    eq(
        c.kwh_per_million_tokens,
        "kWh/Mtok",
        "kWh",
        "10⁶·{power_kw}/(3600·{tokens_per_s})",
        1.0,
        power_kw=7.2,
        tokens_per_s=2000,
    ),
)
