"""Turn a measured serving point (a row of e2e_points.csv) into a deployment and its load."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from planner.errors import InputError
from planner.perf.closed_loop import Load
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model

Row = Mapping[str, str]

# The points' names of hardware and models -> the catalogue's.
GPU_NAMES = {
    "H100-SXM-80GB": "h100-sxm",
    "H200-SXM-141GB": "h200-sxm",
    "B200-SXM-180GB": "b200-sxm",
    "B300-SXM": "b300-sxm",
    "A100-SXM-80GB": "a100-80gb-sxm",
    "A100-80GB": "a100-80gb-sxm",
    "A100-SXM-40GB": "a100-40gb-sxm",
    "GH200-96GB": "gh200",
    "GB200": "gb200",
    "MI300X-192GB": "mi300x",
    "MI355X-288GB": "mi355x",
    "RTX4090-24GB": "rtx-4090",
    "RTX-A6000-48GB": "rtx-a6000",
    "L4-24GB": "l4",
    "L40S-48GB": "l40s",
    "RTX-PRO-6000-96GB": "rtx-pro-6000",
}
MODEL_NAMES = (
    (r"Llama-3.1-70B", "meta-llama/Llama-3.1-70B-Instruct"),
    (r"Llama-3.3-70B", "meta-llama/Llama-3.1-70B-Instruct"),
    (r"Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),
    (r"Qwen3.5-397B", "Qwen/Qwen3.5-397B-A17B"),
    (r"Qwen3-Coder-Next", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
    (r"DeepSeek-Math-V2|DeepSeek-V3.2", "deepseek-ai/DeepSeek-V3.2"),
    (r"DeepSeek-R1-Distill", ""),
    (r"DeepSeek-(R1|V3)", "deepseek-ai/DeepSeek-V3"),
    (r"Kimi-K2", "moonshotai/Kimi-K2-Instruct"),
    (r"GLM-5", "zai-org/GLM-5"),
    (r"MiniMax-M2", "MiniMaxAI/MiniMax-M2.5"),
    (r"405B", "meta-llama/Llama-3.1-405B-Instruct"),
    (r"Qwen3-Coder-480B", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
    (r"Qwen3-8B", "Qwen/Qwen3-8B"),
    (r"Qwen3-14B", "Qwen/Qwen3-14B"),
)
# Families released in per-tensor fp8; every other fp8 release uses 128 × 128 blocks.
PER_TENSOR_FP8 = re.compile(r"llama|mistral|ministral|gemma", re.IGNORECASE)
# What InferenceX's launch scripts pass, by scheduler; elsewhere it is rarely stated.
DEFAULT_UTILIZATION = {"vllm_v1": 0.9, "sglang": 0.85}
INFERENCEX = "aic_silicon_inferencex"


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


def read_points(path: Path) -> list[Row]:
    """Return every row of a points file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def point(row: Row) -> Point:
    """Return the deployment and load of one row.

    Raises
    ------
    Unsupported
        The model, GPU or engine is not in the catalogue, or a length is missing.
    """
    model, gpu, engine = _model(row), _gpu(row), _engine(row)
    dp = _integer(row, "dp", 1)
    if not (row["input_tokens"] and row["output_tokens"] and row["concurrency"]):
        raise Unsupported("lengths or concurrency not stated")
    concurrency = float(row["concurrency"])
    deployment = Deployment(
        gpu=gpu.id,
        model=model.id,
        engine=engine.id,
        engine_version=engine.version,
        weight_dtype=weight_dtype(row, model),
        kv_cache_dtype=kv_cache_dtype(row, gpu),
        tensor_parallel_size=_integer(row, "tp", 1),
        pipeline_parallel_size=_integer(row, "pp", 1),
        data_parallel_size=dp,
        expert_parallel=_integer(row, "ep", 1) > 1,
        max_num_batched_tokens=_integer(row, "max_num_batched_tokens", 8192),
        max_num_seqs=_max_num_seqs(row, gpu, engine, concurrency),
        max_model_len=int(2 * (float(row["input_tokens"]) + float(row["output_tokens"]))) + 256,
        gpu_memory_utilization=DEFAULT_UTILIZATION[engine.policy],
        block_size=16,
    )
    return Point(
        id=row["point_id"],
        model=model,
        gpu=gpu,
        engine=engine,
        deployment=deployment,
        load=Load(
            prompt_tokens=float(row["input_tokens"]),
            output_tokens=float(row["output_tokens"]),
            concurrency=concurrency / dp,
            opening_burst=_burst(row, concurrency),
            poll_steps=_poll_steps(row, gpu),
        ),
        mixes=engine.mixes_prefill_and_decode,
    )


