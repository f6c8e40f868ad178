"""`planner simulate`: replay a trace through one deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from planner.cli.replicas import Fleet
    from planner.sim.metrics import Distribution, TargetResult
    from planner.sim.replay import ClassResult, Replay
    from planner.sim.setup import Ready
    from planner.spec.slo import Slo


@click.command(
    epilog="""\b
Example:
  planner simulate --trace traces/week42.parquet --gpu h100 --slo slo.yaml --replicas 4
  planner simulate --trace day.parquet --gpu h200 --slo slo.yaml --replicas 12 \\
      --max-num-batched-tokens 2048 --json
""",
)
@click.option(
    "--trace",
    "traces",
    multiple=True,
    required=True,
    metavar="TRACE",
    help="Request log: a file, a directory or a glob. Repeat it for several.",
)
@click.option("--gpu", required=True, metavar="GPU", help="GPU type.")
@click.option(
    "--slo",
    "slo_file",
    required=True,
    type=click.Path(path_type=Path),
    help="Model, classes and targets.",
)
@click.option("--model", metavar="MODEL", help="Model, instead of the one that slo.yaml names.")
@click.option("--format", "fmt", metavar="NAME", help="Log format, instead of detecting it.")
@click.option("--replicas", type=click.IntRange(1), default=1, help="Replicas. [default: 1]")
@click.option(
    "--routing",
    type=click.Choice(["random", "round_robin", "least_loaded", "cache_aware"]),
    default="random",
    help="What sends requests to replicas. [default: random]",
)
@click.option(
    "--cache-threshold",
    type=click.FloatRange(0, 1),
    default=0.3,
    help="cache_aware: share of a prompt that must be cached to count. [default: 0.3]",
)
@click.option(
    "--balance-abs-threshold",
    type=click.FloatRange(0),
    default=64,
    help="cache_aware: by load where it differs by more requests than this … [default: 64]",
)
@click.option(
    "--balance-rel-threshold",
    type=click.FloatRange(1),
    default=1.5,
    help="… and by more than this factor. [default: 1.5]",
)
@click.option("--seed", type=int, help="Seed of routing and scaling; by default slo.yaml's.")
@click.option(
    "--load", type=click.FloatRange(0, min_open=True), default=1.0, help="Multiple of the traffic."
)
@click.option(
    "--tensor-parallel-size", "--tp", type=click.IntRange(1), default=1, help="GPUs of a replica."
)
@click.option(
    "--pipeline-parallel-size",
    "--pp",
    type=click.IntRange(1),
    default=1,
    help="Pipeline stages of a replica.",
)
@click.option(
    "--num-speculative-tokens", type=click.IntRange(0), default=0, help="Drafts beside each decode."
)
@click.option(
    "--acceptance-rates",
    metavar="SHARES",
    default="",
    help="Share of drafts accepted at each position, as vLLM logs it: 0.8,0.6,0.5.",
)
@click.option(
    "--prefill-replicas",
    type=click.IntRange(0),
    default=0,
    help="Replicas that prefill only; those of --replicas then decode only. [default: 0]",
)
@click.option(
    "--kv-link-bytes-per-s",
    type=click.FloatRange(0, min_open=True),
    help="With --prefill-replicas: what the KV crosses, one direction a GPU (400 Gbit/s: 50e9).",
)
@click.option(
    "--layerwise-transfer",
    is_flag=True,
    help="With --prefill-replicas: send each layer's KV while the next is computed.",
)
@click.option("--max-num-batched-tokens", type=click.IntRange(1), help="Token budget of a step.")
@click.option("--max-num-seqs", type=click.IntRange(1), help="Most sequences in a step.")
@click.option("--max-model-len", type=click.IntRange(1), help="Longest request, prompt and output.")
@click.option(
    "--gpu-memory-utilization",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of GPU memory the engine may use.",
)
@click.option("--weight-dtype", metavar="DTYPE", help="Dtype of the weights.")
@click.option("--kv-cache-dtype", metavar="DTYPE", help="Dtype of the KV cache.")
@click.option(
    "--enable-prefix-caching/--no-enable-prefix-caching",
    default=None,
    help="Whether replicas cache prefixes, for traces with block ids.",
)
@click.option(
    "--reuse-prefixes",
    is_flag=True,
    help="Count the trace's repeated prefixes as cached, nothing ever being evicted.",
)
@click.option("--ideal", is_flag=True, help="The theory's roofline instead of measured kernels.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option(
    "--per-request",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write every request's times to this Parquet file.",
)
def command(
    traces: tuple[str, ...],
    gpu: str,
    slo_file: Path,
    model: str | None,
    fmt: str | None,
    replicas: int,
    routing: str,
    seed: int | None,
    load: float,
    reuse_prefixes: bool,
    ideal: bool,
    as_json: bool,
    per_request: Path | None,
    acceptance_rates: str,
    cache_threshold: float,
    balance_abs_threshold: float,
    balance_rel_threshold: float,
    prefill_replicas: int,
    kv_link_bytes_per_s: float | None,
    layerwise_transfer: bool,
    **flags: object,
) -> None:
    """Replay a trace through one deployment, request by request.

    Simulates the engine's scheduler with every request of the trace: queueing, chunked prefill,
    KV blocks, preemption. Flags that are not given take the engine's defaults on that GPU. A
    sampled trace is scaled up to the whole service first; growth and headroom are not added.
    """
    import json

    from planner.cli.replicas import Fleet, kv_link, replayed
    from planner.ingest.load import load_trace
    from planner.sim.load import scale
    from planner.sim.record import to_dict, write_requests
    from planner.sim.routing import CacheAware
    from planner.spec.slo_file import load_slo

    slo = load_slo(slo_file)
    rates = _shares(acceptance_rates)
    setup = _ready(model or slo.model, gpu, slo, flags, ideal=ideal, rates=rates)
    fleet = Fleet(
        replicas=replicas,
        routing=routing,
        cache_aware=CacheAware(
            cache_threshold=cache_threshold,
            balance_abs_threshold=balance_abs_threshold,
            balance_rel_threshold=balance_rel_threshold,
        ),
        prefill_replicas=prefill_replicas,
        link=kv_link(setup, prefill_replicas, kv_link_bytes_per_s, layerwise=layerwise_transfer),
    )
    click.echo("… reading the trace", err=True)
    requests = load_trace(list(traces), fmt=fmt, classes=slo.classes).requests
    chosen = slo.seed if seed is None else seed
    factor = load / slo.sample_rate
    if factor != 1.0:
        click.echo(f"… scaling the traffic by {factor:g}", err=True)
        requests = scale(requests, factor, seed=chosen)
    done, wall_s = replayed(requests, setup, slo, fleet, seed=chosen, reuse=reuse_prefixes)
    if per_request is not None:
        write_requests(requests, done, per_request)
    if as_json:
        from dataclasses import asdict

        record = {
            "deployment": asdict(setup.deployment),
            **fleet.record(setup),
            **to_dict(done, wall_s),
        }
        click.echo(json.dumps(record, indent=2, sort_keys=True, allow_nan=False))
    else:
        click.echo("\n".join(_screen(done, setup, fleet, wall_s)))


def _shares(text: str) -> tuple[float, ...]:
    """Return the numbers of a list like 0.8,0.6."""
    try:
        return tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no list of shares like 0.8,0.6", param_hint="--acceptance-rates"
        ) from error


def _ready(
    model: str,
    gpu: str,
    slo: Slo,
    flags: dict[str, object],
    *,
    ideal: bool,
    rates: tuple[float, ...],
) -> Ready:
    from planner.sim.setup import deployment_of, ready
    from planner.spec import catalog

    made, part = catalog.model(model), catalog.gpu(gpu)
    engine = catalog.engine(slo.engine, slo.engine_version)
    if flags["gpu_memory_utilization"] is None:
        flags["gpu_memory_utilization"] = slo.gpu_memory_utilization
    deployment = deployment_of(made, part, engine, flags)
    return ready(made, part, engine, deployment, ideal=ideal, acceptance_rates=rates)


def _screen(done: Replay, setup: Ready, fleet: Fleet, wall_s: float) -> list[str]:
    """Return the figures as lines of text."""
    from planner.report import format as fmt

    totals, d = done.totals, setup.deployment
    layout = f"{fleet.counts()} × ({d.gpus} × {d.gpu}), {done.routing} routing"
    flags = f"max_num_batched_tokens {d.max_num_batched_tokens}, max_num_seqs {d.max_num_seqs}"
    use = f"{fmt.percent(totals.kv_use_mean)} on average, {fmt.percent(totals.kv_use_max)} at most"
    lines = [
        f"{fmt.count(len(done))} requests through {layout}",
        f"{d.model}, {d.engine} {d.engine_version}, {flags}",
        f"KV cache of {fmt.tokens(setup.settings.kv_tokens)} held to {use}",
        f"{fmt.count(totals.preemptions)} preemptions; replicas busy {fmt.percent(totals.busy)}",
        *(f"rejected {fmt.count(n)}: {why}" for why, n in done.rejection_counts().items()),
        *_reuse_line(done, setup),
        *fleet.lines(setup, done),
        f"{fmt.count(totals.events)} events in {fmt.seconds(wall_s)}",
        "",
        f"{'class':<12}{'requests':>10}  {'':<6}{'mean':>10}{'p50':>10}{'p90':>10}{'p99':>10}",
    ]
    for each in done.classes():
        lines += _class_lines(each)
    return [*lines, "", *(_target_line(result) for result in done.targets)]


def _reuse_line(done: Replay, setup: Ready) -> list[str]:
    from planner.report import format as fmt

    if not done.totals.hit_tokens:
        return []
    block = fmt.tokens(setup.settings.block_size)
    return [f"prefix cache: {fmt.percent(done.hit_share)} of prompt tokens hit, blocks of {block}"]


def _class_lines(each: ClassResult) -> list[str]:
    from planner.report import format as fmt

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
    from planner.report import format as fmt

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
