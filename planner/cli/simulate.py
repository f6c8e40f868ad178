"""`planner simulate`: replay a trace through one deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.values import FiniteRange, NamedPath

if TYPE_CHECKING:
    from planner.cli.replicas import Arrivals
    from planner.ingest.requests import Requests
    from planner.sim.setup import Ready
    from planner.solve.windows import Window
    from planner.spec.slo import Slo


@click.command(
    epilog="""\b
Example:
  planner simulate --trace traces/week42.parquet --gpu h100 --slo slo.yaml --replicas 7
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
    help="What sends requests to replicas; by default slo.yaml's.",
)
@click.option(
    "--cache-threshold",
    type=FiniteRange(0, 1),
    default=0.3,
    help="cache_aware: share of a prompt that must be cached to count. [default: 0.3]",
)
@click.option(
    "--balance-abs-threshold",
    type=FiniteRange(0),
    default=64,
    help="cache_aware: by load where it differs by more requests than this … [default: 64]",
)
@click.option(
    "--balance-rel-threshold",
    type=FiniteRange(1),
    default=1.5,
    help="… and by more than this factor. [default: 1.5]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 4294967295),
    help="Seed of routing and scaling; by default slo.yaml's.",
)
@click.option(
    "--load", type=FiniteRange(0, min_open=True), default=1.0, help="Multiple of the traffic."
)
@click.option(
    "--burstier",
    is_flag=True,
    help="Lay a scaled trace's copies closer: ten minutes apart instead of an hour, or together.",
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
    type=FiniteRange(0, min_open=True),
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
    type=FiniteRange(0, 1, min_open=True),
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
@click.option(
    "--policy",
    type=click.Choice(
        [
            "vllm_v1",
            "vllm_v0",
            "sglang",
            "orca",
            "sarathi",
            "sarathi_serve",
            "dynamic_splitfuse",
        ]
    ),
    help="Scheduler, instead of the engine's own.",
)
@click.option(
    "--scheduling-policy",
    type=click.Choice(["fcfs", "priority"]),
    help="vLLM's order of requests; priorities are the classes' in slo.yaml. [default: fcfs]",
)
@click.option(
    "--sessions",
    "follow_sessions",
    is_flag=True,
    help="A session's next request waits for the end of its last, plus the recorded think time.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    help="Closed loop: this many clients send the trace's requests one after the other.",
)
@click.option("--ideal", is_flag=True, help="The theory's roofline instead of measured kernels.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
@click.option(
    "--per-request",
    type=NamedPath(path_type=Path, dir_okay=False),
    help="Write every request's times to this Parquet file.",
)
def command(
    traces: tuple[str, ...],
    gpu: str,
    slo_file: Path,
    model: str | None,
    fmt: str | None,
    replicas: int,
    routing: str | None,
    seed: int | None,
    load: float,
    burstier: bool,
    reuse_prefixes: bool,
    policy: str | None,
    scheduling_policy: str | None,
    follow_sessions: bool,
    concurrency: int | None,
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
    sampled trace is scaled up to the whole service first, from copies displaced as `planner
    recommend` displaces them; growth and headroom are not added (--load 1.1 is a growth of 10 %),
    and every replica carries load: leave a plan's spares out. A closed loop of clients
    (--concurrency) ignores when requests came, and scales nothing.
    """
    import json

    from planner.cli.replicas import Arrivals, Fleet, kv_link, replayed
    from planner.cli.scaled import scaled
    from planner.ingest.load import load_trace
    from planner.output import check_file
    from planner.report.replay_screen import screen
    from planner.sim.record import to_dict, write_requests
    from planner.sim.routing import CacheAware
    from planner.spec.slo_file import load_slo

    if concurrency is not None and (follow_sessions or load != 1.0 or burstier):
        raise click.UsageError("--concurrency goes with none of --sessions, --load and --burstier")
    if per_request is not None:
        check_file(per_request, inputs=(*traces, slo_file))
    slo = load_slo(slo_file)
    rates = _shares(acceptance_rates)
    order = {"policy": policy, "scheduling_policy": scheduling_policy}
    setup = _ready(model or slo.model, gpu, slo, flags, ideal=ideal, rates=rates, order=order)
    fleet = Fleet(
        replicas=replicas,
        routing=routing or slo.routing,
        cache_aware=CacheAware(
            cache_threshold=cache_threshold,
            balance_abs_threshold=balance_abs_threshold,
            balance_rel_threshold=balance_rel_threshold,
        ),
        prefill_replicas=prefill_replicas,
        link=kv_link(setup, prefill_replicas, kv_link_bytes_per_s, layerwise=layerwise_transfer),
    )
    arrivals = Arrivals(sessions=follow_sessions, concurrency=concurrency)
    click.echo("… reading the trace", err=True)
    requests = load_trace(list(traces), fmt=fmt, classes=slo.classes).requests
    chosen = slo.seed if seed is None else seed
    windows: tuple[Window, ...] | None = None
    if concurrency is None:
        requests, windows = scaled(
            requests,
            setup,
            slo,
            replicas + prefill_replicas,
            load=load,
            seed=chosen,
            burstier=burstier,
            sessions=follow_sessions,
        )
    _note(requests, setup, arrivals)
    done, wall_s = replayed(
        requests, setup, slo, fleet, arrivals, windows, seed=chosen, reuse=reuse_prefixes
    )
    if per_request is not None:
        write_requests(requests, done, per_request)
    if as_json:
        from dataclasses import asdict

        record = {
            "deployment": asdict(setup.deployment),
            "scheduler": asdict(setup.settings),
            "arrivals": asdict(arrivals),
            **fleet.record(setup),
            **to_dict(done, wall_s),
        }
        click.echo(json.dumps(record, indent=2, sort_keys=True, allow_nan=False))
    else:
        lines = screen(
            requests,
            done,
            setup,
            wall_s,
            counts=fleet.counts(),
            notes=fleet.lines(setup, done),
            concurrency=concurrency,
        )
        click.echo("\n".join(lines))


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
    order: dict[str, str | None],
) -> Ready:
    from planner.sim.setup import deployment_of, ready, refuse_unstartable
    from planner.spec import catalog

    made, part = catalog.model(model), catalog.gpu(gpu)
    engine = catalog.engine(slo.engine, slo.engine_version)
    if flags["gpu_memory_utilization"] is None and slo.gpu_memory_utilization:
        flags["gpu_memory_utilization"] = slo.gpu_memory_utilization[0]
    chosen = deployment_of(made, part, engine, flags)
    refuse_unstartable(made, part, engine, chosen, order["policy"])
    usual = catalog.batch_default(engine, part).max_num_seqs
    if flags["max_num_seqs"] is None and chosen.max_num_seqs < usual:
        click.echo(
            f"… max_num_seqs {chosen.max_num_seqs} instead of {usual}: "
            "a step holds no more sequences than its budget has tokens",
            err=True,
        )
    return ready(made, part, engine, chosen, ideal=ideal, acceptance_rates=rates, **order)


def _note(requests: Requests, setup: Ready, arrivals: Arrivals) -> None:
    """Say on stderr what the trace holds and the replay does not use."""
    from planner.sim.blocks import has_ids

    cut = setup.deployment.enable_prefix_caching and not setup.settings.enable_prefix_caching
    if cut and has_ids(requests):
        click.echo(
            "… prefix cache off: it is replayed for vllm_v1, first come first served", err=True
        )
    if arrivals.sessions and not (requests.session_id >= 0).any():
        click.echo("warning: --sessions: the trace names no sessions", err=True)
