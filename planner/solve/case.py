"""What the parts of a plan are computed from: the inputs, and the decision once it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.ingest.requests import Requests
from planner.perf.compile import compile_step_cost
from planner.perf.step_cost import StepCost
from planner.profile.types import TraceProfile
from planner.solve.candidates import Candidate
from planner.solve.capacity import Configs, Judged
from planner.solve.demand import Demand, demand_of
from planner.solve.fleet import Needs, replica_factor
from planner.solve.prefix import cached_share
from planner.solve.search import configs_of
from planner.solve.steady import Lanes, lanes
from planner.solve.traffic import Traffic, traffic_of
from planner.solve.windows import Window, class_windows
from planner.spec.calibration import Calibration
from planner.spec.deployment import Deployment
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model
from planner.spec.slo import Slo

if TYPE_CHECKING:
    from planner.solve.confirm import Confirmed


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything a recommendation depends on. `gpus` in the order they were asked for.

    `correction` is what replay found over what the equations said (`Needs.correction`).
    """

    model: Model
    engine: Engine
    gpus: tuple[Gpu, ...]
    calibrations: Mapping[str, Calibration]
    slo: Slo
    requests: Requests
    profile: TraceProfile
    correction: float = 1.0

    @property
    def needs(self) -> Needs:
        """What the fleet must carry."""
        return Needs(
            sample_rate=self.slo.sample_rate,
            growth=self.slo.growth,
            headroom=self.slo.headroom,
            spare_replicas=self.slo.spare_replicas,
        )

    @property
    def screen_needs(self) -> Needs:
        """What equations must carry to agree with the replay of the plan."""
        return replace(self.needs, correction=self.correction)

    @property
    def mixes(self) -> bool:
        """Whether the engine mixes prefill and decodes in a step."""
        return self.engine.mixes_prefill_and_decode

    @property
    def longest_tokens(self) -> int:
        """Input and output of the longest request."""
        return int((self.requests.input_tokens + self.requests.output_tokens).max(initial=1))

    @property
    def by_price(self) -> bool:
        """Whether every GPU has a price, so that plans are compared in $/h."""
        return all(self.price(gpu)[0] is not None for gpu in self.gpus)

    def gpu(self, gpu_id: str) -> Gpu:
        """Return one of the GPUs by its catalogue id."""
        return next(gpu for gpu in self.gpus if gpu.id == gpu_id)

    def price(self, gpu: Gpu) -> tuple[float | None, str]:
        """Return $/h of one GPU and where that is from: slo.yaml first, then the catalogue."""
        for name in (gpu.id, *gpu.aliases):
            if name in self.slo.prices_usd_per_hour:
                return self.slo.prices_usd_per_hour[name], "slo.yaml"
        for price in gpu.prices:
            if price.kind == "typical":
                return price.usd_per_hour, f"{price.source} {price.date}".strip()
        return None, "no price known"

    def cost(self, deployment: Deployment, *, calibration: Calibration | None = None) -> StepCost:
        """Return the physics of a deployment."""
        chosen = calibration or self.calibrations[deployment.gpu]
        return compile_step_cost(
            self.model, self.gpu(deployment.gpu), self.engine, chosen, deployment
        )

    def traffic(
        self,
        max_model_len: int,
        cached: float,
        *,
        input_scale: float = 1.0,
        output_scale: float = 1.0,
    ) -> Traffic:
        """Return the trace's requests as a configuration sees them."""
        return traffic_of(
            self.requests,
            max_model_len=max_model_len,
            cached_share=cached,
            time_quantum_s=self.profile.total.arrivals.time_quantum_s,
            sample_rate=self.slo.sample_rate,
            input_scale=input_scale,
            output_scale=output_scale,
        )

    def demand(self, max_model_len: int, cached: float) -> Demand:
        """Return the demand with the stretches that the search starts from."""
        traffic = self.traffic(max_model_len, cached)
        return demand_of(traffic, self.windows(traffic), self.slo)

    def windows(self, traffic: Traffic) -> tuple[Window, ...]:
        """Return every class's evaluation windows: the trace's, however it is scaled."""
        return class_windows(
            traffic.arrival_s,
            traffic.class_id,
            len(traffic.class_names),
            span_s=traffic.span_s,
            window_s=self.slo.evaluation_window_s,
            min_requests=self.slo.min_requests_per_window,
        )

    def cached(self, kv_tokens: float, factor: float) -> float:
        """Return the share of reusable prefix that a replica's cache serves."""
        if not (self.slo.prefix_caching and self.engine.prefix_caching_default):
            return 0.0
        return cached_share(self.requests, self.profile.total.reuse, kv_tokens, factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The chosen configuration with all it was judged on.

    `factor` is the capacity of one replica, `replicas` the number that carries the load, spares
    not counted. `judged` are the binding stretches with the larger sample, `whole` the whole trace.
    `confirmed` is the replay's verdict; None where only the equations have spoken.
    """

    case: Case
    candidate: Candidate
    cost: StepCost
    demand: Demand
    judged: tuple[Judged, ...]
    whole: Judged
    cached: float
    factor: float
    replicas: int
    confirmed: Confirmed | None = None

    @property
    def deployment(self) -> Deployment:
        """The chosen configuration."""
        return self.candidate.deployment

    @property
    def load(self) -> float:
        """Load factor of each replica when the replicas for load share the grown demand."""
        return replica_factor(self.case.needs, self.replicas)

    @property
    def configs(self) -> Configs:
        """The chosen configuration as arrays of length one."""
        return configs_of([self.candidate])

    def at(self, factor: float | None = None) -> Lanes:
        """Return the chosen configuration at a load factor, by default the plan's own."""
        deployment = self.deployment
        return lanes(
            np.float64(self.load if factor is None else factor),
            np.float64(deployment.max_num_batched_tokens),
            np.float64(deployment.max_num_seqs),
            np.float64(self.candidate.memory.kv_tokens),
        )

    def with_budget(self, budget: int) -> Deployment:
        """Return the chosen deployment with another budget, slots cut where the engine must."""
        seqs = min(self.deployment.max_num_seqs, budget)
        return replace(self.deployment, max_num_batched_tokens=budget, max_num_seqs=seqs)
