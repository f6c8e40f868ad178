"""What a start-up log says of its deployment: model, GPU, engine and settings, or what it lacks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from planner.calibrate.measured import Row, number, text
from planner.calibrate.names import as_released, gpu_of, model_of
from planner.calibrate.points import PER_TENSOR_FP8
from planner.spec import catalog
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model
from planner.units import GIB

# What a row's weight format is called -> ours.
FORMATS = (
    (r"awq|gptq|int4|w4a16", "int4"),
    (r"nvfp4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"w8a8|int8", "int8"),
    (r"float32|fp32", "fp32"),
    (r"fp8", "fp8"),
    (r"bf16|fp16|float16|half", "bf16"),
)
# Names that stand for another checkpoint than the catalogue's, or for a model plus a draft one.
NOT_PLAIN = re.compile(
    r"EAGLE|DFlash|MTP|draft|\bVL\b|Vision|~|unnamed|class|family", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCase:
    """A start-up whose model, GPU and settings are known."""

    id: str
    model: Model
    gpu: Gpu
    engine: Engine
    deployment: Deployment
    version: tuple[int, ...]


class Unknown(Exception):  # noqa: N818  (a row without enough facts, not a failure)
    """Which fact a row lacks."""


def case(row: Row) -> KvCase:
    """Return the deployment of a row.

    Raises
    ------
    Unknown
        A fact is missing that the account needs.
    """
    name = text(row, "model")
    if NOT_PLAIN.search(name):
        raise Unknown(f"model {name} is no published checkpoint by itself")
    model = model_of(name)
    if model is None:
        raise Unknown(f"model {name or 'unnamed'} is not in the catalogue")
    dtype = _weight_dtype(row, model)
    model = as_released(model, name, dtype)
    gpu, engine = _gpu(row), _engine(row)
    tp = int(number(row, "tp") or 1)
    default = catalog.batch_default(engine, gpu)
    length = int(number(row, "max_model_len") or model.max_model_len)
    deployment = Deployment(
        gpu=gpu.id,
        model=model.id,
        engine=engine.id,
        engine_version=engine.version,
        weight_dtype=dtype,
        kv_cache_dtype=_kv_dtype(row),
        tensor_parallel_size=tp,
        pipeline_parallel_size=int(_leading(row, "pp") or 1),
        data_parallel_size=1,
        expert_parallel=(number(row, "dp") or 1) > 1,
        max_num_batched_tokens=int(
            number(row, "max_batched_tokens") or default.max_num_batched_tokens
        ),
        max_num_seqs=int(_leading(row, "max_num_seqs") or _default_seqs(row, default.max_num_seqs)),
        max_model_len=length,
        gpu_memory_utilization=number(row, "util_or_memfrac")
        or engine.memory.gpu_memory_utilization,
        block_size=int(number(row, "block_size") or engine.block_tokens),
    )
    return KvCase(
        id=text(row, "case_id"),
        model=model,
        gpu=gpu,
        engine=engine,
        deployment=deployment,
        version=_version(row),
    )


def _gpu(row: Row) -> Gpu:
    name = text(row, "gpu").rstrip("?")
    gpu = gpu_of(name)
    if gpu is None:
        raise Unknown(f"GPU {name or 'unnamed'} is not in the catalogue")
    visible = number(row, "gpu_mem_gib_visible")
    return replace(gpu, memory_bytes_visible=visible * GIB) if visible else gpu


def _engine(row: Row) -> Engine:
    name = text(row, "engine").lower()
    if name == "sglang":
        return catalog.engine("sglang")
    if name != "vllm":
        raise Unknown(f"engine {text(row, 'engine')} has no profile")
    return catalog.engine("vllm", "0.11" if _version(row) < (0, 17) else "")


def _default_seqs(row: Row, usual: int) -> int:
    """Return the default batch: V1 took 1,024 on every GPU before 0.8.4 (0.8.3: KV083's note)."""
    early = re.match(r"0\.8\.[0-3]($|\D)", text(row, "version"))
    return 1024 if early else usual


def _version(row: Row) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", text(row, "version"))
    return (int(found[1]), int(found[2])) if found else (99,)


def _weight_dtype(row: Row, model: Model) -> str:
    stated = (
        f"{text(row, 'weight_dtype')} {text(row, 'model') if not text(row, 'weight_dtype') else ''}"
    )
    for pattern, ours in FORMATS:
        if re.search(pattern, stated, re.IGNORECASE):
            if ours == "fp8" and not PER_TENSOR_FP8.search(text(row, "model")):
                return "fp8_block"
            return ours
    return model.weight_dtype


def _kv_dtype(row: Row) -> str:
    if text(row, "kv_dtype").startswith("fp8"):
        return "fp8"
    wide = re.search(r"float32|fp32", text(row, "weight_dtype"))
    return "fp32" if wide and text(row, "kv_dtype") in ("", "auto") else "bf16"


def _leading(row: Row, name: str) -> float | None:
    """Return the number a text such as "1024?(default)" starts with."""
    found = re.match(r"\d+", text(row, name))
    return float(found[0]) if found else None
