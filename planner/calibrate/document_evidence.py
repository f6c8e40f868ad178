"""The part of docs/accuracy.md on operators, bands, memory and runs request by request."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from planner.calibrate import kv_cases, open_loop
from planner.calibrate.markdown import markdown_table
from planner.calibrate.points import read_points
from planner.resources import data_dir
from planner.spec.calibration_file import load_calibration


def operators() -> str:
    """Return fit errors of the operator tables, pooled over GPUs as the median over their rows."""
    pooled: dict[str, list[tuple[float, float, int]]] = {}
    per_gpu = []
    for path in sorted(data_dir("calibration").iterdir()):
        fit = load_calibration(Path(str(path)))
        if fit.evidence != "measured_operators":
            continue
        cells = [fit.id]
        for name, entries in (
            ("dense GEMM", fit.gemm),
            ("MoE", fit.moe),
            ("decode attention", fit.attention),
            ("all-reduce", fit.all_reduce),
        ):
            errors = [e.median_error for e in entries.values() if e.median_error > 0]
            pooled.setdefault(name, []).extend((e, 0.0, 1) for e in errors)
            cells.append(f"{100 * float(np.median(errors)):.1f}" if errors else "—")
        prefill = [e.prefill_median_error for e in fit.attention.values()]
        pooled.setdefault("prefill attention", []).extend((e, 0.0, 1) for e in prefill)
        cells.append(f"{100 * float(np.median(prefill)):.1f}" if prefill else "—")
        per_gpu.append(cells)
    names = ["dense GEMM", "MoE", "decode attention", "all-reduce", "prefill attention"]
    total = [
        "median of all",
        *(f"{100 * np.median([e for e, _, _ in pooled[n]]):.1f}" for n in names),
    ]
    return (
        "\n## Operator tables: median errors of the fits, %\n\n"
        "Medians over formats and world sizes; "
        "the calibration files have each with its P90 and rows.\n\n"
        + markdown_table(["GPU", *names], [*per_gpu, total])
    )


def bands() -> str:
    """Return the bands of every calibration."""
    body = []
    for path in sorted(data_dir("calibration").iterdir()):
        fit = load_calibration(Path(str(path)))
        if fit.evidence == "ideal":
            continue
        families = ", ".join(f"{k} ±{100 * v:.0f}" for k, v in sorted(fit.bands.items()))
        body.append([fit.id, f"±{100 * fit.band:.0f}", families or "—"])
    return (
        "\n## Bands of a plan, %\n\n"
        "Four in five measured TPOTs of a family (GPU, engine, dense or MoE) lie within "
        "its band: the 80th percentile of the absolute errors of the family on this "
        "GPU or on all measured GPUs, the larger. A family with fewer "
        "than 30 points is outside the validated range and takes its GPU's band, a GPU with fewer "
        "that of all measured GPUs, a GPU without tables the generic set's.\n\n"
        + markdown_table(["calibration", "outside the families", "families"], body)
    )


def memory(path: Path) -> str:
    """Return the memory account beside start-up logs."""
    results = kv_cases.judged(read_points(path))
    found = kv_cases.summary(results)
    body = [
        [
            name,
            str(found[key]["n"]),
            f"{found[key]['median_ape_pct']}",
            f"{found[key]['p90_ape_pct']}",
        ]
        for name, key in (
            ("KV tokens, grade A, vLLM V1, configuration known", "kv_tokens"),
            ("KV GiB, the same", "kv_gib"),
            ("weights GiB, grades A and B", "weights_gib"),
        )
    ]
    counts = found["outcome"]
    wrong = ", ".join(r.id for r in results if not r.unscored and r.predicted_start != r.started)
    return (
        "\n## Memory against start-up logs\n\n"
        + markdown_table(["figure", "n", "median APE %", "P90"], body)
        + f"\nStart or refuse: {counts['right']} of {counts['n']} right, {counts['unscored']} rows "
        f"lack a fact. Wrong: {wrong or 'none'}. KV047 adds up at utilisation 0.95, not at the "
        "0.90 it states (79.18 · 0.95 − 64.38 − 0.13 − 7.38 = 3.33 GiB, the logged figure).\n\n"
        "CUDA graphs are not taken out of the budget: complete logs of 0.11 to 0.19 add up without "
        "them, and so do five of six of 0.26 to 0.29 to 0.01 GiB with up to 3.1 GiB of graphs "
        "(KV157, 223, 225, 227, 228); only KV226, on ROCm, adds up with its 3.9 GiB taken out. "
        "The released source has an estimate since 0.21 that it subtracts when told to.\n"
    )


def open_loop_runs(folder: Path) -> str:
    """Return three public runs, request by request."""
    results = open_loop.replay_runs(
        read_points(folder / "open_loop_requests.csv"), read_points(folder / "open_loop_runs.csv")
    )
    body = [
        [
            entry["run"],
            entry["metric"],
            f"{entry['median_ape_pct']:.1f}",
            f"{entry['p90_ape_pct']:.1f}",
            f"{entry['bias_pct']:+.1f}",
            f"{1e3 * entry['mean']['measured']:.0f} → {1e3 * entry['mean']['predicted']:.0f}",
        ]
        for entry in open_loop.summary(results)
        if "n" in entry
    ]
    return (
        "\n## Open loop, request by request\n\n"
        "The requests of three public runs through the replay, nothing fitted to them. The two-GPU "
        "runs are PCIe cards; their all-reduce depends on a peer-to-peer path that the runs do not "
        "state, and measured steps are longer than the table of this part allows.\n\n"
        + markdown_table(["run", "metric", "median APE %", "P90", "bias %", "mean, ms"], body)
    )
