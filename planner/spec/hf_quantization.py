"""Which dtype a checkpoint's weights are stored in, from its `config.json`.

Names are the planner's: bf16, fp16, fp8 (one scale a tensor or channel), fp8_block (128 × 128
blocks), int4 (AWQ, GPTQ, compressed-tensors), mxfp4, nvfp4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from planner.spec.hf_fields import Fields

_ATTENTION = re.compile(r"self_attn(\.o_proj|\.?\*)?$")
FLOAT_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    # Engines serve float32 checkpoints in 16 bit; bf16 keeps their range.
    "float32": "bf16",
}


def weight_dtype(config: Fields) -> str:
    """Return the dtype the weights are stored in.

    `config` is the top level of `config.json`; `quantization_config` may also sit in its
    `text_config`. An unknown method is noted as a problem, with the list of known ones.
    """
    quant = _quantization(config)
    if quant is None:
        return _unquantized(config, config.section("text_config"))
    # ModelOpt's own files name the format only.
    method = quant.text("quant_method", "modelopt" if quant.has("quant_algo") else "").lower()
    reader = METHODS.get(method)
    if reader is None:
        known = ", ".join(sorted(METHODS))
        quant.problem("quant_method", f"unknown quantisation {method!r}", f"known: {known}")
        return "bf16"
    return reader(quant)


def quantized_experts_only(config: Fields, num_layers: int) -> bool:
    """Whether attention stays in 16 bit: it is among the exceptions in most layers.

    An exception counts when it names a layer's whole attention or its output projection, not a
    norm or an indexer inside it. A regular expression, a wildcard or a name without a layer's index
    speaks for every layer; a list of single layers must name at least half of them.
    """
    quant = _quantization(config)
    if quant is None:
        return False
    named = set()
    for key in ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"):
        for name in map(str, quant.items(key)):
            if not _ATTENTION.search(name):
                continue
            index = next((part for part in name.split(".") if part.isdigit()), None)
            if index is None:
                return True
            named.add(index)
    return len(named) * 2 >= num_layers


def _quantization(config: Fields) -> Fields | None:
    """Return the section that describes the quantisation, wherever it sits."""
    for place in (config, config.section("text_config")):
        if place.has("quantization_config"):
            return place.section("quantization_config")
    return None


def _unquantized(config: Fields, text: Fields) -> str:
    """Return the plain dtype; the key was renamed from `torch_dtype` to `dtype`."""
    for place in (config, text):
        for key in ("torch_dtype", "dtype"):
            name = place.text(key)
            if name in FLOAT_DTYPES:
                return FLOAT_DTYPES[name]
            if name:
                known = ", ".join(FLOAT_DTYPES)
                place.problem(key, f"unknown dtype {name!r}", f"known: {known}")
                return "bf16"
    return "bf16"


def _fp8(quant: Fields) -> str:
    """Blocks of scales or one scale a tensor."""
    return "fp8_block" if quant.has("weight_block_size") else "fp8"


def _four_bits(quant: Fields) -> str:
    """AWQ and GPTQ: only 4 bit is known."""
    bits = quant.integer("bits" if quant.has("bits") else "w_bit", 4)
    if bits != 4:
        quant.problem("bits", f"{bits}-bit weights are not modelled", "4-bit ones are")
    return "int4"


def _compressed_tensors(quant: Fields) -> str:
    """Read the first group's weights: bits and type decide."""
    groups = quant.section("config_groups")
    name = next((f"group_{index}" for index in range(4) if groups.has(f"group_{index}")), "")
    weights = groups.section(name).section("weights") if name else groups
    bits = weights.integer("num_bits")
    kind = (bits, weights.text("type"))
    if kind == (8, "float"):
        return "fp8_block" if weights.text("strategy") == "block" else "fp8"
    if kind == (4, "int"):
        return "int4"
    if kind == (4, "float"):
        return "mxfp4" if "mxfp4" in quant.text("format") else "nvfp4"
    quant.problem(
        "config_groups",
        f"{bits}-bit {kind[1] or 'unknown'} weights are not modelled",
        "known: 8-bit float, 4-bit int, 4-bit float",
    )
    return "bf16"


def _modelopt(quant: Fields) -> str:
    """NVIDIA ModelOpt: `quant_algo` names the format."""
    algorithm = quant.text("quant_algo").upper()
    known = {"FP8": "fp8", "NVFP4": "nvfp4", "FP8_PB_WO": "fp8_block"}
    if algorithm not in known:
        quant.problem(
            "quant_algo", f"unknown ModelOpt format {algorithm!r}", f"known: {', '.join(known)}"
        )
    return known.get(algorithm, "bf16")


METHODS: dict[str, Callable[[Fields], str]] = {
    "fp8": _fp8,
    "fbgemm_fp8": lambda _: "fp8",
    "awq": _four_bits,
    "gptq": _four_bits,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": lambda _: "nvfp4",
    "mxfp4": lambda _: "mxfp4",
}


def beside(quantization: dict[str, Any]) -> dict[str, Any]:
    """Turn ModelOpt's separate `hf_quant_config.json` into a `quantization_config`."""
    inner = quantization.get("quantization")
    return {"quant_method": "modelopt", **inner} if isinstance(inner, dict) else {}
