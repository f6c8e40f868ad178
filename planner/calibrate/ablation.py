"""What each term of the step time buys: the errors without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from planner.calibrate.host_samples import bare
from planner.calibrate.measured import Row
from planner.calibrate.validate import (
    Errors,
    Prediction,
    predict,
    predictions,
    summarise,
    ttft_errors,
)
from planner.perf.calibrations import calibration
from planner.perf.closed_loop import ClosedLoop
from planner.spec.calibration import Calibration
from planner.spec.gpu import Gpu

Change = Callable[[Calibration], Calibration]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One term taken away, and the errors that are left."""

    name: str
    tpot: Errors
    ttft: Errors


def ablations(rows: Iterable[Row]) -> list[Ablation]:
    """Return errors of the whole model, then of the model without each term."""
    found, _ = predictions(rows)
    return [
        _errors("everything", found, lambda item: item.predicted),
        _errors("no host overhead", found, _without_host),
        _errors("no fixed kernel times", found, _with(_no_fixed)),
        _errors("every kernel at its datasheet rate", found, _with(_ideal_rates)),
        _errors("free all-reduces", found, _with(_free_collectives)),
        _errors("uniform routing of experts", found, _with(_uniform)),
        _errors("no tile padding of experts", found, _with(_unpadded)),
        _errors("no prefill in decode steps", found, _unmixed),
        _errors("no opening burst", found, _without_burst),
        _errors("no frontend", found, _without_frontend),
        _errors("one generic set for every GPU", found, _generic),
    ]


def _errors(
    name: str, found: Sequence[Prediction], again: Callable[[Prediction], ClosedLoop]
) -> Ablation:
    changed = [replace(item, predicted=again(item)) for item in found]
    tpot = [
        item.predicted.tpot_s / item.measured.tpot_s - 1.0
        for item in changed
        if item.measured.tpot_s is not None
    ]
    return Ablation(name=name, tpot=summarise(tpot), ttft=summarise(ttft_errors(changed)))


def _with(change: Change) -> Callable[[Prediction], ClosedLoop]:
    def again(item: Prediction) -> ClosedLoop:
        return predict(item.point, lambda gpu: change(calibration(gpu)))

    return again


def _without_host(item: Prediction) -> ClosedLoop:
    return predict(item.point, engine=bare(item.point.engine))


def _without_frontend(item: Prediction) -> ClosedLoop:
    engine = replace(item.point.engine, frontend_s=0.0, frontend_client_s=0.0, frontend_token_s=0.0)
    return predict(item.point, engine=engine)


def _without_burst(item: Prediction) -> ClosedLoop:
    quiet = replace(item.point, load=replace(item.point.load, opening_burst=0.0))
    return predict(quiet)


def _unmixed(item: Prediction) -> ClosedLoop:
    return replace(item.predicted, tpot_s=item.predicted.decode_step_s)


def _generic(item: Prediction) -> ClosedLoop:
    def inherited(gpu: Gpu) -> Calibration:
        return calibration(replace(gpu, calibration=""))

    return predict(item.point, inherited)


def _no_fixed(fit: Calibration) -> Calibration:
    return replace(
        fit,
        gemm={k: replace(g, fixed_s=0.0, per_input_s=0.0) for k, g in fit.gemm.items()},
        moe={k: replace(m, fixed_s=0.0) for k, m in fit.moe.items()},
        attention={
            k: replace(a, decode_fixed_s=0.0, prefill_fixed_s=0.0) for k, a in fit.attention.items()
        },
    )


def _ideal_rates(fit: Calibration) -> Calibration:
    return replace(
        fit,
        gemm={k: replace(g, compute=1.0, memory=1.0) for k, g in fit.gemm.items()},
        moe={k: replace(m, compute=1.0, memory=1.0) for k, m in fit.moe.items()},
        attention={
            k: replace(a, decode_memory=1.0, prefill_compute=1.0, latent_compute=1.0)
            for k, a in fit.attention.items()
        },
    )


def _free_collectives(fit: Calibration) -> Calibration:
    return replace(
        fit,
        all_reduce={
            k: replace(a, latency_s=0.0, bandwidth_bytes_per_s=1e18)
            for k, a in fit.all_reduce.items()
        },
    )


def _uniform(fit: Calibration) -> Calibration:
    return replace(fit, moe={k: replace(m, skew=1.0) for k, m in fit.moe.items()})


def _unpadded(fit: Calibration) -> Calibration:
    return replace(fit, moe={k: replace(m, padding_tokens=0.0) for k, m in fit.moe.items()})
