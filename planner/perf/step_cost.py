"""The physics of one Deployment, compiled into small tables, and the step time they give.

The closed forms and the simulator read the same `StepCost` through the same functions, so they
cannot disagree about physics; their arithmetic is `step_arithmetic`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.perf.quantity import Quantity
from planner.perf.step_arithmetic import (
    attended_pairs,
    gpu_seconds,
    host_seconds,
    kv_seconds,
    overlap_seconds,
    padded_tokens,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Seconds per unit of everything a batch can vary.

    A step carries `tokens` scheduled tokens (prefill chunk tokens plus decode tokens, a decode
    costing 1 + num_speculative_tokens), `decode_seqs` decoding sequences that read `kv_tokens[g]`
    cached tokens in layer group g (full-attention layers first, then one group per window),
    `rows` sampled rows, `pairs` attended (query, key) pairs of prefill and `prefix_tokens` KV
    tokens that prefill chunks read back. Then

        work_s = max(compute_s[n], memory_s[n] + Σ_g kv_s[g]·kv_tokens[g] + seq_s·decode_seqs)
        gpu_s  = √(work_s² + launch_s²) if the step has prefill, else work_s
                 + row_s[rows] + pair_s·pairs + prefix_s·prefix_tokens
                 + (decode_fixed_s if decode_seqs) + (prefill_fixed_s if the step has prefill)
        host_s = host_step_s + host_seq_s·rows + (host_prefill_s if the step has prefill)
        step_s = max(gpu_s, host_s) if async_scheduling else gpu_s + host_s

    where n is `tokens`, padded up to the next CUDA-graph size when the step is decode only.
    Calibrated deployments have compute_s = 0: the operators' own maxima are already summed into
    memory_s. The ideal calibration has everything else 0 and one fused max, which is exactly the
    step time of the theory.

    Details every reader shares:

    - `pairs` is per layer group like `kv_tokens`: in a window group a query attends at most
      `window_tokens[g]` keys. A chunk of q tokens after p tokens has q·p + q(q + 1)/2 full pairs.
    - `rows` counts sequences that sample (decodes plus prompts that finish); the γ extra rows that
      speculation verifies for each are already in `row_s`, and so is their drafting (its reads of
      the context are in `kv_s`). The ideal calibration drafts for nothing.
    - `launch_s` is the host's time to launch the kernels of a step that no CUDA graph replays. The
      GPU hides it behind kernels longer than a launch and waits at the shorter ones: a smooth
      maximum of the two. Decode-only steps replay a graph.
    - `seq_s` also carries the engine's cost per running sequence, and takes back what `memory_s`
      charges per token for prefill only.
    - With data parallelism the step is that of one rank with its own `tokens`; every rank is
      assumed equally loaded, so the experts see data_parallel_size × tokens.
    - With `stages` > 1 gpu_s is the sum over all stages. A batch comes back after `latency_s`;
      a new batch can enter every `interval_s`, and `stages` batches are in flight.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    tokens_per_decode: int  # 1 + num_speculative_tokens
    compute_s: NDArray[np.float64]  # [max_num_batched_tokens + 1]
    memory_s: NDArray[np.float64]  # [max_num_batched_tokens + 1]
    decode_padding: NDArray[np.int64]  # [max_num_batched_tokens + 1]: tokens -> padded tokens
    row_s: NDArray[np.float64]  # [max_num_seqs + 1]
    kv_s: NDArray[np.float64]  # [groups] per cached token read by a decode
    window_tokens: NDArray[np.int64]  # [groups] 0 = full attention
    seq_s: float  # constant-state layers, per decode sequence
    pair_s: NDArray[np.float64]  # [groups] per attended pair of prefill
    prefix_s: float  # per KV token a prefill chunk reads back
    decode_fixed_s: float
    prefill_fixed_s: float
    host_step_s: float
    host_seq_s: float
    host_prefill_s: float
    async_scheduling: bool
    # Pipeline: a step passes `stages` stages; the slowest holds `slowest_stage_share` of gpu_s.
    stages: int = 1
    slowest_stage_share: float = 1.0
    send_s_per_token: float = 0.0  # activation transfer at each of the stages − 1 boundaries
    send_fixed_s: float = 0.0
    launch_s: float = 0.0  # host time to launch a step that carries prefill, overlapped
    frontend_s: float = 0.0  # per request outside the engine loop: adds to TTFT, to no step
    frontend_client_s: float = 0.0  # the same per request in flight, of all ranks together
    frontend_token_s: float = 0.0  # the same per prompt token: text to tokens, copies, hashes
    band: float = 0.0  # relative error band of a step time (from the calibration)


def _at(table: NDArray[np.float64], index: Quantity) -> Quantity:
    """Read a table at integers, or between its entries when a closed form asks for 12.5 rows."""
    position = np.asarray(index)
    if position.dtype.kind in "iub":
        return table[position]
    return np.interp(position, np.arange(len(table)), table)


def _index(cost: StepCost, tokens: Quantity, prefill: Quantity) -> Quantity:
    """Index of the token tables; fractional tokens (fluid models) pad from the next integer."""
    position = np.asarray(tokens)
    if position.dtype.kind in "iub":
        return padded_tokens(cost.decode_padding, position, prefill)
    padded = cost.decode_padding[np.ceil(position).astype(np.int64)]
    no_padding = padded == np.ceil(position)
    return np.where((np.asarray(prefill) == 1) | no_padding, position, padded)


def gpu_step_s(
    cost: StepCost,
    *,
    tokens: Quantity,
    decode_seqs: Quantity,
    kv_tokens: Quantity,
    rows: Quantity,
    pairs: Quantity = 0.0,
    prefix_tokens: Quantity = 0.0,
) -> Quantity:
    """Return GPU time of steps in s, summed over pipeline stages, as `StepCost` defines it.

    Arguments are scalars or equally shaped arrays; `kv_tokens` and `pairs` may have a leading axis
    of layer groups (without it the same amount counts for every group). A step carries prefill
    when `tokens` exceeds what its decodes take.

    Parameters
    ----------
    cost
        The compiled deployment.
    tokens
        Scheduled tokens: prefill chunks plus decodes · tokens_per_decode.
    decode_seqs
        Decoding sequences.
    kv_tokens
        Cached tokens the decodes read, per layer group.
    rows
        Sequences that sample: decodes plus prompts that finish.
    pairs
        (query, key) pairs the prefill chunks attend, per layer group.
    prefix_tokens
        Cached tokens the prefill chunks read back.
    """
    prefill = _has_prefill(cost, tokens, decode_seqs)
    n = _index(cost, tokens, prefill)
    grouped = prefill.ndim + 1
    return gpu_seconds(
        _at(cost.compute_s, n),
        _at(cost.memory_s, n),
        kv_seconds(cost.kv_s, _by_group(cost, kv_tokens, grouped)),
        cost.seq_s * decode_seqs,
        _at(cost.row_s, rows),
        kv_seconds(cost.pair_s, _by_group(cost, pairs, grouped)),
        cost.prefix_s * prefix_tokens,
        cost.decode_fixed_s * (np.asarray(decode_seqs) > 0),
        cost.prefill_fixed_s * prefill,
        cost.launch_s * prefill,
    )


def _has_prefill(cost: StepCost, tokens: Quantity, decode_seqs: Quantity) -> NDArray[np.int64]:
    """1 where a step carries more tokens than its decodes take."""
    return np.asarray(tokens > np.asarray(decode_seqs) * cost.tokens_per_decode).astype(np.int64)


def _by_group(cost: StepCost, amount: Quantity, grouped: int) -> Quantity:
    """Give `amount` a leading axis of layer groups if it has none (`grouped` dimensions if so)."""
    values = np.asarray(amount, dtype=np.float64)
    if values.ndim == grouped:
        return values
    return np.broadcast_to(values, (len(cost.kv_s), *values.shape))


def host_step_s(
    cost: StepCost, *, tokens: Quantity, decode_seqs: Quantity, rows: Quantity
) -> Quantity:
    """Return host time of steps in s; arguments as in `gpu_step_s`."""
    prefill = _has_prefill(cost, tokens, decode_seqs)
    return host_seconds(cost.host_step_s, cost.host_seq_s, cost.host_prefill_s, rows, prefill)


def step_s(
    cost: StepCost,
    *,
    tokens: Quantity,
    decode_seqs: Quantity,
    kv_tokens: Quantity,
    rows: Quantity,
    pairs: Quantity = 0.0,
    prefix_tokens: Quantity = 0.0,
) -> Quantity:
    """Return the time of steps in s, host included; arguments as in `gpu_step_s`.

    Of one pipeline stage (`stages` 1) this is the whole story; otherwise see `latency_s` and
    `interval_s`.
    """
    gpu = gpu_step_s(
        cost,
        tokens=tokens,
        decode_seqs=decode_seqs,
        kv_tokens=kv_tokens,
        rows=rows,
        pairs=pairs,
        prefix_tokens=prefix_tokens,
    )
    host = host_step_s(cost, tokens=tokens, decode_seqs=decode_seqs, rows=rows)
    return overlap_seconds(gpu, host, cost.async_scheduling)


def send_s(cost: StepCost, tokens: Quantity) -> Quantity:
    """Return time of one pipeline boundary in s: send_fixed + send_per_token·tokens."""
    return cost.send_fixed_s + cost.send_s_per_token * tokens


def latency_s(cost: StepCost, gpu: Quantity, host: Quantity, tokens: Quantity) -> Quantity:
    """Return time from a batch's launch to its tokens, in s, through every pipeline stage.

    overlap(gpu, host) + (stages − 1)·send. With one stage it is the step time.
    """
    boundaries = cost.stages - 1
    step = overlap_seconds(gpu, host, cost.async_scheduling)
    return step + boundaries * send_s(cost, tokens) if boundaries else step


def interval_s(cost: StepCost, gpu: Quantity, host: Quantity, tokens: Quantity) -> Quantity:
    """Return time between batches that enter the pipeline, in s: the slowest stage's.

    overlap(gpu·slowest_stage_share, host) + send. With one stage it is the step time.
    """
    step = overlap_seconds(gpu * cost.slowest_stage_share, host, cost.async_scheduling)
    return step + send_s(cost, tokens) if cost.stages > 1 else step


def mixed_step_s(
    cost: StepCost,
    *,
    decode_seqs: Quantity,
    context_tokens: Quantity,
    chunk_tokens: Quantity = 0,
    past_tokens: Quantity = 0.0,
    finishing: Quantity = 0,
) -> Quantity:
    """Return the time of a step with D decodes at one context and one prefill chunk, in s.

    Parameters
    ----------
    cost
        The compiled deployment.
    decode_seqs, context_tokens
        D decodes that each read S cached tokens. Both may be fractional (means).
    chunk_tokens
        Prefill tokens of this step.
    past_tokens
        Prompt tokens before the chunk, already cached.
    finishing
        Prompts that finish in this step and sample a first token.
    """
    windows = [int(w) for w in cost.window_tokens]
    reads = [
        decode_seqs * (np.minimum(context_tokens, w) if w else context_tokens) for w in windows
    ]
    pairs = [attended_pairs(chunk_tokens, past_tokens, w) for w in windows]
    shape = np.broadcast(decode_seqs, context_tokens, chunk_tokens, past_tokens, finishing).shape
    wide = [np.broadcast_to(x, shape) for x in (decode_seqs, chunk_tokens, past_tokens, finishing)]
    decodes, chunk, past, ends = wide
    return step_s(
        cost,
        tokens=chunk + decodes * cost.tokens_per_decode,
        decode_seqs=decodes,
        kv_tokens=np.stack([np.broadcast_to(r, shape) for r in reads]),
        rows=decodes + ends,
        pairs=np.stack([np.broadcast_to(p, shape) for p in pairs]),
        prefix_tokens=np.where(chunk > 0, past, 0.0),
    )
