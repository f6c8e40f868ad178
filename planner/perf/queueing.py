"""Waiting times of classical queues: bounds and checks, not a substitute for a replay.

λ arrivals per second · E[S] mean service time · ρ = λE[S] utilisation · c² squared coefficients of
variation of arrivals (a) and service (s). Approximations hold below ρ ≈ 0.85 for a service time
that does not depend on the load; a batching server's does, so solve a fixed point first.
"""

from __future__ import annotations

import math

import numpy as np

from planner.perf.quantity import Quantity


def utilization(arrivals_per_s: Quantity, service_s: Quantity, servers: Quantity = 1) -> Quantity:
    """Return the share of time servers are busy: ρ = λ·E[S]/c.

    Source: definition. At 1 and above no steady state exists.

    >>> utilization(2.0, 0.25)
    0.5
    """
    return arrivals_per_s * service_s / servers


def wait_md1_s(arrivals_per_s: Quantity, service_s: Quantity) -> Quantity:
    """Return mean wait of M/D/1 in s: λD²/(2(1 − λD)).

    Source: DistServe (arXiv:2401.09670) eq. 1; Pollaczek-Khinchine without service variance.
    Infinite at ρ ≥ 1.

    >>> float(wait_md1_s(2.0, 0.25))
    0.125
    """
    return wait_mg1_s(arrivals_per_s, service_s, 0.0)


def wait_mg1_s(arrivals_per_s: Quantity, service_s: Quantity, service_cv2: Quantity) -> Quantity:
    """Return mean wait of M/G/1 in s: λE[S²]/(2(1 − ρ)), E[S²] = E[S]²(1 + c_s²).

    Source: Pollaczek-Khinchine. Infinite at ρ ≥ 1.

    >>> float(wait_mg1_s(2.0, 0.25, 1.0))
    0.25
    """
    load = np.asarray(arrivals_per_s * service_s, dtype=np.float64)
    second_moment = service_s * service_s * (1.0 + service_cv2)
    slack = np.where(load < 1.0, 1.0 - load, np.nan)
    wait = arrivals_per_s * second_moment / (2.0 * slack)
    return np.where(load < 1.0, wait, np.inf)


def wait_gg1_s(
    arrivals_per_s: Quantity, service_s: Quantity, arrival_cv2: Quantity, service_cv2: Quantity
) -> Quantity:
    """Return mean wait of G/G/1 in s: ρ/(1 − ρ)·(c_a² + c_s²)/2·E[S].

    Source: Kingman's heavy-traffic approximation; exact for M/M/1. Infinite at ρ ≥ 1.

    >>> float(wait_gg1_s(2.0, 0.25, 1.0, 1.0))
    0.25
    """
    load = np.asarray(arrivals_per_s * service_s, dtype=np.float64)
    slack = np.where(load < 1.0, 1.0 - load, np.nan)
    wait = load / slack * (arrival_cv2 + service_cv2) / 2.0 * service_s
    return np.where(load < 1.0, wait, np.inf)


def erlang_c(servers: int, offered_load: float) -> float:
    """Return the probability that an arrival waits in M/M/c with offered load a = λE[S].

    C = B/(1 − ρ(1 − B)) from the Erlang-B recursion B_k = aB_{k−1}/(k + aB_{k−1}), which never
    overflows. Source: Erlang 1917. 1 at ρ ≥ 1.

    >>> round(erlang_c(1, 0.5), 6), round(erlang_c(2, 1.0), 6)
    (0.5, 0.333333)
    """
    if offered_load >= servers:
        return 1.0
    blocked = 1.0
    for k in range(1, int(servers) + 1):
        blocked = offered_load * blocked / (k + offered_load * blocked)
    load = offered_load / servers
    return blocked / (1.0 - load * (1.0 - blocked))


def wait_ggc_s(
    arrivals_per_s: float, service_s: float, servers: int, arrival_cv2: float, service_cv2: float
) -> float:
    """Return mean wait of G/G/c in s: C(c, a)/(cμ − λ)·(c_a² + c_s²)/2.

    Source: Allen-Cunneen approximation; exact for M/M/c. Infinite at ρ ≥ 1.

    >>> round(wait_ggc_s(2.0, 0.25, 1, 1.0, 1.0), 6)
    0.25
    """
    offered = arrivals_per_s * service_s
    if offered >= servers:
        return math.inf
    spare_per_s = servers / service_s - arrivals_per_s
    return erlang_c(servers, offered) / spare_per_s * (arrival_cv2 + service_cv2) / 2.0


def wait_exceeds(
    wait_s: Quantity, mean_wait_s: Quantity, waiting_probability: Quantity
) -> Quantity:
    """Return P(W > w) = p·exp(−p·w/E[W]): an exponential tail with the queue's mean.

    p is the probability of waiting at all (ρ in a single-server queue). Exact for M/M/c, and the
    heavy-traffic limit of the others. Source: Kingman 1962.

    >>> round(float(wait_exceeds(0.5, 0.25, 0.5)), 6)  # M/M/1, μ − λ = 2 per s: 0.5·e⁻¹
    0.18394
    """
    mean = np.maximum(np.asarray(mean_wait_s, dtype=np.float64), 1e-300)
    return waiting_probability * np.exp(-waiting_probability * wait_s / mean)


def wait_percentile_s(percentile: float, mean_wait_s: float, waiting_probability: float) -> float:
    """Return the wait that `percentile` % of arrivals do not exceed, in s: E[W]/p·ln(p/(1 − q)).

    Source: the exponential tail solved for w; 0 where most never wait.

    >>> round(wait_percentile_s(99, 0.25, 0.5), 4)
    1.956
    """
    beyond = 1.0 - percentile / 100.0
    if waiting_probability <= beyond:
        return 0.0
    return mean_wait_s / waiting_probability * math.log(waiting_probability / beyond)


def little_residents(arrivals_per_s: Quantity, residence_s: Quantity) -> Quantity:
    """Return mean number in a system: L = λ·W.

    Source: Little 1961; holds for any steady state.

    >>> little_residents(5.0, 4.0)
    20.0
    """
    return arrivals_per_s * residence_s


def throughput_bound_per_s(
    prefill_s_per_request: float, output_tokens: float, decode_step_s: float, batch_seqs: float
) -> float:
    """Return the most requests/s a replica sustains: 1/(t_prefill + o·τ(B)/B).

    Source: time of the engine that one request takes: its prefill plus its share of each decode.

    >>> throughput_bound_per_s(0.05, 200, 0.02, 40)
    6.666666666666666
    """
    return 1.0 / (prefill_s_per_request + output_tokens * decode_step_s / batch_seqs)
