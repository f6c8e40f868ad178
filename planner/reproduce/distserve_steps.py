"""OPT on A100 as DistServe (arXiv:2401.09670, OSDI 2024) profiled and fitted it.

Its repository times batches of equal requests and fits, by least squares of relative errors,

    prefill ms = a + b·tokens + c·Σ length²    decode ms = a + k·context + s·batch

The same points of our step times are fitted in the same way: short prompts wait for the weights,
so the curve bends, and b and c share between them what the bend leaves.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost, step_s
from planner.reproduce.claim import Inputs
from planner.reproduce.physics import (
    NCCL_A100_SXM,
    deployment,
    kv_tokens,
    prefill_s,
    step_cost,
)
from planner.reproduce.shapes import GPT3_175B
from planner.spec import catalog
from planner.spec.gpu import Gpu
from planner.spec.model import Model

# LLMServe/DistServe@e2d4dca33e, evaluation/0-test-single-forward-performance/main.py; the fit is
# evaluation/1-fit-time-usage/main.py of the same commit.
BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192)
LENGTHS = (4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 284, 512, 768, 1024, 1536, 2020)
MOST_TOKENS = {
    ("opt-13b", 1): 49_152,
    ("opt-13b", 2): 98_304,
    ("opt-13b", 4): 250_000,
    ("opt-66b", 2): 8192,
    ("opt-66b", 4): 65_000,
    ("opt-66b", 8): 200_000,  # not in the script: what its KV cache holds
}
SMALL_BATCH = 95  # decodes beyond it are fitted apart
MIDDLE_OUTPUT = 8  # tokens decoded when the median of the 15 timed decodes is taken


def opt(name: str) -> Model:
    """Return OPT-13B, OPT-66B or OPT-175B."""
    return GPT3_175B if name == "opt-175b" else catalog.model(f"facebook/{name}")


def a100() -> Gpu:
    """Return the paper's GPU."""
    return catalog.gpu("a100-80gb-sxm")


@cache
def cost(name: str, tp: int, attention: float | None = None) -> StepCost:
    """Return the zero-shot step times; the engine of the paper reduces by NCCL.

    `attention` is the share of the peak that prefill attention reaches, if not the calibration's.
    """
    model = opt(name)
    made = deployment(
        model,
        a100(),
        tensor_parallel_size=tp,
        max_num_batched_tokens=MOST_TOKENS[name, tp],
        max_num_seqs=max(BATCHES),
    )
    return step_cost(model, a100(), made, attention=attention, all_reduce=NCCL_A100_SXM)


def tokens_that_fit(name: str, tp: int, _: Inputs) -> float:
    """Return tokens of KV at the repository's memory share of 0.95, in whole blocks of 16."""
    model = opt(name)
    planned = deployment(model, a100(), tensor_parallel_size=tp, gpu_memory_utilization=0.95)
    return kv_tokens(model, a100(), planned) // 16 * 16


def points(name: str, tp: int, lone: bool) -> NDArray[np.int64]:
    """Return (batch, prompt length) of the profile, [points, 2]; `lone` keeps batches of one."""
    found = [
        (batch, length)
        for batch in (BATCHES[:1] if lone else BATCHES)
        for length in LENGTHS
        if batch * (-(-length // 16) * 16) <= MOST_TOKENS[name, tp]
    ]
    return np.array(found, np.int64)


def relative_fit(columns: list[NDArray[np.float64]], ms: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the coefficients of the columns with the least sum of squared relative errors.

    >>> n = np.array([1.0, 2.0, 5.0])
    >>> [round(x, 6) for x in relative_fit([np.ones(3), n], 3.0 + 2.0 * n)]
    [3.0, 2.0]
    """
    scaled = np.stack(columns, axis=1) / ms[:, None]
    found = np.linalg.lstsq(scaled, np.ones(len(ms)), rcond=None)[0]
    return tuple(float(each) for each in found)


@cache
def fitted(
    name: str, tp: int, attention: float | None = None, lone: bool = False
) -> tuple[float, float, float]:
    """Return (a, b, c) of prefill in ms, fitted to our step times as the authors fit theirs."""
    batch, length = points(name, tp, lone).T
    pairs = batch * length * (length + 1) / 2.0
    seconds = step_s(
        cost(name, tp, attention),
        tokens=batch * length,
        decode_seqs=np.zeros_like(batch),
        kv_tokens=0.0 * pairs,
        rows=batch,
        pairs=pairs,
        prefix_tokens=0.0 * pairs,
    )
    columns = [np.ones(len(batch)), 1.0 * batch * length, 1.0 * batch * length**2]
    start, token, square = relative_fit(columns, 1e3 * np.asarray(seconds, np.float64))
    return start, token, square


@cache
def fitted_decode(name: str, tp: int) -> tuple[float, float, float]:
    """Return (a, k, s) of decode in ms, fitted to our step times as the authors fit theirs."""
    batch, length = points(name, tp, lone=False).T
    batch, length = batch[batch <= SMALL_BATCH], length[batch <= SMALL_BATCH]
    context = 1.0 * batch * length
    read = context + MIDDLE_OUTPUT * batch
    seconds = step_s(cost(name, tp), tokens=batch, decode_seqs=batch, kv_tokens=read, rows=batch)
    columns = [np.ones(len(batch)), context, 1.0 * batch]
    start, cached, each = relative_fit(columns, 1e3 * np.asarray(seconds, np.float64))
    return start, cached, each


def start_ms(name: str, tp: int, _: Inputs) -> float:
    """Return a of prefill: ms that no token adds to."""
    return fitted(name, tp)[0]


def token_ms(name: str, tp: int, _: Inputs) -> float:
    """Return b: ms per prompt token."""
    return fitted(name, tp)[1]


def square_ms(
    name: str, tp: int, _: Inputs, *, attention: float | None = None, lone: bool = False
) -> float:
    """Return c: ms per squared prompt token."""
    return fitted(name, tp, attention, lone)[2]


def attention_ms(name: str, tp: int, _: Inputs) -> float:
    """Return what causal attention alone costs per squared prompt token: half its pairs, in ms."""
    return 1e3 * float(cost(name, tp).pair_s[0]) / 2.0


def prompt_ms(name: str, tp: int, tokens: int, _: Inputs) -> float:
    """Return the time of one prompt, in ms."""
    return 1e3 * prefill_s(cost(name, tp), tokens)


def context_us(name: str, tp: int, _: Inputs) -> float:
    """Return k: µs per cached token that a decode reads."""
    return 1e3 * fitted_decode(name, tp)[1]


def cached_token_us(name: str, tp: int, _: Inputs) -> float:
    """Return what a step takes longer for a cached token, without any fit, in µs."""
    return 1e6 * float(cost(name, tp).kv_s[0])


def decode_intercept_ms(name: str, tp: int, _: Inputs) -> float:
    """Return a of decode: ms that neither context nor sequences add to."""
    return fitted_decode(name, tp)[0]
