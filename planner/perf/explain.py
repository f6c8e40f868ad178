"""Put the numbers of a case into an equation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.errors import InputError, Problem
from planner.perf import theory
from planner.perf.equations import EQUATIONS, SYMBOLS, Equation
from planner.perf.formats import BYTES_PER_PARAMETER, KV_BYTES, arithmetic
from planner.perf.kv_reads import kv_reads
from planner.perf.layers import index_bytes_per_token, kv_heads_per_rank, value_head_dim
from planner.perf.memory import stored_weight_bytes
from planner.perf.parameters import parameters
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# A value nobody gave -> the equations that yield it from others, the first that can.
DERIVED = {
    "token_flops": ("flops_per_token",),
    "weights": ("weight_bytes",),
    "ridge": ("ridge_flops_per_byte",),
    "kv_per_token": ("kv_bytes_read_per_token", "latent_kv_bytes_per_token", "kv_bytes_per_token"),
    "step": ("step_s",),
    "capacity_tokens": ("kv_capacity_tokens",),
}
DEFAULTS = {
    "draft_tokens": 0.0,
    "bytes_per_parameter": 2.0,
    "bytes_per_element": 2.0,
    "kv_element_bytes": 2.0,
    "index_bytes": 0.0,
    "copies": 1.0,
}
SAME = {"batch_seqs": "decode_seqs", "attention_layers": "layers"}
# An equation -> the one for models of another build, and the number that only those have.
VARIANTS = {
    "kv_bytes_per_token": ("latent_kv_bytes_per_token", "latent_dim"),
    "memory_bound_context_tokens": (
        "windowed_memory_bound_context_tokens",
        "window_kv_per_token",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One number of a case and where it comes from ("given", "default", or an equation's id)."""

    parameter: str
    value: float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One equation with numbers in it. `result` is None where the equation has no solution."""

    equation: Equation
    values: tuple[Value, ...]
    substituted: str
    result: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """One chunk of the theory's table."""

    chunk_tokens: float
    step_s: float
    compute_s: float
    bound: str  # "memory", "compute" or "both" (terms within 1 %)
    tpot_s: float
    ttft_s: float
    steps: int


def model_values(
    model: Model, weight_dtype: str, kv_cache_dtype: str, tensor_parallel_size: int
) -> dict[str, float]:
    """Return what the equations can take from a model; all GPUs of the replica together.

    k is one number where every layer reads the whole context, and two with their window where
    some do not.
    """
    return {
        "token_flops": float(theory.flops_per_token(parameters(model).active)),
        "weights": stored_weight_bytes(model, weight_dtype),
        "bytes_per_parameter": BYTES_PER_PARAMETER[weight_dtype],
        "layers": float(model.num_layers),
        "attention_layers": float(model.attention_layers),
        "kv_element_bytes": KV_BYTES[kv_cache_dtype],
        "hidden": float(model.hidden_size),
        "vocab": float(model.vocab_size),
        **_cached_widths(model, tensor_parallel_size),
        **_kv_values(model, kv_cache_dtype, tensor_parallel_size),
    }


def _cached_widths(model: Model, tensor_parallel_size: int) -> dict[str, float]:
    """Return what a layer caches of a token: MLA's latent, or heads of keys and values."""
    if model.mla:
        return {
            "latent_dim": float(model.mla.kv_lora_rank),
            "rope_dim": float(model.mla.qk_rope_head_dim),
            "index_bytes": index_bytes_per_token(model),
            "copies": float(tensor_parallel_size),
        }
    heads = kv_heads_per_rank(model, tensor_parallel_size) * tensor_parallel_size
    return {"kv_heads": heads, "head_dim": (model.head_dim + value_head_dim(model)) / 2}


def _kv_values(model: Model, kv_cache_dtype: str, tensor_parallel_size: int) -> dict[str, float]:
    reads = kv_reads(model, kv_cache_dtype, tensor_parallel_size)
    if not reads.window_tokens:
        return {"kv_per_token": reads.held_bytes_per_token}
    return {
        "full_kv_per_token": reads.full_bytes_per_token,
        "window_kv_per_token": reads.window_bytes_per_token,
        "window_tokens": float(reads.window_tokens),
    }


def fitting(equation: Equation, given: Mapping[str, float]) -> Equation:
    """Return the equation for the build of the case's model: MLA's k, S_bound with windows.

    A k that was given as a number is the whole truth about KV: then no variant is needed.
    """
    other, sign = VARIANTS.get(equation.id, ("", ""))
    replaced = sign in given and "kv_per_token" not in given
    latent = sign == "latent_dim" and sign in given
    return EQUATIONS[other] if replaced or latent else equation


