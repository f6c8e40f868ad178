"""Which parallel layouts a model has at all."""

from __future__ import annotations

from planner.errors import InputError, Problem
from planner.spec.model import Model


def divides(model: Model, tensor_parallel_size: int, pipeline_parallel_size: int) -> bool:
    """Return whether every GPU gets as many attention heads and every stage a layer.

    >>> from planner.spec.catalog import model
    >>> divides(model("meta-llama/Llama-3.1-70B-Instruct"), 3, 1)  # 64 heads
    False
    """
    whole = model.num_attention_heads % tensor_parallel_size == 0
    return whole and model.num_layers >= pipeline_parallel_size


def refuse_layout(
    model: Model, tensor_parallel_size: int, pipeline_parallel_size: int = 1, flag: str = "--tp"
) -> None:
    """Refuse a layout with which no engine starts.

    Parameters
    ----------
    model
        What is split.
    tensor_parallel_size, pipeline_parallel_size
        GPUs that share a layer, and stages that share the layers.
    flag
        What the message calls the first.

    Raises
    ------
    InputError
        Heads do not divide over the GPUs, or there are more stages than layers.
    """
    problems = []
    heads = model.num_attention_heads
    if heads % tensor_parallel_size:
        sizes = ", ".join(str(size) for size in (1, 2, 4, 8, 16) if heads % size == 0)
        problems.append(
            Problem(
                path=f"{flag} {tensor_parallel_size}",
                message=f"does not divide the {heads} attention heads of {model.id}",
                hint=f"sizes that do: {sizes}",
            )
        )
    if model.num_layers < pipeline_parallel_size:
        problems.append(
            Problem(
                path=f"--pipeline-parallel-size {pipeline_parallel_size}",
                message=f"is more than the {model.num_layers} layers of {model.id}",
                hint="take fewer stages",
            )
        )
    if problems:
        raise InputError(problems)
