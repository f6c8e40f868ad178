"""Checks of a measured row against its own columns: what no model of them could follow.

Each returns its finding with a figure, or an empty string. None knows a row by name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from planner.calibrate.doubtful import may_speculate
from planner.calibrate.measured import STATISTICS, Row, number, text
from planner.calibrate.points import Point, point
from planner.calibrate.row_miss import Compared
from planner.calibrate.scoring import MEASURED
from planner.perf.formats import arithmetic
from planner.perf.memory import memory_budget
from planner.resources import data_dir
from planner.spec.calibration_file import load_calibration
from planner.units import GIB

LITTLE = (0.8, 1.1)  # of the stated clients: rows of one kind agree within 0.95 ± 0.06
ADMITTED = 0.9  # of the predicted running requests: below, the engine admitted fewer
STALL = 2.0  # mean over median TTFT: a few requests waited for something else
REQUESTS_PER_CLIENT = 4.0  # fewer: the run is mostly its start and its tail
LATENT_HEADS = (16, 64, 128)  # a rank, of the latent-attention tables; fewer are padded to 16


def speculation(case: Compared) -> str:
    """Say whether the row's dump mixes plain and multi-token-prediction runs."""
    if not may_speculate(case.row):
        return ""
    return "its dump mixes plain and multi-token-prediction runs under the same columns"


def does_not_fit(case: Compared) -> str:
    """Say whether weights of the stated format exceed the memory of the stated GPUs."""
    item = deployed(case.row)
    budget = memory_budget(item.model, item.gpu, item.engine, item.deployment)
    if budget.weights_bytes < budget.visible_bytes:
        return ""
    return (
        f"weights of {item.deployment.weight_dtype} take {budget.weights_bytes / GIB:.0f} GiB a "
        f"GPU, it has {budget.visible_bytes / GIB:.0f}"
    )


def unstated_lengths(case: Compared) -> str:
    """Say whether the source leaves open how long the prompts were."""
    return "" if text(case.row, "input_tokens") else "prompt length not stated"


def idle_ranks(case: Compared) -> str:
    """Find fewer clients than data-parallel ranks, which no mean over ranks describes."""
    clients, ranks = number(case.row, "concurrency"), number(case.row, "dp")
    if not (clients and ranks and clients < ranks):
        return ""
    return f"{clients:.0f} client on {ranks:.0f} data-parallel ranks"


def few_requests(case: Compared) -> str:
    """Find a run of so few requests a client that it is mostly its start and its tail."""
    clients, requests = number(case.row, "concurrency"), number(case.row, "n_requests")
    if not (clients and requests) or requests >= REQUESTS_PER_CLIENT * clients:
        return ""
    return f"{requests:.0f} requests for {clients:.0f} clients: start and tail, no steady state"


def stall(case: Compared) -> str:
    """Find a few requests that waited for something else, without which the row is met.

    Mean and median TTFT differ by the stall; clients that wait make no tokens.
    """
    mean, median = number(case.row, "ttft_mean_ms"), number(case.row, "ttft_median_ms")
    if not (mean and median and mean > STALL * median):
        return ""
    found = f"TTFT has mean {mean:.0f} and median {median:.0f} ms: some requests stalled"
    if case.target.metric == "TTFT":
        return found if case.agrees(median) else ""
    share = _stalled_share(case.row, mean - median)
    if case.target.metric != MEASURED or not share:
        return ""
    rate = case.measured / (1.0 - share)
    met = case.agrees(rate)
    return f"{found}, {100 * share:.0f} % of the run; {rate:.0f} tok/s without" if met else ""


def _stalled_share(row: Row, stalled_ms: float) -> float:
    requests, duration = number(row, "n_requests"), number(row, "duration_s")
    clients = number(row, "concurrency")
    if not (requests and duration and clients):
        return 0.0
    return min(0.95, requests * stalled_ms / 1e3 / (clients * duration))


def little(case: Compared) -> str:
    """Compare the clients that throughput and latencies imply with those stated (Little)."""
    rate, clients = number(case.row, "out_tok_s"), number(case.row, "concurrency")
    residence, output = _residence_s(case.row), number(case.row, "output_tokens")
    if not (rate and clients and residence and output):
        return ""
    implied = rate * residence / output
    if LITTLE[0] * clients <= implied <= LITTLE[1] * clients:
        return ""
    return f"throughput × latency imply {implied:.0f} clients, {clients:.0f} are stated"


def admission(case: Compared) -> str:
    """Compare how many clients ran at a time with what the memory account holds.

    Little: of c clients, c·(O − 1)·TPOT/(TTFT + (O − 1)·TPOT) are past their first token.
    """
    ttft, tpot = case.item.predicted.ttft_s, case.item.predicted.tpot_s
    clients, output = number(case.row, "concurrency"), number(case.row, "output_tokens")
    residence, waiting = _residence_s(case.row), first_ms(case.row, "ttft")
    if not (ttft and tpot and clients and output and residence and waiting):
        return ""
    running = clients * (1.0 - waiting / 1e3 / residence)
    ours = clients * (1.0 - ttft / (ttft + (output - 1.0) * tpot))
    if waiting / 1e3 < 0.15 * residence or ADMITTED * ours <= running <= ours / ADMITTED:
        return ""
    unstated = "" if text(case.row, "max_num_seqs") and text(case.row, "kv_dtype") else " unstated"
    return (
        f"by Little's law {running:.0f} of {clients:.0f} ran at a time, the memory account holds "
        f"{ours:.0f}: another{unstated} batch limit or KV format"
    )


def no_tables(case: Compared) -> str:
    """Say which operator that carries the row has no table on its GPU."""
    item = deployed(case.row)
    if not item.gpu.calibration:
        return f"no operator tables of {item.gpu.id}"
    dtype = arithmetic(item.gpu, item.deployment.weight_dtype).calibration
    if item.model.moe and not {dtype, f"{dtype}_block"} & _expert_formats(item.gpu.calibration):
        return f"no table of {dtype} experts on {item.gpu.id}"
    heads = item.model.num_attention_heads // item.deployment.tensor_parallel_size
    if item.model.mla and heads not in LATENT_HEADS and heads > min(LATENT_HEADS):
        return f"no table of latent attention with {heads} heads a rank (16, 64, 128 are)"
    return ""


@cache
def _expert_formats(calibration: str) -> frozenset[str]:
    path = Path(str(data_dir("calibration") / f"{calibration}.yaml"))
    return frozenset(load_calibration(path).moe)


def deployed(row: Row) -> Point:
    """Return the row's deployment; a prompt length that it does not state plays no part in it."""
    return point(row if text(row, "input_tokens") else {**row, "input_tokens": "1"})


def _residence_s(row: Row) -> float | None:
    ttft, tpot = first_ms(row, "ttft"), first_ms(row, "tpot")
    output = number(row, "output_tokens")
    if not (ttft and tpot and output):
        return None
    return (ttft + (output - 1.0) * tpot) / 1e3


def first_ms(row: Row, metric: str) -> float | None:
    """Return a row's latency in ms: its mean, else a statistic of unknown kind, else its median."""
    for statistic in STATISTICS:
        value = number(row, f"{metric}_{statistic}_ms")
        if value:
            return value
    return None
