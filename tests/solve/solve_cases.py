"""Hand-built physics and traffic whose answers can be computed by hand."""

from __future__ import annotations

import numpy as np

from planner.ingest.requests import Requests
from planner.perf.calibrations import calibration
from planner.perf.step_cost import StepCost
from planner.profile.profile import profile_requests
from planner.solve.case import Case
from planner.spec import catalog
from planner.spec.slo import Slo, Target, WorkloadClass

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


def linear_cost(
    *,
    floor_s: float = 0.010,
    per_token_s: float = 20e-6,
    per_kv_token_s: float = 0.0,
    budget: int = 16384,
    seqs: int = 1024,
    asynchronous: bool = False,
) -> StepCost:
    """A step of n tokens takes max(floor, n·slope) plus the KV it reads: nothing else."""
    tokens = np.arange(budget + 1)
    return StepCost(
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        tokens_per_decode=1,
        compute_s=tokens * per_token_s,
        memory_s=np.full(budget + 1, floor_s),
        decode_padding=tokens,
        row_s=np.zeros(seqs + 1),
        kv_s=np.array([per_kv_token_s]),
        window_tokens=np.array([0]),
        seq_s=0.0,
        pair_s=np.array([0.0]),
        prefix_s=0.0,
        decode_fixed_s=0.0,
        prefill_fixed_s=0.0,
        host_step_s=0.0,
        host_seq_s=0.0,
        host_prefill_s=0.0,
        async_scheduling=asynchronous,
    )


def requests_of(
    arrival_s: np.ndarray,
    input_tokens: np.ndarray | int,
    output_tokens: np.ndarray | int,
    *,
    class_id: np.ndarray | None = None,
    class_names: tuple[str, ...] = ("all",),
) -> Requests:
    """Requests sorted by arrival, lengths broadcast."""
    count = len(arrival_s)
    zeros = np.zeros(count, dtype=np.int64)
    return Requests(
        arrival_s=np.asarray(arrival_s, dtype=np.float64),
        input_tokens=np.broadcast_to(np.asarray(input_tokens, dtype=np.int64), count).copy(),
        output_tokens=np.broadcast_to(np.asarray(output_tokens, dtype=np.int64), count).copy(),
        class_id=zeros if class_id is None else class_id,
        class_names=class_names,
        cached_tokens=zeros,
        session_id=zeros - 1,
    )


def poisson(
    rate: float,
    span_s: float,
    seed: int = 1,
    *,
    input_mean: float = 1000.0,
    output_mean: float = 200.0,
    spread: float = 0.7,
) -> Requests:
    """Poisson arrivals with log-normal lengths."""
    draw = np.random.default_rng(seed)
    count = int(rate * span_s)
    arrival = np.sort(draw.uniform(0.0, span_s, count))
    arrival -= arrival[0]
    shape = np.exp(spread * draw.standard_normal((2, count)) - spread**2 / 2)
    lengths = np.maximum(1, (shape * [[input_mean], [output_mean]]).round()).astype(np.int64)
    return requests_of(arrival, lengths[0], np.maximum(2, lengths[1]))


def slo_of(*targets: tuple[str, float, float], model: str = LLAMA_8B, **changes: object) -> Slo:
    """An slo.yaml with one class."""
    made = tuple(Target(metric=m, percentile=p, limit_s=x) for m, p, x in targets)
    base = {
        "model": model,
        "classes": (WorkloadClass(name="all", targets=made),),
        "headroom": 0.0,
    }
    return Slo(**{**base, **changes})


def case_of(requests: Requests, slo: Slo, *gpus: str) -> Case:
    """Return a Case from requests and an Slo, on catalogued GPUs."""
    parts = tuple(catalog.gpu(name) for name in gpus or ("h100",))
    return Case(
        model=catalog.model(slo.model),
        engine=catalog.engine(slo.engine, slo.engine_version),
        gpus=parts,
        calibrations={gpu.id: calibration(gpu) for gpu in parts},
        slo=slo,
        requests=requests,
        profile=profile_requests(requests),
    )
