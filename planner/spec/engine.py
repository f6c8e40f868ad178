"""A serving engine at a version, as the catalogue declares it (`schemas/engine.schema.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDefault:
    """One row of the engine's table of defaults by device memory, first match wins."""

    min_memory_bytes: float
    excluded_names: tuple[str, ...]  # "a100": vLLM gives A100-80GB the small tier
    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRule:
    """How the engine turns visible memory into KV memory (`perf.memory` evaluates it)."""

    rule: str  # "vllm_v1" or "sglang"
    gpu_memory_utilization: float
    sampler_bytes_per_seq_vocab: float  # peak of the sampler's profile run
    non_torch_bytes_by_tp: Mapping[int, float]
    graphs_in_budget: bool  # CUDA-graph memory subtracted before the KV cache is sized
    graph_bytes: float
    # SGLang's own reserve outside weights and KV: named constants, see the engine's YAML file.
    reserve_bytes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Scheduler policy, defaults, memory rule and fitted host overheads of one engine version."""

    id: str  # "vllm"
    version: str  # "0.33"
    aliases: tuple[str, ...] = ()
    policy: str  # "vllm_v1", "sglang"
    admission: str  # "chunk" (0.11) or "full_sequence" (current)
    async_scheduling: bool
    mixes_prefill_and_decode: bool
    block_tokens: int
    prefix_caching_default: bool
    batch_defaults: tuple[BatchDefault, ...]
    cuda_graph_sizes: tuple[int, ...]  # decode batches are padded up to the next of these
    memory: MemoryRule
    layer_overhead_s: float  # host/launch time per layer per step that GPU work does not hide
    seq_overhead_s: float  # per running sequence per step
    step_overhead_s: float  # per step
    prefill_layer_overhead_s: float  # to launch a layer outside graphs: prefill, GPU work hides it
    frontend_s: float = 0.0  # HTTP, tokenizer and hops between processes, per request
    frontend_client_s: float = 0.0  # … and per request in flight: one process serves every stream
    frontend_token_s: float = 0.0  # … and per prompt token: text to tokens, copies, block hashes
    launch_command: str  # "vllm serve" or "python -m sglang.launch_server --model-path"
    flags: Mapping[str, str]  # field of Deployment -> the engine's flag
    source: str
    date: str
    notes: str = ""