def weight_dtype(row: Row, model: Model) -> str:
    """Return our name of the row's weight format; unstated means as published."""
    text = row["weight_dtype"].lower()
    if text.startswith("fp8"):
        return "fp8" if PER_TENSOR_FP8.search(row["model"]) else "fp8_block"
    if text == "fp4":
        return "mxfp4" if "gpt-oss" in row["model"] else "nvfp4"
    if "int4" in text or "awq" in text:
        return "int4"
    return text if text in ("bf16", "mxfp4") else model.weight_dtype


def kv_cache_dtype(row: Row, gpu: Gpu) -> str:
    """Return the KV format; unstated means 16 bit, but fp8 on fp4 hardware.

    InferenceX's unstated 70 B runs on B200 start without queueing at loads whose KV would not fit
    at 16 bit, and read KV at half the 16-bit time; those on H100 and H200 queue as 16 bit would.
    """
    stated = row["kv_dtype"]
    if stated.startswith("fp8") or (not stated and "fp4" in gpu.peak_flops_per_s):
        return "fp8"
    return "bf16"


def _max_num_seqs(row: Row, gpu: Gpu, engine: Engine, concurrency: float) -> int:
    """Return the batch limit: stated, InferenceX's (the concurrency; 512 on Blackwell), default."""
    if row.get("max_num_seqs"):
        return int(float(row["max_num_seqs"]))
    if row["source_id"] == INFERENCEX:
        return max(int(concurrency), 512 if "fp4" in gpu.peak_flops_per_s else 1)
    return max(catalog.batch_default(engine, gpu).max_num_seqs, int(concurrency))


def _poll_steps(row: Row, gpu: Gpu) -> float:
    """Return steps between SGLang's looks at its inbox: InferenceX sets 10, or 30 from 16 clients.

    Its launch scripts do so for DeepSeek and Qwen3.5 on B200, and 10 throughout on B300.
    """
    named = re.search(r"DeepSeek|Qwen3\.5", row["model"])
    if row["engine"] != "sglang" or row["source_id"] != INFERENCEX or not named:
        return 1.0
    if gpu.id == "b300-sxm":
        return 10.0
    if gpu.id == "b200-sxm":
        return 10.0 if float(row["concurrency"]) < 16 else 30.0
    return 1.0


def _burst(row: Row, concurrency: float) -> float:
    """Share of the requests that arrive together at the start; InferenceX sends 10 per client."""
    if row["source_id"] == INFERENCEX:
        return 0.1
    requests = row.get("n_requests", "")
    return min(1.0, concurrency / float(requests)) if requests else 0.1


def _model(row: Row) -> Model:
    name = row["model"]
    for pattern, known in MODEL_NAMES:
        if re.search(pattern, name, re.IGNORECASE):
            name = known
            break
    try:
        model = catalog.model(name)
    except InputError as error:
        raise Unsupported(f"model {row['model']} is not in the catalogue") from error
    # Kimi from K2-Thinking on is published with 4-bit experts and everything else at 16 bit.
    experts_only = "Kimi-K2" in name and weight_dtype(row, model) in ("int4", "nvfp4")
    return replace(model, quantized_experts_only=True) if experts_only else model


def _gpu(row: Row) -> Gpu:
    try:
        return catalog.gpu(GPU_NAMES.get(row["gpu"], row["gpu"]))
    except InputError as error:
        raise Unsupported(f"GPU {row['gpu']} is not in the catalogue") from error


def _engine(row: Row) -> Engine:
    name = row["engine"].lower()
    if name == "trtllm":
        return trtllm()
    if name not in ("vllm", "sglang"):
        raise Unsupported(f"engine {row['engine']} has no profile")
    old = re.match(r"0\.(\d|10|11)(\.|$)", row["engine_version"]) and name == "vllm"
    return catalog.engine(name, "0.11" if old else "")


def trtllm() -> Engine:
    """Return TensorRT-LLM's step loop as far as a closed loop sees it: vLLM's, its own host.

    The overheads are `hosts.fit_host` on its 77 closed-loop points, which are one model's.
    """
    return replace(
        catalog.engine("vllm"),
        id="trtllm",
        version="1",
        layer_overhead_s=36e-6,
        seq_overhead_s=4e-6,
        prefill_layer_overhead_s=1.07e-3,
    )


def _integer(row: Row, name: str, default: int) -> int:
    return int(float(row[name])) if row.get(name) else default
