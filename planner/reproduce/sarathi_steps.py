"""The experiments of SARATHI (arXiv:2308.16369) as handfuls of step times.

All requests are equal and always there. Steps with a prompt pay for whole tiles of 128 tokens, as
the paper's figure 7 shows its kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from planner.perf.step_arithmetic import attended_pairs
from planner.perf.step_cost import StepCost, step_s
from planner.reproduce.claim import Inputs
from planner.reproduce.physics import decode_s, deployment, no_launches, step_cost
from planner.reproduce.shapes import LLAMA_33B
from planner.spec import catalog
from planner.spec.model import Model

TILE_TOKENS = 128

Machine = Callable[[], StepCost]


def cost_on(model: Model, gpu_name: str, *, bare: bool) -> StepCost:
    """Return the step times of a model on one GPU; `bare` without launches of layers."""
    gpu = catalog.gpu(gpu_name)
    engine = no_launches() if bare else None
    return step_cost(model, gpu, deployment(model, gpu), engine=engine)


@cache
def a6000(*, bare: bool = False) -> StepCost:
    """Return the step times of LLaMA-13B on an RTX A6000."""
    return cost_on(catalog.model("meta-llama/Llama-2-13b-hf"), "rtx-a6000", bare=bare)


@cache
def a100(*, part: str = "pcie", bare: bool = False) -> StepCost:
    """Return the step times of LLaMA-33B on an A100, its PCIe or its SXM part."""
    return cost_on(LLAMA_33B, f"a100-80gb-{part}", bare=bare)


def tiles(tokens: int) -> int:
    """Return tokens rounded up to whole tiles.

    >>> tiles(256), tiles(257)
    (256, 384)
    """
    return TILE_TOKENS * math.ceil(tokens / TILE_TOKENS)


def mixed_s(cost: StepCost, chunk: int, past: float, decodes: int = 0, context: float = 0) -> float:
    """Return the time of a step with a prompt chunk, its matrices in whole tiles, in s."""
    return float(
        step_s(
            cost,
            tokens=tiles(chunk + decodes),
            decode_seqs=decodes,
            kv_tokens=decodes * context,
            rows=decodes,
            pairs=attended_pairs(chunk, past, 0),
            prefix_tokens=past,
        )
    )


def prefill_ms(machine: Machine, tokens: int, _: Inputs) -> float:
    """Return the time of one prompt alone, in ms."""
    return 1e3 * mixed_s(machine(), tokens, 0.0)


def decode_token_ms(machine: Machine, _: Inputs) -> float:
    """Return the time of a token in a batch of four decodes, in ms."""
    return 1e3 * decode_s(machine(), 4, 1024.0) / 4


def piggyback_ratio(machine: Machine, inputs: Inputs) -> float:
    """Return a decode's time in a batch of its own over its time beside a prompt of 1,021.

    The time beside is what the decodes add: hybrid step less the same prompt chunk alone.
    """
    cost = machine()
    added = (mixed_s(cost, 1021, 0.0, 3, 1024.0) - mixed_s(cost, 1021, 0.0)) / 3
    return decode_token_ms(machine, inputs) / (1e3 * added)


def decode_over_prefill(batch: int, _: Inputs) -> float:
    """Return a decode token's time over a prompt token's, at 1,024 tokens."""
    decode = decode_s(a6000(), batch, 1024.0) / batch
    return decode / (mixed_s(a6000(), 1024, 0.0) / 1024)


def layer_tokens_per_ms(inputs: Inputs) -> float:
    """Return prompt tokens per ms in one layer, where more tokens no longer help."""
    return 1024 / (prefill_ms(a6000, 1024, inputs) / 40)


def largest_batch(
    model: Model, memory_bytes: float, gpus: int, length: int, share: float, _: Inputs
) -> float:
    """Return sequences that fit: (share·memory − weights)/(length·k), k = 4·L·h for full heads.

    `gpus` divide weights and cache evenly.
    """
    weights = 2.0 * model.published_parameters
    each = length * 4.0 * model.num_layers * model.hidden_size
    return math.floor((share * memory_bytes * gpus - weights) / each)


def cycle(cost: StepCost, seq: int, batch: int, chunk: int, ratio: float) -> tuple[float, ...]:
    """Return a request's seconds: (prefill, decodes apart), (chunks with decodes), chunks alone.

    Apart, a batch prefills prompt by prompt and then decodes together. Together, each chunk of
    `chunk` − (batch − 1) prompt tokens carries the others' decodes; what the ratio P:D leaves over
    runs as prefill chunks alone or as decodes alone. Prompts are rounded to whole chunks, which the
    paper's ratios C/(B − 1) come to within three tokens.
    """
    step = chunk - (batch - 1)
    prompt = step * round(seq * ratio / (1.0 + ratio) / step)
    outputs = seq - prompt
    context = prompt + outputs / 2.0
    apart = mixed_s(cost, prompt, 0.0), outputs * decode_s(cost, batch, context) / batch
    starts = range(0, prompt, step)
    sizes = [(min(step, prompt - start), start) for start in starts]
    fused = sum(mixed_s(cost, n, p, batch - 1, context) for n, p in sizes)
    alone = sum(mixed_s(cost, n, p) for n, p in sizes)
    left = outputs - len(sizes) * (batch - 1)
    if left > 0:
        fused += left * decode_s(cost, batch, context) / batch
    else:  # fewer decodes than places: some chunks travel alone
        riding = outputs / (len(sizes) * (batch - 1))
        fused = riding * fused + (1.0 - riding) * alone
    return *apart, fused, alone


def end_to_end_gain(
    machine: Machine, seq: int, batch: int, chunk: int, ratio: float, _: Inputs
) -> float:
    """Return throughput with piggybacked decodes over separate batches."""
    prefill, decode, fused, _alone = cycle(machine(), seq, batch, chunk, ratio)
    return (prefill + decode) / fused


def decode_gain(machine: Machine, seq: int, batch: int, chunk: int, _: Inputs) -> float:
    """Return a decode's time in its own batch over what it adds to a chunk's step."""
    cost = machine()
    ratio = chunk / (batch - 1)
    context = seq * ratio / (1.0 + ratio)
    step = chunk - (batch - 1)
    added = mixed_s(cost, step, context / 2, batch - 1, context) - mixed_s(cost, step, context / 2)
    return (decode_s(cost, batch, context) / batch) / (added / (batch - 1))


def orca_best_gain(_: Inputs) -> float:
    """Return the gain of one whole prompt with 17 decodes a step, sequences of 1,024, P:D 14."""
    cost, batch, seq, ratio = a6000(), 18, 1024, 14.0
    prefill, decode, _fused, _alone = cycle(cost, seq, batch, 256, ratio)
    prompt = round(seq * ratio / (1.0 + ratio))
    outputs = seq - prompt
    context = prompt + outputs / 2.0
    # One prompt's step carries batch − 1 decodes; the rest run alone.
    fused = mixed_s(cost, prompt, 0.0, batch - 1, context)
    fused += (outputs - (batch - 1)) * decode_s(cost, batch, context) / batch
    return (prefill + decode) / fused


def chunking_loss(chunk: int, _: Inputs) -> float:
    """Return a prompt of 1,024 tokens in chunks over the same prompt whole."""
    sizes = [(min(chunk, 1024 - start), start) for start in range(0, 1024, chunk)]
    return sum(mixed_s(a6000(), n, p) for n, p in sizes) / mixed_s(a6000(), 1024, 0.0)
