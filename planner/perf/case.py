"""A deployment with everything that its physics needs."""

from __future__ import annotations

from dataclasses import dataclass

from planner.perf.formats import half_precision
from planner.spec.calibration import AttentionEfficiency, Calibration
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# Of a kernel's fixed time in the operator tables. Their loops launch one kernel after the other; a
# captured graph starts a kernel while the last one drains. One number for matrices and attention,
# which closed loops of both kinds of model agree on; expert kernels gain nothing.
GRAPH_FIXED_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The arguments of `compile_step_cost`, carried together."""

    model: Model
    gpu: Gpu
    engine: Engine
    calibration: Calibration
    deployment: Deployment

    @property
    def bandwidth(self) -> float:
        """Memory bandwidth of one GPU, B/s."""
        return self.gpu.memory_bandwidth_bytes_per_s

    @property
    def half_peak(self) -> float:
        """Dense 16-bit peak of one GPU, FLOP/s."""
        return self.gpu.peak_flops_per_s[half_precision(self.gpu)]

    @property
    def tp(self) -> int:
        """Tensor-parallel size."""
        return self.deployment.tensor_parallel_size

    @property
    def heads(self) -> float:
        """Query heads of one rank."""
        return self.model.num_attention_heads / self.tp

    @property
    def attention(self) -> AttentionEfficiency:
        """Attention efficiencies of the deployment's KV format."""
        fp8 = self.deployment.kv_cache_dtype == "fp8"
        return self.calibration.attention["fp8" if fp8 else "bf16"]
