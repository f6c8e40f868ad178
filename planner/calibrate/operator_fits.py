"""Least-squares fits of the operator equations to measured tables, in log time, robust."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.tables import MOE_SHAPES, Row
from planner.perf import operators as op
from planner.perf.token_terms import EXPERT_SHARPNESS
from planner.spec.calibration import (
    AllReduceEfficiency,
    GemmEfficiency,
    MoeEfficiency,
)

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Fitted values and the relative errors they leave."""

    values: FloatArray
    median_error: float
    p90_error: float
    rows: int


def fit_log(
    predict: Predict,
    measured: FloatArray,
    starts: Sequence[Sequence[float]],
    low: Sequence[float],
    high: Sequence[float],
) -> Fit:
    """Minimise Σ ρ(log(predict(x)/measured)) within bounds, ρ soft-L1, from the best start."""
    from scipy.optimize import least_squares

    def residual(values: FloatArray) -> FloatArray:
        return np.log(predict(values) / measured)

    tries = [
        least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=0.1)
        for start in starts
    ]
    best = min(tries, key=lambda found: float(found.cost))
    errors = np.abs(predict(best.x) / measured - 1.0)
    return Fit(
        values=np.asarray(best.x),
        median_error=float(np.median(errors)),
        p90_error=float(np.quantile(errors, 0.9)),
        rows=len(measured),
    )


def column(rows: Sequence[Row], name: str) -> FloatArray:
    """Return one numeric column."""
    return np.array([float(row[name]) for row in rows])


def seconds(rows: Sequence[Row]) -> FloatArray:
    """Return measured times in s."""
    return column(rows, "latency_us") * 1e-6


def fit_gemm(
    rows: Sequence[Row], peak: float, bandwidth: float, weight_bytes: float, input_bytes: float
) -> GemmEfficiency:
    """Fit e_c, e_m, t₀, r and κ of `operators.gemm_s`."""
    m, n, k = (column(rows, name) for name in ("m", "n", "k"))
    flops = op.gemm_flops(m, k, n)
    moved = op.gemm_bytes(m, k, n, weight_bytes, input_bytes)

    def predict(v: FloatArray) -> FloatArray:
        return np.asarray(
            op.gemm_s(
                flops,
                moved,
                peak,
                bandwidth,
                v[0],
                v[1],
                op.gemm_fixed_s(k, v[2] * 1e-6, v[4] * 1e-9),
                float(v[3]),
            )
        )

    fit = fit_log(
        predict,
        seconds(rows),
        [[0.7, 0.8, 4.0, 2.0, 0.3]],
        [0.02, 0.1, 0.3, 1.01, 0.0],
        [1.0, 1.0, 100.0, 12.0, 5.0],
    )
    return GemmEfficiency(
        compute=fit.values[0],
        memory=fit.values[1],
        fixed_s=fit.values[2] * 1e-6,
        sharpness=fit.values[3],
        per_input_s=fit.values[4] * 1e-9,
        median_error=fit.median_error,
        p90_error=fit.p90_error,
    )


def fit_moe(
    rows: Sequence[Row], peak: float, bandwidth: float, weight_bytes: float, input_bytes: float
) -> MoeEfficiency:
    """Fit e_c, e_m, t₀, tile padding, both skews of routing and e_r of the expert equations.

    Expert-parallel rows time the rank with the most popular experts.
    """
    shapes = [MOE_SHAPES[row["model"]] for row in rows]
    tp, ep, n = (column(rows, name) for name in ("moe_tp", "moe_ep", "num_tokens"))
    hidden = np.array([s.hidden for s in shapes], float)
    width = np.array([s.intermediate for s in shapes], float) / tp
    experts = np.array([s.experts for s in shapes], float)
    top = np.array([s.experts_per_token for s in shapes], float)
    weights, mean = 3.0 * hidden * width, n * top / ep

    def predict(v: FloatArray) -> FloatArray:
        routed = mean * op.popular_rank(ep, float(v[6]))
        missed = (1.0 - top / experts) ** (n ** v[4])
        touched = np.maximum(experts * (1.0 - missed), top) / ep
        products = op.gemm_s(
            op.expert_flops(routed, touched, weights, v[3]),
            op.expert_bytes(touched, weights, weight_bytes),
            peak,
            bandwidth,
            v[0],
            v[1],
            v[2] * 1e-6,
            EXPERT_SHARPNESS,
        )
        gathered = op.routing_bytes(n, routed, hidden, width, input_bytes)
        return np.asarray(products + op.routing_s(gathered, bandwidth, v[5]))

    fit = fit_log(
        predict,
        seconds(rows),
        [[0.3, 0.8, 40.0, 50.0, 0.85, 0.5, 0.3], [0.6, 0.8, 20.0, 30.0, 0.8, 0.3, 0.3]],
        [0.02, 0.1, 0.5, 0.0, 0.6, 0.05, 0.0],
        [1.0, 0.95, 200.0, 128.0, 1.0, 1.0, 1.0],
    )
    return MoeEfficiency(
        compute=fit.values[0],
        memory=fit.values[1],
        fixed_s=fit.values[2] * 1e-6,
        padding_tokens=fit.values[3],
        skew=fit.values[4],
        routed_memory=fit.values[5],
        rank_skew=fit.values[6],
        median_error=fit.median_error,
        p90_error=fit.p90_error,
    )


