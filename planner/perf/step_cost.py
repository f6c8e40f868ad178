"""The physics of one Deployment, compiled into small tables, and the step time they give.

The closed forms and the simulator read the same `StepCost` through the same functions, so they
cannot disagree about physics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Seconds per unit of everything a batch can vary.

    A step carries `tokens` scheduled tokens (prefill chunk tokens plus decode tokens, a decode
    costing 1 + num_speculative_tokens), `decode_seqs` decoding sequences that read `kv_tokens[g]`
    cached tokens in layer group g (full-attention layers first, then one group per window),
    `rows` sampled rows, `pairs` attended (query, key) pairs of prefill and `prefix_tokens` KV
    tokens that prefill chunks read back. Then

        gpu_s  = max(compute_s[n], memory_s[n] + Σ_g kv_s[g]·kv_tokens[g] + seq_s·decode_seqs)
                 + row_s[rows] + pair_s·pairs + prefix_s·prefix_tokens
                 + (decode_fixed_s if decode_seqs) + (prefill_fixed_s if the step has prefill)
        host_s = host_step_s + host_seq_s·sequences + (host_prefill_s if the step has prefill)
        step_s = max(gpu_s, host_s) if async_scheduling else gpu_s + host_s

    where n is `tokens`, padded up to the next CUDA-graph size when the step is decode only.
    Calibrated deployments have compute_s = 0: the operators' own maxima are already summed into
    memory_s. The ideal calibration has everything else 0 and one fused max, which is exactly the
    step time of the theory.
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
    band: float = 0.0  # relative error band of a step time (from the calibration)
