"""What `planner simulate` prints about a replay."""

from __future__ import annotations

from collections.abc import Sequence

from planner.ingest.requests import Requests
from planner.report import format as fmt
from planner.sim.metrics import Distribution, TargetResult
from planner.sim.replay import ClassResult, Replay
from planner.sim.setup import Ready
from planner.text import counted


def screen(
    requests: Requests,
    done: Replay,
    setup: Ready,
    wall_s: float,
    *,
    counts: str,
    notes: Sequence[str],
    concurrency: int | None,
) -> list[str]:
    """Return the figures of a replay as lines of text.

    Parameters
    ----------
    requests
        The trace.
    done
        Its replay.
    setup
        The deployment.
    wall_s
        Seconds the replay took.
    counts
        How many replicas, of which kind.
    notes
        What more there is to say of them.
    concurrency
        Clients of a closed loop, if it was one.
    """
    totals, d = done.totals, setup.deployment
    fleet = f"{counts} × ({d.gpus} × {d.gpu}), {done.routing} routing"
    flags = f"max_num_batched_tokens {d.max_num_batched_tokens}, max_num_seqs {d.max_num_seqs}"
    preempted = counted(totals.preemptions, "preemption")
    use = f"{fmt.percent(totals.kv_use_mean)} on average, {fmt.percent(totals.kv_use_max)} at most"
    lines = [
        f"{counted(len(done), 'request')} through {fleet}",
        *_loop_line(requests, done, concurrency),
        f"{d.model}, {d.engine} {d.engine_version}, {flags}",
        *_scheduler_line(setup),
        f"KV cache of {fmt.tokens(setup.settings.kv_tokens)} held to {use}",
        f"{preempted}; replicas busy {fmt.percent(totals.busy)}",
        *(f"rejected {fmt.count(n)}: {why}" for why, n in done.rejection_counts().items()),
        *_reuse_line(done, setup),
        *notes,
        f"{fmt.count(totals.events)} events in {fmt.seconds(wall_s)}",
        "",
        f"{'class':<12}{'requests':>10}  {'':<6}{'mean':>10}{'p50':>10}{'p90':>10}{'p99':>10}",
    ]
    for each in done.classes():
        lines += _class_lines(each)
    return [*lines, "", *(_target_line(result) for result in done.targets)]


def _loop_line(requests: Requests, done: Replay, concurrency: int | None) -> list[str]:
    if concurrency is None or not done.totals.span_s:
        return []
    served = done.rejected == 0
    rate = fmt.requests_per_s(float(served.sum()) / done.totals.span_s)
    tokens = fmt.tokens_per_s(float(requests.output_tokens[served].sum()) / done.totals.span_s)
    return [f"closed loop of {counted(concurrency, 'client')}: {rate}, {tokens} of output"]


def _scheduler_line(setup: Ready) -> list[str]:
    settings = setup.settings
    if (settings.policy, settings.scheduling_policy) in (("vllm_v1", "fcfs"), ("sglang", "fcfs")):
        return []
    return [f"policy {settings.policy}, scheduling policy {settings.scheduling_policy}"]


def _reuse_line(done: Replay, setup: Ready) -> list[str]:
    if not done.totals.hit_tokens:
        return []
    block = fmt.tokens(setup.settings.block_size)
    return [f"prefix cache: {fmt.percent(done.hit_share)} of prompt tokens hit, blocks of {block}"]


def _class_lines(each: ClassResult) -> list[str]:
    def line(label: str, name: str, values: Distribution) -> str:
        cells = (values.mean, values.p50, values.p90, values.p99)
        return f"{label:<22}  {name:<6}" + "".join(f"{fmt.seconds(x):>10}" for x in cells)

    return [
        line(f"{each.name:<12}{fmt.count(each.requests):>10}", "TTFT", each.ttft_s),
        line("", "TPOT", each.tpot_s),
        line("", "ITL", each.itl_s),
        line("", "E2E", each.e2e_s),
        line("", "queue", each.queue_s),
    ]


def _target_line(result: TargetResult) -> str:
    target, worst = result.target, result.worst
    promise = (
        f"{result.class_name}: {fmt.metric(target.metric)} {fmt.percentile(target.percentile)}"
        f" ≤ {fmt.seconds(target.limit_s)}"
    )
    if worst is None:
        return f"{promise}: nothing to measure"
    verdict = "holds" if result.holds else "VIOLATED"
    found = f"{fmt.seconds(worst.value_s)} ({fmt.percent(worst.attainment, 4)} attained)"
    if len(result.windows) > 1:
        found += f" in the worst of {len(result.windows)} windows"
        found += f", {fmt.seconds(result.whole_s)} over the whole trace"
    return f"{promise}: {verdict}, {found}"
