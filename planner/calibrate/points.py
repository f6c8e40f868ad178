"""Turn a measured serving point (a row of e2e_points.csv) into a deployment and its load."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planner.calibrate.launch_scripts import INFERENCEX, Script, launch_script, poll_steps
from planner.calibrate.measured import Row, text
from planner.calibrate.names import as_released, gpu_of, model_of
from planner.calibrate.reuse import cached_tokens
from planner.errors import InputError, Problem
from planner.perf.closed_loop import Load
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# Families released in per-tensor fp8; every other fp8 release uses 128 × 128 blocks.
PER_TENSOR_FP8 = re.compile(r"llama|mistral|ministral|gemma", re.IGNORECASE)
# What InferenceX's launch scripts pass, by scheduler; elsewhere it is rarely stated.
DEFAULT_UTILIZATION = {"vllm_v1": 0.9, "sglang": 0.85}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured deployment with its load."""

    id: str
    model: Model
    gpu: Gpu
    engine: Engine
    deployment: Deployment
    load: Load
    mixes: bool


class Unsupported(Exception):  # noqa: N818  (a row without a prediction, not a failure)
    """Why a row cannot be predicted."""


def read_points(path: Path, required: Sequence[str] = ()) -> list[Row]:
    """Return every row of a CSV file of measurements; other columns than `required` may lack.

    Raises
    ------
    InputError
        The file is empty or no UTF-8 text, or a required column is missing.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if not reader.fieldnames:
                hint = "the first line names the columns"
                raise InputError(Problem(message="the file is empty", file=str(path), hint=hint))
            missing = [name for name in required if name not in (reader.fieldnames or ())]
            if missing:
                hint = "the first line names the columns: " + ", ".join(required) + " are needed"
                raise InputError(
                    [
                        Problem(
                            message=f"no column {name}", file=str(path), line=1, column=1, hint=hint
                        )
                        for name in missing
                    ]
                )
            return list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            Problem(message=f"no CSV text: {error}", file=str(path), hint="save it as UTF-8 CSV")
        ) from error


def point(row: Row) -> Point:
    """Return the deployment and load of one row.

    Raises
    ------
    Unsupported
        The model, GPU or engine is not in the catalogue, or a length is missing.
    """
    gpu, engine = _gpu(row), _engine(row)
    script = launch_script(row, gpu)
    model = _with_state(_model(row), script)
    dp, tp = _integer(row, "dp", 1), _integer(row, "tp", 1)
    if engine.id == "sglang" and dp > 1 and tp % dp == 0:
        tp //= dp  # its dp attention divides the tensor-parallel group, vLLM's multiplies it
    if not (text(row, "input_tokens") and text(row, "output_tokens") and text(row, "concurrency")):
        raise Unsupported("lengths or concurrency not stated")
    concurrency = max(1.0, float(text(row, "concurrency")))
    deployment = Deployment(
        gpu=gpu.id,
        model=model.id,
        engine=engine.id,
        engine_version=engine.version,
        weight_dtype=weight_dtype(row, model),
        kv_cache_dtype=kv_cache_dtype(row, gpu),
        tensor_parallel_size=tp,
        pipeline_parallel_size=_integer(row, "pp", 1),
        data_parallel_size=dp,
        expert_parallel=_integer(row, "ep", 1) > 1,
        max_num_batched_tokens=_integer(
            row, "max_num_batched_tokens", script.chunk_tokens if script else 8192
        ),
        max_num_seqs=_max_num_seqs(row, gpu, engine, concurrency),
        max_model_len=int(
            2 * (float(text(row, "input_tokens")) + float(text(row, "output_tokens")))
        )
        + 256,
        gpu_memory_utilization=DEFAULT_UTILIZATION[engine.policy],
        block_size=16,
    )
    cached, opening_cached = cached_tokens(row, model)
    return Point(
        id=text(row, "point_id"),
        model=model,
        gpu=gpu,
        engine=engine,
        deployment=deployment,
        load=Load(
            prompt_tokens=float(text(row, "input_tokens")),
            output_tokens=float(text(row, "output_tokens")),
            concurrency=concurrency / dp,
            ranks=dp,
            in_step=dp > 1 and model.moe is not None,
            opening_burst=_burst(row, concurrency),
            poll_steps=poll_steps(row, gpu),
            cached_tokens=cached,
            burst_cached_tokens=opening_cached,
        ),
        mixes=engine.mixes_prefill_and_decode,
    )


def weight_dtype(row: Row, model: Model) -> str:
    """Return our name of the row's weight format; unstated means as published."""
    stated = text(row, "weight_dtype").lower()
    if stated.startswith("fp8"):
        return "fp8" if PER_TENSOR_FP8.search(text(row, "model")) else "fp8_block"
    if stated == "fp4":
        return "mxfp4" if "gpt-oss" in text(row, "model") else "nvfp4"
    if "int4" in stated or "awq" in stated:
        return "int4"
    return stated if stated in ("bf16", "mxfp4") else model.weight_dtype


