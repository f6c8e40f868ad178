"""One candidate configuration: what would be launched, in the engine's own flag names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One replica's configuration. Everything emitted as flags comes from here and nowhere else.

    `tensor_parallel_size` × `pipeline_parallel_size` × `data_parallel_size` GPUs form one replica.
    `num_speculative_tokens` 0 means no speculation.
    """

    gpu: str  # catalogue id
    model: str  # catalogue id
    engine: str
    engine_version: str
    weight_dtype: str = "bf16"  # bf16, fp16, fp8, fp8_block, int4, mxfp4, nvfp4
    kv_cache_dtype: str = "bf16"  # bf16, fp16, fp8
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    expert_parallel: bool = False
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    gpu_memory_utilization: float
    block_size: int = 16
    enable_prefix_caching: bool = True
    async_scheduling: bool = True
    num_speculative_tokens: int = 0

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size
