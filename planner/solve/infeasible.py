"""What to say when nothing works: why, and what would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.errors import InfeasibleError
from planner.perf.formats import half_precision
from planner.perf.memory import memory_budget
from planner.solve.candidates import SEQUENCES, TENSOR_SIZES, Candidate, Family, families
from planner.solve.capacity import IDLE, Configs, Judged, throughput_bound
from planner.solve.case import Case
from planner.solve.chunk import target_name
from planner.solve.estimate import estimate, percentile_s
from planner.solve.search import Option, Priced, configs_of
from planner.solve.steady import Lanes, lanes
from planner.spec.catalog import gpus
from planner.units import GIB


def nothing_fits(case: Case, found: Sequence[Family]) -> InfeasibleError:
    """Return the error for a model that no layout on any given GPU can hold.

    Names what the best layout needs against what it has, then what would fit: more GPUs a replica,
    smaller weights, a larger GPU.
    """
    tightest = [family.tightest for family in found if family.tightest is not None]
    if not tightest:
        names = ", ".join(gpu.id for gpu in case.gpus)
        return InfeasibleError(
            f"{case.model.id} has no parallel layout on {names}: "
            f"{case.model.num_attention_heads} attention heads, tensor_parallel_sizes "
            f"{list(case.slo.tensor_parallel_sizes) or list(TENSOR_SIZES)}"
        )
    best = max(tightest, key=lambda candidate: candidate.memory.kv_bytes)
    memory, deployment = best.memory, best.deployment
    usable = memory.visible_bytes * memory.gpu_memory_utilization
    message = (
        f"{case.model.id} in {deployment.weight_dtype} does not fit on "
        f"{deployment.gpus} × {deployment.gpu}: "
        f"each GPU needs {memory.weights_bytes / GIB:.1f} GiB for weights, "
        f"{memory.activation_bytes / GIB:.1f} for activations and "
        f"{memory.non_torch_bytes / GIB:.1f} for the runtime, and has {usable / GIB:.1f} GiB "
        f"({memory.visible_bytes / GIB:.1f} × {memory.gpu_memory_utilization:g})"
    )
    return InfeasibleError(message, nearest=_what_would_fit(case, best))


def _what_would_fit(case: Case, best: Candidate) -> str:
    ideas = [*_more_gpus(case, best), *_smaller_weights(case, best), *_larger_gpus(case)]
    return "What would fit: " + "; ".join(ideas) if ideas else ""


def _more_gpus(case: Case, best: Candidate) -> list[str]:
    """Return the smallest larger layout on the same GPU that slo.yaml does not allow now."""
    wider = replace(case.slo, tensor_parallel_sizes=(), pipeline_parallel_sizes=())
    gpu = case.gpu(best.deployment.gpu)
    fitting = [
        family for family in families(case.model, gpu, case.engine, wider, 1) if family.candidates
    ]
    if not fitting:
        return []
    least = min(fitting, key=lambda family: family.candidates[0].deployment.gpus)
    deployment = least.candidates[0].deployment
    layout = f"tensor_parallel_sizes: [{deployment.tensor_parallel_size}]"
    if deployment.pipeline_parallel_size > 1:
        layout += f" with pipeline_parallel_sizes: [{deployment.pipeline_parallel_size}]"
    return [f"{deployment.gpus} × {gpu.id} a replica ({layout})"]


def _smaller_weights(case: Case, best: Candidate) -> list[str]:
    """Return formats in which the same layout holds the model."""
    gpu = case.gpu(best.deployment.gpu)
    ideas = []
    for dtype in ("fp8", "int4"):
        if dtype == best.deployment.weight_dtype:
            continue
        smaller = replace(best.deployment, weight_dtype=dtype, max_num_seqs=SEQUENCES[0])
        if memory_budget(case.model, gpu, case.engine, smaller).fits:
            made = "weight_dtypes: [fp8]" if dtype == "fp8" else "a checkpoint published as int4"
            ideas.append(f"{dtype} weights on {smaller.gpus} × {gpu.id} ({made})")
    return ideas


def _larger_gpus(case: Case) -> list[str]:
    """Return the smallest catalogued GPU on which one layout that slo.yaml allows fits."""
    given = {gpu.id for gpu in case.gpus}
    for gpu in sorted(gpus(), key=lambda each: (each.memory_bytes_marketing, each.id)):
        if gpu.id in given:
            continue
        slo = case.slo
        if case.slo.weight_dtypes and half_precision(gpu) not in case.slo.weight_dtypes:
            slo = replace(slo, weight_dtypes=())
        for family in families(case.model, gpu, case.engine, slo, 1):
            if family.candidates:
                each = family.candidates[0].deployment.gpus
                return [f"{each} × {gpu.id} a replica"]
    return []


class TargetsError(InfeasibleError):
    """No configuration that fits meets every target: other limits may give a plan."""


def nothing_holds(case: Case, options: Sequence[Option]) -> TargetsError:
    """Return the error for targets that no configuration meets even on an idle replica.

    Names the target that the best configuration misses most.
    """
    families: dict[int, list[Option]] = {}
    for each in options:
        families.setdefault(id(each.priced), []).append(each)
    misses = [miss for members in families.values() if (miss := _idle_miss(case, members))]
    if not misses:
        return TargetsError("no configuration meets every target at any load")
    best = min(misses, key=lambda miss: miss.ratio)
    return TargetsError(
        f"no configuration meets every target even on an idle replica: {best.target}"
    )


def too_long(case: Case, fitting: Sequence[Family]) -> InfeasibleError | None:
    """Return the error for a trace with requests that no configuration takes; None: all are taken.

    For a case that no limits make feasible: a request that is turned away misses every target.
    """
    served = max(family.served_tokens for family in fitting)
    lengths = case.requests.input_tokens + np.maximum(1, case.requests.output_tokens)
    count, total = int((lengths > served).sum()), len(lengths)
    if not count:
        return None
    whose = "the model's" if served >= case.model.max_model_len else "the KV cache's"
    number = f"all {total:,}" if count == total else f"{count:,} of {total:,}"
    remedy = (
        f"name a model with a longer context than {case.model.id}"
        if served >= case.model.max_model_len
        else "allow more GPUs a replica or a GPU with more memory"
    )
    return InfeasibleError(
        f"{number} requests are longer than {whose} max_model_len of {served:,} tokens (the "
        f"longest: {int(lengths.max()):,}): they are turned away, and miss every target",
        nearest=f"Leave them out of the trace, or {remedy}",
    )


def nothing_practical(option: Option, replicas: int, share: float, miss: str) -> TargetsError:
    """Return the error for targets that hold only while replicas are all but idle.

    Parameters
    ----------
    option
        The cheapest configuration that holds.
    replicas
        How many of it would be needed.
    share
        What a replica carries at its fullest of what it could.
    miss
        The target that the next larger load breaks, with its value.
    """
    deployment = option.candidate.deployment
    return TargetsError(
        f"the targets hold only while replicas are idle: {replicas} × {deployment.gpus} "
        f"{deployment.gpu} would each carry {share:.2%} of what they can at their fullest, because "
        f"of {miss}",
        nearest="Relax that target, or choose a GPU with a faster link or more memory",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Miss:
    """A target missed on an idle replica: value over limit, and its name."""

    ratio: float
    target: str


def _idle_miss(case: Case, members: Sequence[Option]) -> _Miss | None:
    """Return the worst miss of the member of a family that misses least, on an idle replica."""
    configs = configs_of([member.candidate for member in members])
    priced = members[0].priced
    attained = np.zeros(len(members))
    for part in priced.judged:
        at = _idle(priced, part, configs)
        found = estimate(priced.cost, part.stretch, at, part.checks, mixes=case.mixes)
        attained += found.attainment.sum(axis=1)
    best = members[int(np.argmax(attained))]
    found_misses = [
        miss for part in priced.judged if (miss := _worst_check(case, best, part)) is not None
    ]
    return max(found_misses, key=lambda miss: miss.ratio, default=None)


def _idle(priced: Priced, part: Judged, configs: Configs) -> Lanes:
    """Return configurations at a load too small to matter."""
    bound = throughput_bound(priced.cost, part.stretch, configs)
    return lanes(
        bound * IDLE, configs.max_num_batched_tokens, configs.max_num_seqs, configs.kv_tokens
    )


def _worst_check(case: Case, option: Option, part: Judged) -> _Miss | None:
    """Return the check of a stretch that an idle replica misses most."""
    priced = option.priced
    cost, stretch = priced.cost, part.stretch
    at = _idle(priced, part, configs_of([option.candidate]))
    found = estimate(cost, stretch, at, part.checks, mixes=case.mixes)
    worst: _Miss | None = None
    for index, check in enumerate(part.checks):
        target = check.target
        if found.attainment[0, index] >= check.required - 1e-9:
            continue
        value = percentile_s(
            cost,
            stretch,
            found.waits,
            target.metric,
            target.percentile,
            window=check.window,
            guess_s=target.limit_s,
            mixes=case.mixes,
        )
        if worst is None or value / target.limit_s > worst.ratio:
            name = case.requests.class_names[stretch.windows[check.window].class_id]
            worst = _Miss(ratio=value / target.limit_s, target=target_name(name, target))
    return worst