def gpu_values(gpu: Gpu, weight_dtype: str, tensor_parallel_size: int) -> dict[str, float]:
    """Return what the equations can take from the GPUs of a replica."""
    peak = arithmetic(gpu, weight_dtype).peak_flops_per_s
    return {
        "flops_per_s": peak * tensor_parallel_size,
        "bandwidth_bytes_per_s": gpu.memory_bandwidth_bytes_per_s * tensor_parallel_size,
    }


def explain(equation: Equation, given: Mapping[str, float]) -> Explanation:
    """Return the equation with the case's numbers; with no numbers at all, its worked example.

    Values that follow from others (φ from P, R from F and W, τ from the whole case) are derived.

    Raises
    ------
    InputError
        A number is missing; the message names every one.
    """
    if not given:
        values = tuple(
            Value(parameter=name, value=float(value), origin="example")
            for name, value in equation.example.items()
        )
    else:
        values = _resolve(equation, given)
    numbers = {item.parameter: item.value for item in values}
    result = equation.function(**numbers)
    texts = {name: plain(value) for name, value in numbers.items()}
    return Explanation(
        equation=equation,
        values=values,
        substituted=equation.fill(texts),
        result=None if result is None else float(result),
    )


def related(
    equation: Equation, given: Mapping[str, float], result: float | None
) -> list[Explanation]:
    """Return the equations worth reading beside one, its result fed into those that take it."""
    known = dict(given)
    if given and equation.id.endswith("chunk_tokens") and result is not None:
        known["chunk_tokens"] = result
    if given and equation.id == "kv_capacity_tokens" and result is not None:
        known["capacity_tokens"] = result
    found = []
    for name in equation.related:
        try:
            found.append(explain(EQUATIONS[name], known))
        except InputError:  # beside the point if a number of it was not given
            continue
    return found


def chunk_table(given: Mapping[str, float], chunks: Sequence[float]) -> list[ChunkRow]:
    """Return step time, TPOT and TTFT of one prompt against D decodes for several chunks.

    Raises
    ------
    InputError
        A number of the case is missing.
    """
    names = {
        item.parameter: item.value
        for item in _resolve(EQUATIONS["step_s"], {**given, "chunk_tokens": 0.0})
    }
    prompt = _resolve(EQUATIONS["prefill_steps"], {**given, "chunk_tokens": 1.0})[0].value
    rows = []
    for chunk in chunks:
        case = {**names, "chunk_tokens": chunk}
        step = float(theory.step_s(**case))
        compute = _call("compute_s", case)
        memory = _call("memory_floor_s", case)
        near = abs(compute - memory) <= 0.01 * memory
        rows.append(
            ChunkRow(
                chunk_tokens=chunk,
                step_s=step,
                compute_s=compute,
                bound="both" if near else "compute" if compute > memory else "memory",
                tpot_s=float(theory.tpot_s(step)),
                ttft_s=float(theory.ttft_s(prompt, chunk, step)),
                steps=int(theory.prefill_steps(prompt, chunk)),
            )
        )
    return rows


def plain(value: float) -> str:
    """Return a number with six significant digits, whole numbers in full up to ten million.

    >>> plain(524288.0), plain(14e9), plain(0.0241798692)
    ('524288', '1.4e+10', '0.0241799')
    """
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.6g}"


def _call(name: str, case: Mapping[str, float]) -> float:
    item = EQUATIONS[name]
    return float(item.function(**{key: case[key] for key in item.example}))


def _resolve(equation: Equation, given: Mapping[str, float]) -> tuple[Value, ...]:
    """Return every parameter's value, or raise with all that are missing."""
    values, missing = [], []
    for name in equation.example:
        value = _value(name, given, frozenset())
        if value is None:
            missing.append(name)
        else:
            values.append(value)
    if missing:
        raise InputError([_missing(equation, name) for name in missing])
    return tuple(values)


def _value(name: str, given: Mapping[str, float], seen: frozenset[str]) -> Value | None:
    """Find one parameter: given, the same as another, derived from others, or its default."""
    if name in given:
        return Value(parameter=name, value=float(given[name]), origin="given")
    if SAME.get(name) in given:
        return Value(parameter=name, value=float(given[SAME[name]]), origin="given")
    for source in [] if name in seen else [EQUATIONS[each] for each in DERIVED.get(name, ())]:
        parts = [_value(part, given, seen | {name}) for part in source.example]
        if all(part is not None for part in parts):
            numbers = {part.parameter: part.value for part in parts if part is not None}
            return Value(parameter=name, value=float(source.function(**numbers)), origin=source.id)
    if name in DEFAULTS:
        return Value(parameter=name, value=DEFAULTS[name], origin="default")
    return None


def _missing(equation: Equation, name: str) -> Problem:
    symbol = SYMBOLS[name]
    return Problem(
        path=equation.id,
        message=f"{symbol.symbol} is not given: {symbol.meaning} in {symbol.unit}",
        hint=f"--set {name}=VALUE, or the option for it",
    )
