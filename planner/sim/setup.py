"""One deployment, ready to be replayed: from catalogue names to physics and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.errors import InfeasibleError, InputError, Problem
from planner.perf.calibrations import calibration
from planner.perf.compile import compile_step_cost
from planner.perf.formats import half_precision
from planner.perf.memory import memory_budget
from planner.perf.memory_types import MemoryBudget
from planner.perf.startable import faults
from planner.perf.step_cost import StepCost
from planner.sim.settings import SchedulerSettings
from planner.spec.catalog import batch_default
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.layout import refuse_layout
from planner.spec.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What a replay of one deployment needs."""

    deployment: Deployment
    memory: MemoryBudget
    cost: StepCost
    settings: SchedulerSettings
    layers: int  # of the model


def deployment_of(
    model: Model, gpu: Gpu, engine: Engine, chosen: Mapping[str, object]
) -> Deployment:
    """Return the engine's defaults on this GPU with the `chosen` fields of Deployment instead.

    A budget below the default number of sequences lowers it, as vLLM does itself: a step holds no
    more sequences than tokens.
    """
    half = half_precision(gpu)
    default = batch_default(engine, gpu)
    given = {name: value for name, value in chosen.items() if value is not None}
    budget = given.get("max_num_batched_tokens", default.max_num_batched_tokens)
    assert isinstance(budget, int)
    published = half if model.weight_dtype in ("bf16", "fp16") else model.weight_dtype
    base = Deployment(
        gpu=gpu.id,
        model=model.id,
        engine=engine.id,
        engine_version=engine.version,
        weight_dtype=published,
        kv_cache_dtype=half,
        max_num_batched_tokens=default.max_num_batched_tokens,
        max_num_seqs=min(default.max_num_seqs, budget),
        max_model_len=model.max_model_len,
        gpu_memory_utilization=engine.memory.gpu_memory_utilization,
        block_size=engine.block_tokens,
        enable_prefix_caching=engine.prefix_caching_default,
        async_scheduling=engine.async_scheduling,
    )
    return replace(base, **given)  # type: ignore[arg-type]


def refuse_unstartable(
    model: Model, gpu: Gpu, engine: Engine, deployment: Deployment, policy: str | None
) -> None:
    """Refuse flags with which no replica would start; a model that does not fit is told later.

    Parameters
    ----------
    model, gpu, engine, deployment
        What runs where, and how.
    policy
        Another scheduler than the engine's, whose rules of the batch are then not the engine's.

    Raises
    ------
    InputError
        One problem for every flag that cannot be.
    """
    found = [
        each
        for each in faults(model, gpu, engine, deployment, memory=False)
        # Other schedulers than the engine's own have no such rule.
        if policy in (None, "vllm_v1") or each.field != "max_num_batched_tokens"
    ]
    if found:
        raise InputError(
            Problem(message=each.message, path=f"--{each.field.replace('_', '-')}", hint=each.hint)
            for each in found
        )


def ready(
    model: Model,
    gpu: Gpu,
    engine: Engine,
    deployment: Deployment,
    *,
    ideal: bool = False,
    policy: str | None = None,
    scheduling_policy: str | None = None,
    acceptance_rates: tuple[float, ...] = (),
) -> Ready:
    """Compile a deployment's physics and settings.

    A KV cache too small for one request of max_model_len shortens max_model_len to what fits, as
    the engine's own automatic setting does.

    Parameters
    ----------
    model, gpu, engine, deployment
        What runs where, and how.
    ideal
        The theory's roofline instead of the calibration.
    policy, scheduling_policy
        Another scheduler than the engine's, or another order.

    Raises
    ------
    InputError
        The model has no such layout, replay does not know the engine's policy or a feature the
        deployment uses, or the chosen policy cannot run with these settings.
    InfeasibleError
        The model leaves no memory for a KV cache.
    """
    refuse_layout(
        model,
        deployment.tensor_parallel_size,
        deployment.pipeline_parallel_size,
        "--tensor-parallel-size",
    )
    memory = memory_budget(model, gpu, engine, deployment)
    if not memory.fits:
        raise InfeasibleError(
            f"{model.id} does not fit on {deployment.gpus} × {gpu.id}: no memory is left for KV",
            nearest="raise --tensor-parallel-size, or take a GPU with more memory",
        )
    settings = SchedulerSettings.of(deployment, engine, memory, acceptance_rates)
    longest = min(deployment.max_model_len, settings.kv_tokens)
    return Ready(
        deployment=replace(deployment, max_model_len=longest),
        memory=memory,
        cost=compile_step_cost(model, gpu, engine, calibration(gpu, ideal), deployment),
        settings=replace(settings, max_model_len=longest).under(policy, scheduling_policy),
        layers=model.num_layers,
    )
