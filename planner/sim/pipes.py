"""Arrays of the stepped kernel: pipelines and speculation, from settings and physics."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.perf.step_cost import StepCost
from planner.sim.kernel import pipeline
from planner.sim.kernel.pipeline import Pipe
from planner.sim.kernel.world import records
from planner.sim.routing import DRAW, uniforms
from planner.sim.settings import SchedulerSettings

DRAWS = 1 << 20  # places of the table of draws
DRAW_STRIDE = 648_057  # odd, DRAWS/φ: requests that follow each other start far apart


def is_stepped(cost: StepCost, settings: SchedulerSettings) -> bool:
    """Return whether a replay needs the stepped kernel.

    Raises
    ------
    ValueError
        `cost` and `settings` disagree on the drafts of a decode.
    """
    if cost.tokens_per_decode != 1 + settings.num_speculative_tokens:
        raise ValueError(
            f"the StepCost has {cost.tokens_per_decode} tokens a decode, the settings"
            f" {settings.num_speculative_tokens} drafts"
        )
    return cost.stages > 1 or settings.num_speculative_tokens > 0


@lru_cache(maxsize=4)
def acceptance_draws(acceptance_rates: tuple[float, ...], seed: int) -> NDArray[np.int8]:
    """Return accepted drafts of verify passes in random order, with exactly the given shares.

    Draw j of position i is accepted in `acceptance_rates[i]` of all passes. The table is a shuffle
    of evenly spread quantiles, so its mean is the expectation to within one part in `DRAWS`.

    >>> float(np.round(acceptance_draws((0.8, 0.5), 42).mean(), 5))
    1.3
    """
    order = np.argsort(uniforms(np.arange(DRAWS), seed, DRAW), kind="stable")
    quantiles = (order + 0.5) / DRAWS
    accepted = np.zeros(DRAWS, np.int8)
    for rate in acceptance_rates:
        accepted += quantiles < rate
    return accepted


def new_pipes(
    served: NDArray[np.int64],
    settings: SchedulerSettings,
    cost: StepCost,
    *,
    replicas: int,
    seed: int,
    remote: bool = False,
) -> Pipe:
    """Return replicas with nothing in flight, over the `served` requests (places in the trace).

    What a request draws hangs on its place in the trace, the tokens it has and the seed alone: not
    on load, routing or preemption. `remote` requests come with the KV of their prompts.
    """
    n, stages, drafts = settings.max_num_seqs, cost.stages, settings.num_speculative_tokens
    st = records(replicas, pipeline.PIPE)
    st.stages = stages
    st.overlapped = cost.async_scheduling
    st.first_share = cost.slowest_stage_share if stages > 1 else 1.0
    st.rest_share = (1.0 - cost.slowest_stage_share) / (stages - 1) if stages > 1 else 0.0
    st.send_fixed_s, st.send_token_s = cost.send_fixed_s, cost.send_s_per_token
    st.per_decode = 1 + drafts
    st.lookahead = drafts
    st.max_model_len = settings.max_model_len
    st.micro_batch = settings.pp_max_micro_batch_size or n
    st.draw_mask = DRAWS - 1
    st.remote = remote
    return Pipe(
        st=st,
        lanes=records((replicas, n), pipeline.LANE),
        flights=records((replicas, stages), pipeline.FLIGHT),
        members=records((replicas, stages, n), pipeline.MEMBER),
        ready_s=np.full((replicas, stages), -np.inf),
        padding=np.asarray(cost.decode_padding, np.int64),
        draws=acceptance_draws(settings.acceptance_rates, seed) if drafts else np.zeros(0, np.int8),
        first_draw=served * DRAW_STRIDE % DRAWS if drafts else np.zeros(0, np.int64),
        bubble_s=np.zeros(len(served) if stages > 1 else 0),
    )
