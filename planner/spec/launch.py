"""The argument vector that starts one replica: the deployment's values in the engine's own flags.

Nothing is added, nothing is left to a default that the deployment decides.
"""

from __future__ import annotations

import shlex
from dataclasses import fields

from planner.errors import InputError, Problem
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.model import Model

# Fields that name the replica rather than configure the server.
IDENTITY = frozenset({"gpu", "model", "engine", "engine_version"})

# The engines' words for a dtype. Every other dtype is a quantisation and goes to its own flag.
ACTIVATION_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
# What the engines call a quantisation that is applied to unquantised weights when they load.
ONLINE_QUANTIZATION = {"fp8": "fp8"}
# Both engines store fp8 keys and values as e4m3; vLLM's "fp8" is its alias, SGLang has none.
KV_DTYPES = {
    "vllm": {"fp8": "fp8"},
    "sglang": {"fp8": "fp8_e4m3"},
}


def launch_argv(deployment: Deployment, engine: Engine, model: Model) -> tuple[str, ...]:
    """Return the command that starts one replica, its flags in the deployment's field order.

    `engine.flags` maps a field of Deployment to the engine's flag. A boolean's flag is either
    positive (`--enable-x`, switched off by `--no-enable-x`) or negative (`--disable-x`, given only
    when the field is false). A field without a flag is one this engine cannot be told.
    """
    argv = [*shlex.split(engine.launch_command), model.id]
    for field in fields(Deployment):
        flag = engine.flags.get(field.name)
        if flag is not None and field.name not in IDENTITY:
            argv += _option(field.name, flag, deployment, engine, model)
    return tuple(argv)


def _option(
    name: str, flag: str, deployment: Deployment, engine: Engine, model: Model
) -> list[str]:
    """Return the words of one flag, or none where the value is what its absence means."""
    if name == "weight_dtype":
        return _weight_option(flag, deployment, model)
    if name == "kv_cache_dtype":
        return _kv_option(flag, deployment, engine)
    value = getattr(deployment, name)
    if isinstance(value, bool):
        return _switch(flag, value)
    if name == "num_speculative_tokens" and not value:
        return []
    return [flag, _number(value)]


def _switch(flag: str, value: bool) -> list[str]:
    """Return a boolean flag: `--disable-x` when false, else `--x` or `--no-x`."""
    if flag.startswith("--disable-"):
        return [] if value else [flag]
    if flag == "--enable-expert-parallel" and not value:
        return []  # off is what both engines do without it
    return [flag] if value else [flag.replace("--", "--no-", 1)]


def _weight_option(flag: str, deployment: Deployment, model: Model) -> list[str]:
    """Return `--dtype` for 16-bit weights, `--quantization` for weights quantised at load time.

    A checkpoint that is published quantised names its own method; nothing is passed then.
    """
    dtype = deployment.weight_dtype
    unquantised = model.weight_dtype in ACTIVATION_DTYPES
    if dtype in ACTIVATION_DTYPES and unquantised:
        return [flag, ACTIVATION_DTYPES[dtype]]
    if dtype == model.weight_dtype:
        return []
    if dtype in ONLINE_QUANTIZATION and unquantised:
        return ["--quantization", ONLINE_QUANTIZATION[dtype]]
    raise InputError(
        Problem(
            message=f"{model.id} is published as {model.weight_dtype}; no engine makes {dtype} "
            "of it when it loads",
            path="weight_dtypes",
            hint=f"name a checkpoint that is published as {dtype} under `model`",
        )
    )


def _kv_option(flag: str, deployment: Deployment, engine: Engine) -> list[str]:
    """Return the KV cache's dtype; every version takes "auto" for the model's own 16 bits."""
    dtype = deployment.kv_cache_dtype
    if dtype in ACTIVATION_DTYPES:
        return [flag, "auto"]
    return [flag, KV_DTYPES.get(engine.id, {}).get(dtype, dtype)]


def _number(value: float | int | str) -> str:
    """Write a number as a person types it: 0.92, not 0.9200000001.

    >>> _number(0.1 + 0.2), _number(1536), _number(16)
    ('0.3', '1536', '16')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)
