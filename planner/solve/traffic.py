"""The requests of a trace as one engine configuration would see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.ingest.requests import Requests
from planner.solve.sampling import ALL_SIGNAL, burst_shares

QUANTUM_WORTH_SPREADING_S = 0.5  # coarser timestamps make bursts that the service never saw


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """Arrays of equal length, sorted by arrival. Token counts are float64: they enter equations.

    `prompt_tokens` is what must be prefilled: the input less its cached prefix. `served` is False
    for requests that no replica of this configuration can ever take (longer than max_model_len).
    """

    arrival_s: NDArray[np.float64]
    input_tokens: NDArray[np.float64]
    prompt_tokens: NDArray[np.float64]
    output_tokens: NDArray[np.float64]
    class_id: NDArray[np.int64]
    class_names: tuple[str, ...]
    served: NDArray[np.bool_]
    span_s: float
    sample_rate: float = 1.0
    burst_shares: tuple[float, float, float] = ALL_SIGNAL  # what sampling noise leaves of bursts

    def __len__(self) -> int:
        return len(self.arrival_s)


def traffic_of(
    requests: Requests,
    *,
    max_model_len: int,
    cached_share: float = 0.0,
    time_quantum_s: float = 0.0,
    sample_rate: float = 1.0,
    input_scale: float = 1.0,
    output_scale: float = 1.0,
) -> Traffic:
    """Return the traffic of a trace for one engine configuration.

    Parameters
    ----------
    requests
        The trace.
    max_model_len
        Requests whose input and output together are longer can never be served.
    cached_share
        Share of the reusable prefix (`Requests.cached_tokens`) that the cache really holds.
    time_quantum_s
        Resolution of the timestamps; requests of one tick are spread over it evenly.
    sample_rate
        Share of the service's requests that the trace holds.
    input_scale, output_scale
        Factors on the token counts, for sensitivity.
    """
    output = np.maximum(1.0, requests.output_tokens.astype(np.float64) * output_scale)
    length = requests.input_tokens.astype(np.float64) * input_scale
    cached = np.minimum(requests.cached_tokens * input_scale * cached_share, length - 1.0)
    arrival = spread_ticks(requests.arrival_s, time_quantum_s)
    prompt = np.maximum(1.0, length - np.maximum(0.0, cached))
    served = length + output <= max_model_len
    return Traffic(
        arrival_s=arrival,
        input_tokens=length,
        prompt_tokens=prompt,
        output_tokens=output,
        class_id=requests.class_id,
        class_names=requests.class_names,
        served=served,
        span_s=max(requests.span_s, float(arrival[-1] - arrival[0]), 1.0),
        sample_rate=sample_rate,
        burst_shares=burst_shares(
            arrival, np.where(served, prompt, 0.0), requests.session_id, sample_rate
        ),
    )


def spread_ticks(arrival_s: NDArray[np.float64], quantum_s: float) -> NDArray[np.float64]:
    """Spread requests that share a timestamp evenly over the log's time resolution.

    A log that rounds to 3 s makes batches of simultaneous requests that never existed.

    >>> spread_ticks(np.array([0.0, 0.0, 3.0]), 3.0).tolist()
    [0.75, 2.25, 4.5]
    """
    if quantum_s < QUANTUM_WORTH_SPREADING_S or not len(arrival_s):
        return arrival_s
    _, start, count = np.unique(arrival_s, return_index=True, return_counts=True)
    place = np.arange(len(arrival_s)) - np.repeat(start, count)
    spread: NDArray[np.float64] = arrival_s + quantum_s * (place + 0.5) / np.repeat(count, count)
    return spread
