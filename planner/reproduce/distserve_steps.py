"""OPT on A100 as DistServe (arXiv:2401.09670, OSDI 2024) profiled it.

Its repository fits prefill ms = a + b·tokens + c·Σ length² and decode ms = a + k·context + s·batch.
"""

from __future__ import annotations

from functools import cache

from planner.perf.step_cost import StepCost
from planner.reproduce.claim import Inputs
from planner.reproduce.physics import decode_s, deployment, kv_tokens, prefill_s, step_cost
from planner.reproduce.shapes import GPT3_175B
from planner.spec import catalog
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# Slopes are read between prompts the authors profiled.
SHORT, LONG = 512, 2048


def opt(name: str) -> Model:
    """Return OPT-13B, OPT-66B or OPT-175B."""
    return GPT3_175B if name == "opt-175b" else catalog.model(f"facebook/{name}")


def a100() -> Gpu:
    """Return the paper's GPU."""
    return catalog.gpu("a100-80gb-sxm")


@cache
def cost(name: str, tp: int) -> StepCost:
    """Return the zero-shot step times."""
    model = opt(name)
    return step_cost(model, a100(), deployment(model, a100(), tensor_parallel_size=tp))


def tokens_that_fit(name: str, tp: int, _: Inputs) -> float:
    """Return tokens of KV at the repository's memory share of 0.95, in whole blocks of 16."""
    model = opt(name)
    planned = deployment(model, a100(), tensor_parallel_size=tp, gpu_memory_utilization=0.95)
    return kv_tokens(model, a100(), planned) // 16 * 16


def square_ms(name: str, tp: int, _: Inputs) -> float:
    """Return c: ms per squared prompt token, causal attention (half the pairs)."""
    return 1e3 * float(cost(name, tp).pair_s[0]) / 2.0


def token_ms(name: str, tp: int, inputs: Inputs) -> float:
    """Return b: ms per prompt token without what grows with its square."""
    here = cost(name, tp)
    slope = (prefill_s(here, LONG) - prefill_s(here, SHORT)) / (LONG - SHORT)
    return 1e3 * slope - square_ms(name, tp, inputs) * (LONG + SHORT)


def context_us(name: str, tp: int, _: Inputs) -> float:
    """Return k: µs per cached token that a decode reads."""
    return 1e6 * float(cost(name, tp).kv_s[0])


def decode_intercept_ms(name: str, tp: int, _: Inputs) -> float:
    """Return a: ms of a decode step that reads no context."""
    return 1e3 * decode_s(cost(name, tp), 1, 0.0)
