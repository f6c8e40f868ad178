"""Separate prefill and decode pools: what the KV transfer between them needs."""

from __future__ import annotations

from planner.perf.quantity import Quantity


def transfer_s(
    kv_bytes: Quantity, bandwidth_bytes_per_s: Quantity, latency_s: Quantity = 0.0
) -> Quantity:
    """Return the time to move one request's KV in s: bytes/b + α.

    Source: definition; b is the path's slowest link, α its start-up.

    >>> transfer_s(1e9, 25e9, 0.005)
    0.045
    """
    return kv_bytes / bandwidth_bytes_per_s + latency_s


def visible_transfer_s(
    transfer: float, prefill_s: float, layers: int, fixed_s: float = 0.0
) -> float:
    """Return the transfer a request waits for when layers are sent as they finish, in s.

    max(0, t_xfer − t_prefill·(L − 1)/L) + c₀. Source: Splitwise (arXiv:2311.18677) §4.3; c₀ is 5 to
    8 ms there.

    >>> round(visible_transfer_s(0.045, 0.040, 40, 0.005), 6)
    0.011
    """
    return max(0.0, transfer - prefill_s * (layers - 1) / layers) + fixed_s


def transfer_bandwidth_bytes_per_s(
    requests_per_s: Quantity, prompt_tokens: Quantity, kv_per_token: Quantity
) -> Quantity:
    """Return the sustained bandwidth between the pools in B/s: λ·p·k.

    Source: every prompt's KV crosses once (DistServe: OPT-66B, 512 tokens, 10/s: 12.1 GB/s).

    >>> transfer_bandwidth_bytes_per_s(10, 512, 2_359_296) / 1e9
    12.07959552
    """
    return requests_per_s * prompt_tokens * kv_per_token


def prefill_replicas_per_decode(
    prefill_s_per_request: float, decode_residence_s: float, decode_batch: float
) -> float:
    """Return prefill replicas one decode replica keeps busy: t_prefill·B/(o·τ).

    Source: equal request rates in both pools: a decode replica finishes B/(o·τ) requests/s.

    >>> prefill_replicas_per_decode(0.25, 4.0, 32)
    2.0
    """
    return prefill_s_per_request * decode_batch / decode_residence_s
