"""Which deployments are possible at all: enumeration and the engine's own memory arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.perf.formats import half_precision
from planner.perf.memory import memory_budget, static_fraction
from planner.perf.memory_types import MemoryBudget
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.launch import launch_argv
from planner.spec.layout import divides
from planner.spec.model import Model
from planner.spec.slo import Slo

BUDGETS = (256, 512, 1024, 2048, 4096, 8192, 16384)
SEQUENCES = (64, 128, 256, 512, 1024)
TENSOR_SIZES = (1, 2, 4, 8)
PIPELINE_SIZES = (2, 4)  # tried only where no single stage fits
MODEL_LEN_STEP = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A deployment whose model fits, with its memory account."""

    deployment: Deployment
    memory: MemoryBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Candidates that differ only in budget and slots: they share one StepCost.

    `dropped` counts those that do not fit, `tightest` the one that came nearest to fitting.
    `slower_everywhere` says that another family with the same memory beats it in every step.
    """

    gpu: Gpu
    candidates: tuple[Candidate, ...]
    dropped: int
    tightest: Candidate | None
    slower_everywhere: bool = False

    @property
    def widest(self) -> Deployment:
        """A deployment whose tables cover every candidate's."""
        return replace(
            self.candidates[0].deployment,
            max_num_batched_tokens=max(
                c.deployment.max_num_batched_tokens for c in self.candidates
            ),
            max_num_seqs=max(c.deployment.max_num_seqs for c in self.candidates),
        )

    @property
    def served_tokens(self) -> int:
        """The longest request that every candidate takes."""
        return min(candidate.deployment.max_model_len for candidate in self.candidates)


def default_batch(gpu: Gpu, engine: Engine, visible_bytes: float) -> tuple[int, int]:
    """Return the engine's own (max_num_batched_tokens, max_num_seqs) on this GPU."""
    name = f"{gpu.id} {gpu.name}".lower()
    for row in engine.batch_defaults:
        if visible_bytes >= row.min_memory_bytes and not any(x in name for x in row.excluded_names):
            return row.max_num_batched_tokens, row.max_num_seqs
    last = engine.batch_defaults[-1]
    return last.max_num_batched_tokens, last.max_num_seqs


def default_deployment(model: Model, gpu: Gpu, engine: Engine, base: Deployment) -> Deployment:
    """Return `base` with the engine's default budget and slots, experts cut over its GPUs."""
    visible = memory_budget(model, gpu, engine, base).visible_bytes
    budget, seqs = default_batch(gpu, engine, visible)
    return replace(base, max_num_batched_tokens=budget, max_num_seqs=seqs, expert_parallel=False)


def families(
    model: Model,
    gpu: Gpu,
    engine: Engine,
    slo: Slo,
    longest_tokens: int,
    *,
    pipelines: bool = False,
) -> tuple[Family, ...]:
    """Return every family of candidates on one GPU type; families without any that fits included.

    Pipeline stages are tried only where slo.yaml asks for them, nothing fits without, or
    `pipelines` says so.

    Parameters
    ----------
    model, gpu, engine, slo
        What is declared.
    longest_tokens
        The longest request of the trace, input and output; decides between candidates whose KV
        cache cannot hold a request of the model's full length.
    pipelines
        Try pipeline stages as well: without them no configuration met the targets.
    """
    stages = slo.pipeline_parallel_sizes or (1,)
    asked = bool(slo.pipeline_parallel_sizes)
    found = tuple(_families(model, gpu, engine, slo, longest_tokens, stages, asked))
    unfit = not any(family.candidates for family in found)
    if not asked and (unfit or pipelines):
        found += tuple(_families(model, gpu, engine, slo, longest_tokens, PIPELINE_SIZES, unfit))
    return found


def _families(
    model: Model,
    gpu: Gpu,
    engine: Engine,
    slo: Slo,
    longest_tokens: int,
    stages: tuple[int, ...],
    nodes: bool,
) -> Iterator[Family]:
    for base in _bases(model, gpu, engine, slo, stages, nodes):
        launch_argv(base, engine, model)  # a dtype the engine cannot make is an error of the input
        yield _family(model, gpu, engine, slo, longest_tokens, base)


def _bases(
    model: Model, gpu: Gpu, engine: Engine, slo: Slo, stages: tuple[int, ...], nodes: bool
) -> Iterator[Deployment]:
    """Yield one deployment for each parallel layout and pair of dtypes.

    Tensor parallelism stays inside a node; pipelines cross nodes only where `nodes` says so.
    """
    half = half_precision(gpu)
    published = half if model.weight_dtype in ("bf16", "fp16") else model.weight_dtype
    for pp in stages:
        for tp in slo.tensor_parallel_sizes or TENSOR_SIZES:
            if not divides(model, tp, pp) or tp * (1 if nodes else pp) > gpu.gpus_per_node:
                continue
            for weights in slo.weight_dtypes or (published,):
                for kv in slo.kv_cache_dtypes or (half,):
                    base = _base(model, gpu, engine, slo, tp, pp, weights, kv)
                    yield from _spread(model, engine, slo, base)


