"""Turn a Hugging Face `config.json` into a `Model`.

The catalogue's own models and a user's local file go through the same function.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.errors import InputError
from planner.spec.document import Document, in_order
from planner.spec.hf_architectures import ARCHITECTURES
from planner.spec.hf_fields import Fields
from planner.spec.hf_quantization import quantized_experts_only, weight_dtype
from planner.spec.model import Model, Moe


def supported_architectures() -> tuple[str, ...]:
    """Return the architectures whose config the planner understands, in alphabetical order."""
    return tuple(sorted(ARCHITECTURES))


def model_from_config(
    config: Mapping[str, Any],
    model_id: str,
    *,
    file: str = "",
    published_parameters: float = 0.0,
    published_active_parameters: float | None = None,
    source: str = "",
    date: str = "",
    notes: str = "",
) -> Model:
    """Return the architecture that a `config.json` describes.

    Parameters
    ----------
    config : Mapping
        The parsed file, verbatim.
    model_id : str
        Hugging Face id or path; becomes `Model.id`.
    file : str
        Named in messages.
    published_parameters, published_active_parameters : float
        The authors' counts, 0 and None where unknown (a user's own file).
    source, date, notes : str
        Where the config was read, when, and what to know about it.

    Raises
    ------
    InputError
        Unknown architecture or quantisation (named, with the supported ones), or fields missing
        or wrong: all of them at once.

    Examples
    --------
    >>> config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "vocab_size": 32000,
    ...           "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
    ...           "max_position_embeddings": 4096, "torch_dtype": "float16"}
    >>> model = model_from_config(config, "meta-llama/Llama-2-7b-hf")
    >>> model.num_kv_heads, model.head_dim, model.weight_dtype
    (32, 128, 'fp16')
    """
    fields = Fields(config, file=file)
    architecture = _architecture(fields)
    shape = _checked(fields, ARCHITECTURES[architecture](fields))
    dtype = weight_dtype(fields)
    experts_only = quantized_experts_only(fields, shape["num_layers"])
    fields.raise_if_any()
    return Model(
        id=model_id,
        architecture=architecture,
        weight_dtype=dtype,
        quantized_experts_only=experts_only and shape.get("moe") is not None,
        unquantized_attention=experts_only and shape.get("moe") is None,
        published_parameters=published_parameters,
        published_active_parameters=published_active_parameters,
        source=source,
        date=date,
        notes=notes,
        **shape,
    )


def _architecture(fields: Fields) -> str:
    """Return the supported architecture the config names, or refuse by name."""
    names = [str(name) for name in fields.items("architectures")]
    for name in names:
        if name in ARCHITECTURES:
            return name
    supported = ", ".join(supported_architectures())
    if not names:
        message = "missing: it names the model class"
        fields.problem("architectures", message, f"supported: {supported}")
    else:
        near = difflib.get_close_matches(names[0], ARCHITECTURES, n=1)
        message = f"unknown architecture {names[0]!r}"
        if near:
            message += f", nearest is {near[0]}"
        fields.problem("architectures", message, f"supported: {supported}")
    raise InputError(fields.problems)


def _checked(fields: Fields, shape: dict[str, Any]) -> dict[str, Any]:
    """Refuse shapes that no engine could run; drop a dense width that no layer uses."""
    if fields.problems:
        return shape  # placeholders stand where values are wrong: nothing to compare
    heads, kv_heads = shape["num_attention_heads"], shape["num_kv_heads"]
    if heads % kv_heads:
        fields.problem("num_key_value_heads", f"{kv_heads} does not divide {heads} attention heads")
    hidden = shape["hidden_size"]
    if hidden % heads and not shape.get("mla") and not fields.declares("head_dim"):
        fields.problem("num_attention_heads", f"{hidden} is no multiple of {heads} heads")
    moe: Moe | None = shape.get("moe")
    if moe and not 0 < moe.layers <= shape["num_layers"]:
        message = f"{moe.layers} MoE layers in a model of {shape['num_layers']}"
        fields.problem("num_hidden_layers", message)
    if moe and moe.experts_per_token > moe.num_experts:
        message = f"{moe.experts_per_token} of {moe.num_experts} experts"
        fields.problem("num_experts_per_tok", message)
    if moe and moe.layers == shape["num_layers"]:
        shape["intermediate_size"] = 0
    return shape


def with_places(error: InputError, document: Document) -> InputError:
    """Return the error with line and column of every problem in the config's document."""
    located = []
    for problem in error.problems:
        line, column = document.place(problem.path.split(".") if problem.path else ())
        located.append(replace(problem, file=document.file, line=line, column=column))
    return InputError(in_order(located))