def kv_cache_dtype(row: Row, gpu: Gpu) -> str:
    """Return the KV format; unstated means 16 bit, but fp8 on fp4 hardware.

    InferenceX's unstated 70 B runs on B200 start without queueing at loads whose KV would not fit
    at 16 bit, and read KV at half the 16-bit time; those on H100 and H200 queue as 16 bit would.
    """
    stated = text(row, "kv_dtype")
    if stated.startswith("fp8") or (not stated and "fp4" in gpu.peak_flops_per_s):
        return "fp8"
    return "bf16"


def _max_num_seqs(row: Row, gpu: Gpu, engine: Engine, concurrency: float) -> int:
    """Return the batch limit: stated, InferenceX's (the concurrency; 512 on Blackwell), default."""
    if text(row, "max_num_seqs"):
        return int(float(text(row, "max_num_seqs")))
    if text(row, "source_id") == INFERENCEX:
        return max(int(concurrency), 512 if "fp4" in gpu.peak_flops_per_s else 1)
    return max(catalog.batch_default(engine, gpu).max_num_seqs, int(concurrency))


def _burst(row: Row, concurrency: float) -> float:
    """Share of the requests that arrive together at the start; InferenceX sends 10 per client."""
    if text(row, "source_id") == INFERENCEX:
        return 0.1
    requests = text(row, "n_requests")
    return min(1.0, concurrency / float(requests)) if requests else 0.1


def _model(row: Row) -> Model:
    name = text(row, "model")
    model = model_of(name)
    if model is None:
        raise Unsupported(f"model {name} is not in the catalogue")
    return as_released(model, name, weight_dtype(row, model))


def _with_state(model: Model, script: Script | None) -> Model:
    """Return the model with the state format that its launch script asks for."""
    linear = model.linear_attention
    if not (linear and script and script.state_bytes):
        return model
    return replace(model, linear_attention=replace(linear, state_dtype_bytes=script.state_bytes))


def _gpu(row: Row) -> Gpu:
    gpu = gpu_of(text(row, "gpu"))
    if gpu is None:
        raise Unsupported(f"GPU {text(row, 'gpu')} is not in the catalogue")
    return gpu


def _engine(row: Row) -> Engine:
    name = text(row, "engine").lower()
    if name == "trtllm":
        return trtllm()
    if name not in ("vllm", "sglang"):
        raise Unsupported(f"engine {row['engine']} has no profile")
    old = re.match(r"0\.(\d|10|11)(\.|$)", text(row, "engine_version")) and name == "vllm"
    return catalog.engine(name, "0.11" if old else "")


def trtllm() -> Engine:
    """Return TensorRT-LLM's step loop as far as a closed loop sees it: vLLM's, its own host.

    Three overheads are `hosts.trtllm_host`'s, a fit on its 77 closed-loop points. These are one
    model's and cannot tell a prefill's launches from the frontend, so launches and the frontend's
    times per client and token are vLLM's. (Left free, launches take 2 ms a layer, which the other
    TensorRT-LLM runs, set aside and in no fit, contradict by half their TPOT.)
    """
    return replace(
        catalog.engine("vllm"),
        id="trtllm",
        version="1",
        layer_overhead_s=39e-6,
        seq_overhead_s=30e-6,
        frontend_s=46e-3,
    )


def _integer(row: Row, name: str, default: int) -> int:
    return max(1, int(float(text(row, name)))) if text(row, name) else default