def _spread(model: Model, engine: Engine, slo: Slo, base: Deployment) -> Iterator[Deployment]:
    """Yield a layout with each share of memory, experts cut over its GPUs and whole on each."""
    for share in slo.gpu_memory_utilization or (base.gpu_memory_utilization,):
        for whole in expert_parallelism(model, engine, slo, base):
            yield replace(base, gpu_memory_utilization=share, expert_parallel=whole)


def expert_parallelism(
    model: Model, engine: Engine, slo: Slo, base: Deployment
) -> tuple[bool, ...]:
    """Return whether experts may be cut over the GPUs of a replica (False), stay whole (True).

    Both where the engine has a flag for it and every GPU gets as many experts; slo.yaml may leave
    one of them. The cut comes first: of equal costs it is the engine's default.
    """
    ranks = base.tensor_parallel_size * base.data_parallel_size
    known = "expert_parallel" in engine.flags and model.moe is not None
    if not known or ranks == 1 or model.moe is None or model.moe.num_experts % ranks:
        return (False,)
    return (False, True) if slo.expert_parallel is None else (slo.expert_parallel,)


def _base(
    model: Model, gpu: Gpu, engine: Engine, slo: Slo, tp: int, pp: int, weights: str, kv: str
) -> Deployment:
    base = Deployment(
        gpu=gpu.id,
        model=model.id,
        engine=engine.id,
        engine_version=engine.version,
        weight_dtype=weights,
        kv_cache_dtype=kv,
        tensor_parallel_size=tp,
        pipeline_parallel_size=pp,
        max_num_batched_tokens=BUDGETS[-1],
        max_num_seqs=SEQUENCES[0],
        max_model_len=model.max_model_len,
        gpu_memory_utilization=engine.memory.gpu_memory_utilization,
        block_size=engine.block_tokens,
        enable_prefix_caching=slo.prefix_caching and engine.prefix_caching_default,
        async_scheduling=engine.async_scheduling,
    )
    return default_deployment(model, gpu, engine, base)


def _family(
    model: Model,
    gpu: Gpu,
    engine: Engine,
    slo: Slo,
    longest_tokens: int,
    base: Deployment,
) -> Family:
    fitting: list[Candidate] = []
    tightest: Candidate | None = None
    dropped = 0
    for deployment in _batches(base, slo):
        candidate = sized(model, gpu, engine, with_utilization(gpu, engine, slo, deployment))
        if candidate.memory.fits and candidate.deployment.max_model_len >= MODEL_LEN_STEP:
            fitting.append(candidate)
        else:
            dropped += 1
            if tightest is None or candidate.memory.kv_bytes > tightest.memory.kv_bytes:
                tightest = candidate
    kept = _long_enough(fitting, longest_tokens)
    return Family(
        gpu=gpu,
        candidates=tuple(kept),
        dropped=dropped + len(fitting) - len(kept),
        tightest=tightest,
    )


def _batches(base: Deployment, slo: Slo) -> Iterator[Deployment]:
    """Yield every pair of budget and slots the engine accepts; its defaults are among them."""
    budgets = slo.max_num_batched_tokens or (*BUDGETS, base.max_num_batched_tokens)
    slots = slo.max_num_seqs or (*SEQUENCES, base.max_num_seqs)
    for budget in sorted(set(budgets)):
        for seqs in sorted(set(slots)):
            if seqs <= budget:  # the engine refuses a budget below max_num_seqs
                yield replace(base, max_num_batched_tokens=budget, max_num_seqs=seqs)


def with_utilization(gpu: Gpu, engine: Engine, slo: Slo, deployment: Deployment) -> Deployment:
    """Return the deployment with a declared share of memory, or the engine's own for it.

    Of several that slo.yaml lists it keeps its own, or takes the least.
    """
    declared, share = slo.gpu_memory_utilization, deployment.gpu_memory_utilization
    if not declared:
        share = static_fraction(gpu, engine, deployment)
    elif share not in declared:
        share = declared[0]
    return replace(deployment, gpu_memory_utilization=round(share, 4))


def sized(model: Model, gpu: Gpu, engine: Engine, deployment: Deployment) -> Candidate:
    """Return the candidate with its memory, max_model_len cut to what the KV cache holds.

    The engine refuses to start when one request of max_model_len does not fit.
    """
    memory = memory_budget(model, gpu, engine, deployment)
    if memory.fits and memory.kv_tokens < deployment.max_model_len:
        length = memory.kv_tokens // MODEL_LEN_STEP * MODEL_LEN_STEP
        deployment = replace(deployment, max_model_len=max(length, 1))
        memory = memory_budget(model, gpu, engine, deployment)
    return Candidate(deployment=deployment, memory=memory)


def _long_enough(fitting: list[Candidate], longest_tokens: int) -> list[Candidate]:
    """Keep candidates that serve the longest request, or else those that serve the longest."""
    most = max((c.deployment.max_model_len for c in fitting), default=0)
    needed = min(longest_tokens, most)
    return [c for c in fitting if c.deployment.max_model_len >= needed]
