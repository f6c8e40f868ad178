"""What an engine refuses to start with: a deployment against its model, GPU and engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from planner.errors import InputError
from planner.perf.formats import BYTES_PER_PARAMETER, KV_BYTES
from planner.perf.memory import memory_budget
from planner.perf.memory_types import MemoryBudget
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.launch import launch_argv
from planner.spec.model import Model

# What driver and context hold before an engine looks at the memory: about 0.4 GiB on each GPU
# (Sandermage/genesis-vllm-patches issue 24); rounded up, as the engine refuses to start without.
HELD_BEFORE_START_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One value that cannot be: the field of Deployment, what is wrong, what to do."""

    field: str
    message: str
    hint: str


def faults(
    model: Model, gpu: Gpu, engine: Engine, deployment: Deployment, *, memory: bool = True
) -> tuple[Fault, ...]:
    """Return why a replica of this deployment would not start; () for every one that is planned.

    Parameters
    ----------
    model, gpu, engine
        What the deployment names.
    deployment
        Its numbers are positive and its share of memory is at most 1.
    memory
        Whether the model and a request of max_model_len must fit as well.
    """
    found = (
        *_layout(model, gpu, deployment),
        *_batch(deployment),
        *_length(model, deployment),
        *_dtypes(model, engine, deployment),
    )
    if found or not memory:
        return found
    return tuple(_memory(model, gpu, engine, deployment))


def highest_utilization(memory: MemoryBudget, engine: Engine) -> float | None:
    """Return the largest gpu_memory_utilization, in hundredths, with which a replica starts.

    The engine takes its share of the visible memory after driver and context have theirs, and
    captures its graphs outside of it where `graphs_in_budget` is false. None where the engine
    derives the share itself (SGLang). Graphs differ by gigabytes between releases: the start-up log
    of the real thing has the last word.
    """
    if engine.memory.rule == "sglang":
        return None
    outside = 0.0 if memory.graphs_in_budget else memory.graphs_bytes
    left = memory.visible_bytes - outside - HELD_BEFORE_START_BYTES
    return max(memory.gpu_memory_utilization, math.floor(100.0 * left / memory.visible_bytes) / 100)


def _layout(model: Model, gpu: Gpu, deployment: Deployment) -> Iterator[Fault]:
    tp, stages = deployment.tensor_parallel_size, deployment.pipeline_parallel_size
    heads = model.num_attention_heads
    if heads % tp:
        yield Fault(
            field="tensor_parallel_size",
            message=f"{tp} does not divide the {heads} attention heads of {model.id}",
            hint=f"take {_or(_sizes(model, gpu))}",
        )
    elif tp > gpu.gpus_per_node:
        yield Fault(
            field="tensor_parallel_size",
            message=f"{tp} GPUs do not share a node: one of {gpu.id} has {gpu.gpus_per_node}",
            hint=f"take at most {gpu.gpus_per_node}",
        )
    ranks = deployment.data_parallel_size
    if ranks > 1:
        yield Fault(
            field="data_parallel_size",
            message=f"{ranks} ranks behind one scheduler are neither planned nor replayed",
            hint=f"take 1, and {ranks} times the replicas",
        )
    if stages > model.num_layers:
        yield Fault(
            field="pipeline_parallel_size",
            message=f"{stages} stages for the {model.num_layers} layers of {model.id}",
            hint=f"take at most {model.num_layers}",
        )


def _sizes(model: Model, gpu: Gpu) -> list[int]:
    """Return the sizes that divide the heads and share a node."""
    heads = model.num_attention_heads
    return [size for size in range(1, gpu.gpus_per_node + 1) if heads % size == 0]


def _or(sizes: list[int]) -> str:
    """Write a choice.

    >>> _or([1, 2, 4]), _or([1])
    ('1, 2 or 4', '1')
    """
    *others, last = [str(size) for size in sizes]
    return f"{', '.join(others)} or {last}" if others else last


def _batch(deployment: Deployment) -> Iterator[Fault]:
    budget, seqs = deployment.max_num_batched_tokens, deployment.max_num_seqs
    if budget < seqs:
        yield Fault(
            field="max_num_batched_tokens",
            message=f"{budget} is below max_num_seqs, {seqs}: the engine refuses to start",
            hint=f"take at least {seqs}, or lower max_num_seqs",
        )


def _length(model: Model, deployment: Deployment) -> Iterator[Fault]:
    if deployment.max_model_len > model.max_model_len:
        yield Fault(
            field="max_model_len",
            message=f"{deployment.max_model_len} is beyond the {model.max_model_len} tokens that "
            f"{model.id} takes",
            hint=f"take at most {model.max_model_len}",
        )


def _dtypes(model: Model, engine: Engine, deployment: Deployment) -> Iterator[Fault]:
    if deployment.kv_cache_dtype not in KV_BYTES:
        yield Fault(
            field="kv_cache_dtype",
            message=f"unknown format {deployment.kv_cache_dtype!r}",
            hint="one of bf16, fp16, fp8",
        )
    if deployment.weight_dtype not in BYTES_PER_PARAMETER:
        yield Fault(
            field="weight_dtype",
            message=f"unknown format {deployment.weight_dtype!r}",
            hint=f"one of {', '.join(BYTES_PER_PARAMETER)}",
        )
        return
    try:
        launch_argv(deployment, engine, model)
    except InputError as error:
        for problem in error.problems:
            yield Fault(field="weight_dtype", message=problem.message, hint=problem.hint)


def _memory(model: Model, gpu: Gpu, engine: Engine, deployment: Deployment) -> Iterator[Fault]:
    if math.isnan(deployment.gpu_memory_utilization):
        yield Fault(
            field="gpu_memory_utilization", message="no share is given", hint="for example 0.9"
        )
        return
    memory = memory_budget(model, gpu, engine, deployment)
    share = f"{deployment.gpu_memory_utilization:g} of {deployment.gpus} × {gpu.id}"
    if not memory.fits:
        yield Fault(
            field="gpu_memory_utilization",
            message=f"{model.id} does not fit in {share}: no memory is left for KV",
            hint="raise it or tensor_parallel_size, or lower max_num_batched_tokens",
        )
    elif memory.kv_tokens < deployment.max_model_len:
        yield Fault(
            field="max_model_len",
            message=f"{deployment.max_model_len} is beyond the {memory.kv_tokens} tokens of KV "
            f"cache that fit in {share}: the engine refuses to start",
            hint=f"take at most {memory.kv_tokens}",
        )