def fit_decode(rows: Sequence[Row], bandwidth: float, element_bytes: float) -> Fit:
    """Fit (e_m, t₀ in µs) of decode attention: t₀ + KV bytes/(W·e_m)."""
    batch, context, kv, dim = (column(rows, n) for n in ("batch", "context", "n_kv", "head_dim"))
    moved = batch * context * 2.0 * kv * dim * element_bytes

    def predict(v: FloatArray) -> FloatArray:
        return np.asarray(v[1] * 1e-6 + moved / (bandwidth * v[0]))

    return fit_log(predict, seconds(rows), [[0.8, 10.0]], [0.05, 0.5], [1.0, 100.0])


def fit_prefill(rows: Sequence[Row], peak: float, head_dim: float = 128.0) -> Fit:
    """Fit (e_c, t₀ in µs, n₀) of prefill attention: t₀ + 4Hd(pairs + n·n₀/2)/(F·e_c)."""
    heads, batch, length = (column(rows, n) for n in ("n_heads", "batch", "isl"))
    pairs, tokens = batch * length * (length + 1.0) / 2.0, batch * length
    pair = op.attention_pair_flops(1.0, head_dim, head_dim) * heads

    def predict(v: FloatArray) -> FloatArray:
        return np.asarray(v[1] * 1e-6 + pair * (pairs + tokens * v[2] / 2.0) / (peak * v[0]))

    return fit_log(
        predict, seconds(rows), [[0.6, 12.0, 700.0]], [0.05, 0.5, 0.0], [1.0, 100.0, 5000.0]
    )


def fit_latent(rows: Sequence[Row], peak: float, bandwidth: float, element_bytes: float) -> Fit:
    """Fit (e_c, e_m, t₀ in µs) of absorbed MLA decode over a 512 + 64 element latent."""
    heads, batch, context = (column(rows, n) for n in ("num_heads", "batch_size", "context"))
    cached = batch * context
    flops, moved = 2.0 * heads * (2 * 512 + 64) * cached, cached * 576.0 * element_bytes

    def predict(v: FloatArray) -> FloatArray:
        busy = np.maximum(flops / (peak * v[0]), moved / (bandwidth * v[1]))
        return np.asarray(v[2] * 1e-6 + busy)

    return fit_log(
        predict, seconds(rows), [[0.45, 0.7, 10.0]], [0.02, 0.02, 0.5], [1.0, 1.0, 200.0]
    )


def fit_all_reduce(rows: Sequence[Row]) -> AllReduceEfficiency:
    """Fit both algorithms of `operators.all_reduce_s`."""
    message = column(rows, "bytes")

    def predict(v: FloatArray) -> FloatArray:
        return np.asarray(
            op.all_reduce_s(message, v[0] * 1e-6, v[1] * 1e9, float(v[2]), v[3] * 1e-6, v[4] * 1e9)
        )

    fit = fit_log(
        predict,
        seconds(rows),
        [[5.0, 150.0, 1.5, 20.0, 400.0], [5.0, 20.0, 1.5, 30.0, 40.0]],
        [0.5, 0.2, 1.0, 1.0, 0.2],
        # A ring starts within some 20 to 60 µs; larger values are a second algorithm that no row
        # of the table needs.
        [200.0, 2000.0, 6.0, 60.0, 4000.0],
    )
    return AllReduceEfficiency(
        latency_s=fit.values[0] * 1e-6,
        bandwidth_bytes_per_s=fit.values[1] * 1e9,
        sharpness=fit.values[2],
        large_latency_s=fit.values[3] * 1e-6,
        large_bandwidth_bytes_per_s=fit.values[4] * 1e9,
        median_error=fit.median_error,
        p90_error=fit.p90_error,
    )
