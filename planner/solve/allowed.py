"""Which settings of a deployment slo.yaml leaves out."""

from __future__ import annotations

from planner.solve.case import Decision
from planner.spec.deployment import Deployment


def not_listed(decision: Decision, deployment: Deployment) -> list[str]:
    """Return the settings of a deployment that slo.yaml does not list where it lists any.

    Without a list of its own the weights' dtype must be the plan's: that is what is published.
    """
    slo = decision.case.slo
    values = (
        (
            deployment.weight_dtype,
            deployment.weight_dtype,
            slo.weight_dtypes or (decision.deployment.weight_dtype,),
        ),
        (
            f"TP{deployment.tensor_parallel_size}",
            deployment.tensor_parallel_size,
            slo.tensor_parallel_sizes,
        ),
        (
            "expert_parallel" if deployment.expert_parallel else "experts cut over the GPUs",
            deployment.expert_parallel,
            () if slo.expert_parallel is None else (slo.expert_parallel,),
        ),
        (
            f"max_num_batched_tokens {deployment.max_num_batched_tokens:,}",
            deployment.max_num_batched_tokens,
            slo.max_num_batched_tokens,
        ),
        (f"max_num_seqs {deployment.max_num_seqs:,}", deployment.max_num_seqs, slo.max_num_seqs),
    )
    return [name for name, value, listed in values if listed and value not in listed]
