"""The scheduler settings that a replay obeys, under the engine's own names."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError, Problem
from planner.perf.kv_layout import KvLayout
from planner.perf.memory_types import MemoryBudget
from planner.sim.problems import POLICIES, rate_problems, size_problems, unknown
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine

SCHEDULING_POLICIES = ("fcfs", "priority")
ADMISSIONS = ("chunk", "full_sequence", "reserved_output")
NULL_BLOCKS = 1  # vLLM keeps block 0 for padding


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Settings of one replica's scheduler.

    `num_blocks` are the blocks requests can use, the engine's null block excluded. `admission`
    says what must be free before a waiting request starts: the blocks of its first chunk
    ("chunk", vLLM 0.11) or of its whole current sequence ("full_sequence", since 0.19).
    `watermark_blocks` stay free when a request is admitted. Whether stepping is asynchronous is the
    StepCost's to say.

    `enable_prefix_caching` reuses the blocks that the trace names, if it names any.

    The policy "sglang" admits by "reserved_output"; `max_num_batched_tokens` is then its
    chunked_prefill_size, and `max_prefill_tokens` limits a prefill batch beside it, and
    `schedule_conservativeness` scales what admission reserves for the output of the running.

    Other policies: "vllm_v0" runs whole prompts in steps of their own, before any decode;
    "orca" mixes whole prompts with decodes; "sarathi" adds one chunk to all decodes; both reserve
    one block of max_model_len for a request. "sarathi_serve" takes decodes, then chunks, with the
    whole prompt's blocks from the start. "dynamic_splitfuse" (DeepSpeed-FastGen) takes decodes,
    then cuts and joins prompts to fill max_num_batched_tokens exactly, which is vllm_v1's step; a
    prompt starts when all of it fits. Where decodes find no block its engine stalls and may start
    over; here the last admitted is recomputed.

    `scheduling_policy` "priority" is vLLM's: the waiting are admitted by (priority, arrival), and
    of the running the last in that order is preempted. Lower priorities are more urgent.

    `num_speculative_tokens` drafts are verified with each decode; `acceptance_rates` is the share
    of verify passes that accept each of them, as vLLM logs it ("Per-position acceptance rate").
    `pp_max_micro_batch_size` limits the requests of one batch in a pipeline (SGLang's flag; 0: no
    limit, as in vLLM). How many stages there are is the StepCost's to say.

    `kv_layout` is how layers with windows share the pool, None where every layer keeps everything.
    `num_blocks` then are what the same memory would be worth in requests of max_model_len; they
    count where replay does not follow the layout (see `counted_in`).
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    num_blocks: int
    block_size: int = 16
    admission: str = "full_sequence"
    long_prefill_token_threshold: int = 0
    policy: str = "vllm_v1"
    watermark_blocks: int = 0
    enable_prefix_caching: bool = False
    max_prefill_tokens: int = 16_384
    schedule_conservativeness: float = 1.0
    scheduling_policy: str = "fcfs"
    num_speculative_tokens: int = 0
    acceptance_rates: tuple[float, ...] = ()
    pp_max_micro_batch_size: int = 0
    kv_layout: KvLayout | None = None

    def __post_init__(self) -> None:
        """Refuse settings with which the engine would not start."""
        if self.policy not in POLICIES:
            raise ValueError(f"policy {self.policy!r} is not one of {POLICIES}")
        if self.admission not in ADMISSIONS:
            raise ValueError(f"admission {self.admission!r} is not one of {ADMISSIONS}")
        if self.scheduling_policy not in SCHEDULING_POLICIES:
            raise ValueError(
                f"scheduling_policy {self.scheduling_policy!r} is not one of {SCHEDULING_POLICIES}"
            )
        self._refuse_sizes()
        self._refuse_combinations()
        self._refuse_orders()
        self._refuse_speculation()

    def _refuse_speculation(self) -> None:
        for problem in rate_problems(self.num_speculative_tokens, self.acceptance_rates):
            raise ValueError(problem.message)
        if self.policy == "sglang" and self.num_speculative_tokens:
            raise ValueError("speculation is replayed for vllm")
        if self.policy == "vllm_v0" and self.num_speculative_tokens:
            raise ValueError("speculation is replayed for policies that mix prefill and decode")

    def _refuse_sizes(self) -> None:
        for problem in size_problems(self.max_num_batched_tokens, self.max_num_seqs):
            raise ValueError(problem.message)
        if self.block_size < 1 or self.num_blocks < 1 or self.long_prefill_token_threshold < 0:
            raise ValueError(
                "block_size and num_blocks must be positive, the threshold not negative"
            )

    def _refuse_combinations(self) -> None:
        whole = self.policy in ("vllm_v0", "orca")
        if whole and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError("without chunking max_num_batched_tokens must reach max_model_len")
        if self.policy in ("orca", "sarathi") and self.block_size < self.max_model_len:
            raise ValueError("orca and sarathi reserve max_model_len: give blocks of that size")
        if (self.policy == "sglang") != (self.admission == "reserved_output"):
            raise ValueError("admission reserved_output and the policy sglang go together")
        if self.policy == "sglang" and self.block_size != 1:
            raise ValueError("sglang is replayed with pages of one token")
        if self.policy != "vllm_v1" and self.enable_prefix_caching:
            raise ValueError("the prefix cache is replayed for vllm_v1")
        if self.policy != "vllm_v1" and self.long_prefill_token_threshold:
            raise ValueError("long_prefill_token_threshold is vllm_v1's")

    def _refuse_orders(self) -> None:
        if self.policy == "dynamic_splitfuse" and self.admission != "full_sequence":
            raise ValueError("dynamic_splitfuse admits by full_sequence")
        if self.scheduling_policy == "priority" and self.policy != "vllm_v1":
            raise ValueError("scheduling_policy priority is vllm_v1's")

    @classmethod
    def of(
        cls,
        deployment: Deployment,
        engine: Engine,
        memory: MemoryBudget,
        acceptance_rates: tuple[float, ...] = (),
    ) -> SchedulerSettings:
        """Return the settings of a deployment with the KV cache that `memory` leaves it.

        Parameters
        ----------
        deployment, engine, memory
            What is launched, by what, and what memory that leaves.
        acceptance_rates
            For each of the deployment's drafts, the share of verify passes that accept it.

        Raises
        ------
        InputError
            Replay does not know the engine's policy, or cannot follow what the deployment asks for.
        """
        problems = unknown(deployment, engine, acceptance_rates)
        if problems:
            raise InputError(problems)
        # SGLang's pool is counted in tokens, the last of a sequence's pages being part full.
        unit = memory.block_tokens if engine.policy == "sglang" else 1
        return cls(
            max_num_batched_tokens=deployment.max_num_batched_tokens,
            max_num_seqs=deployment.max_num_seqs,
            max_model_len=deployment.max_model_len,
            num_blocks=memory.num_blocks * unit - NULL_BLOCKS,
            block_size=memory.block_tokens // unit,
            admission=engine.admission,
            policy=engine.policy,
            enable_prefix_caching=deployment.enable_prefix_caching and engine.policy == "vllm_v1",
            num_speculative_tokens=deployment.num_speculative_tokens,
            acceptance_rates=acceptance_rates,
            kv_layout=memory.layout
            and replace(memory.layout, num_blocks=memory.layout.num_blocks - NULL_BLOCKS),
        )

    def under(self, policy: str | None, scheduling_policy: str | None) -> SchedulerSettings:
        """Return the settings under another policy, with the same KV cache; None keeps one.

        Orca and SARATHI reserve max_model_len for every request. vLLM V0 and Sarathi-Serve, which
        is built on it, leave 1 % of the blocks free when they admit.

        Raises
        ------
        InputError
            The policy cannot run with these settings.
        """
        chosen = policy or self.policy
        if policy is None or policy == self.policy:
            changes: dict[str, object] = {}
        else:
            changes = _memory_rules(chosen, self)
        order = scheduling_policy or self.scheduling_policy
        caches = self.enable_prefix_caching and chosen == "vllm_v1"
        changes |= {"scheduling_policy": order, "enable_prefix_caching": caches}
        try:
            return replace(self, **changes)  # type: ignore[arg-type]
        except ValueError as error:
            hint = "take other --max-num-batched-tokens, --max-model-len or another --policy"
            if order != "fcfs":
                hint = "leave --scheduling-policy out, or take another --policy"
            raise InputError(Problem(message=f"--policy {chosen}: {error}", hint=hint)) from error

    @property
    def usable_tokens(self) -> int:
        """Tokens one request can hold and still be admitted again after a preemption."""
        if self.policy == "sglang":  # a request and its whole output must leave a token free
            return self.num_blocks - 2
        return (self.num_blocks - self.watermark_blocks) * self.block_size

    def with_kv_cache(self, factor: float) -> SchedulerSettings:
        """Return the settings with `factor` times the KV cache."""
        layout = self.kv_layout
        return replace(
            self,
            num_blocks=max(1, int(self.num_blocks * factor)),
            kv_layout=layout
            and replace(layout, num_blocks=max(1, int(layout.num_blocks * factor))),
        )

    def fits_alone(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether a request that is to hold so many tokens can run by itself."""
        if self.kv_layout is None:
            return tokens <= self.usable_tokens
        peak = self.kv_layout.peak_blocks(tokens)
        return peak <= self.num_blocks - self.watermark_blocks

    def counted_in(self, *, tables: bool) -> SchedulerSettings:
        """Return the settings with the blocks that a replay counts.

        Parameters
        ----------
        tables
            Whether it follows every block table of the layout; else a block is one of a request of
            max_model_len, as if all layers kept everything.
        """
        layout = self.kv_layout
        if layout is None:
            return self
        if tables and self.policy == "vllm_v1":
            return replace(self, num_blocks=layout.num_blocks, block_size=layout.block_tokens)
        return replace(self, kv_layout=None)

    @property
    def draft_slots(self) -> int:
        """KV slots a decode may take beyond its last token: drafts, look-ahead, and rejects.

        Drafts of the last step that an asynchronous scheduler does not know to be rejected count.
        """
        return 3 * self.num_speculative_tokens

    @property
    def kv_tokens(self) -> int:
        """Tokens the KV cache holds."""
        return self.num_blocks * self.block_size


def _memory_rules(policy: str, mine: SchedulerSettings) -> dict[str, object]:
    """Return how a policy divides the KV cache and admits to it."""
    block = {"orca": mine.max_model_len, "sarathi": mine.max_model_len, "sglang": 1}.get(
        policy, mine.block_size
    )
    blocks = mine.kv_tokens // block
    keeps_free = policy in ("vllm_v0", "sarathi_serve")
    return {
        "policy": policy,
        "admission": "reserved_output" if policy == "sglang" else "full_sequence",
        "block_size": block,
        "num_blocks": blocks,
        "watermark_blocks": blocks // 100 if keeps_free else 0,
    }
