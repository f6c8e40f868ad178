"""Write the calibration files: `python -m planner.calibrate.fit GROUNDTRUTH --output FOLDER`.

GROUNDTRUTH is a folder with `ops/*.csv` (operator microbenchmarks) and, for the error bands and the
host overheads of engines, `e2e_points.csv` (measured serving points). The files are data of the
package and never edited.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate.build import generic_ring, generic_section, gpu_data
from planner.calibrate.doubtful import another_run, may_speculate
from planner.calibrate.host_samples import closed_loop_cases, steady_samples
from planner.calibrate.hosts import Host, fit_closed_loops, fit_host, rewrite_host
from planner.calibrate.measured import Row, is_main
from planner.calibrate.points import Unsupported, point, read_points
from planner.calibrate.validate import Prediction, predictions, tpot_errors
from planner.calibrate.yaml_text import dump
from planner.perf.calibrations import assemble
from planner.spec.calibration import Calibration, OtherVendor
from planner.spec.calibration_file import calibration_from_data
from planner.spec.catalog import engines as catalogue_engines
from planner.spec.catalog import gpu as catalogue_gpu
from planner.spec.gpu import Gpu

# Calibration id (the tables' name of a GPU) -> the catalogue GPU whose datasheet figures its
# efficiencies divide.
SYSTEMS = {
    "a100_sxm": "a100-80gb-sxm",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
}
SOURCE = (
    "operator microbenchmarks of ai-dynamo/aiconfigurator_core 0.12.0 (Apache-2.0): "
    "vllm 0.14-0.27, trtllm 1.0-1.3rc, sglang 0.5, nccl 2.27-2.29"
)
DATE = "2026-11-29"  # when the tables were read
NOTES = [
    "fp8_block GEMMs of the vLLM collector left out: 280-800 us of launch time at small m",
    "int4_wo experts on H200 and B200 and fp8 experts on H100 left out: slow fallback kernels",
    "decode-attention rows faster than the HBM bandwidth left out: their KV sat in L2",
    "all-reduce as captured graphs of vLLM and SGLang run it, messages up to 256 MB",
]
L40S_NOTE = "all-reduce at 4 and 8 GPUs is one PCIe host without working peer-to-peer: a worst case"
BAND_QUANTILE = 0.8  # of the absolute errors: four in five points lie within the band
ENOUGH_ROWS = 30  # below, a family takes its GPU's band, a GPU that of all measured GPUs
# Engine profile -> its samples; the 0.11 series has a steady-state series of its own.
HOST_SOURCE = {
    "vllm-0.33": "fit on {rows} public closed-loop points of vLLM 0.10 to 0.19, {errors}",
    "vllm-0.11": "fit on {rows} public steady-state points of vLLM 0.11.1 on H100, {errors}; "
    "prefill and frontend: the fit over all vLLM versions",
    "sglang-0.5.23": "fit on {rows} public closed-loop points of SGLang 0.5, {errors}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit everything; write one file a GPU, the generic set, the theory's, and engine overheads."""
    parser = argparse.ArgumentParser(prog="planner.calibrate.fit", description=__doc__)
    parser.add_argument("groundtruth", type=Path, help="folder with ops/*.csv and e2e_points.csv")
    parser.add_argument("--output", type=Path, required=True, help="folder of the calibrations")
    parser.add_argument("--engines", type=Path, help="folder of engine files to refresh")
    options = parser.parse_args(arguments)
    written = files(measure(options.groundtruth / "ops"))
    rows = read_points(options.groundtruth / "e2e_points.csv")
    if options.engines:
        write(written, options.output)  # overheads are what the new operators leave
        for name, host in hosts(rows).items():
            errors = (
                f"median error {host.median_error:.1%}, {host.median_error_left_out:.1%} unseen"
            )
            if np.isfinite(host.ttft_median_error):
                errors += (
                    f"; TTFT {host.ttft_median_error:.1%}, "
                    f"{host.ttft_median_error_left_out:.1%} unseen"
                )
            source = HOST_SOURCE[name].format(rows=host.rows, errors=errors)
            rewrite_host(options.engines / f"{name}.yaml", host, source, DATE)
            sys.stdout.write(f"{name:<14} {host}\n")
        forget_catalogue()
    set_other_vendor(written, rows)
    set_bands(written, rows)
    write(written, options.output)
    for name, data in written.items():
        sys.stdout.write(report(name, data))


def write(written: Mapping[str, dict[str, Any]], folder: Path) -> None:
    """Write every calibration file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in written.items():
        (folder / f"{name}.yaml").write_text(dump(data), encoding="utf-8")


def hosts(rows: Sequence[Row]) -> dict[str, Host]:
    """Return the fitted overheads of every engine profile."""
    current = fit_closed_loops(closed_loop_cases(rows, "vllm", "0.33"))
    older = fit_host(steady_samples(rows))
    return {
        "vllm-0.33": current,
        "vllm-0.11": replace(
            older,
            prefill_layer_s=current.prefill_layer_s,
            frontend_s=current.frontend_s,
            client_s=current.client_s,
            token_s=current.token_s,
        ),
        "sglang-0.5.23": fit_closed_loops(closed_loop_cases(rows, "sglang")),
    }


def forget_catalogue() -> None:
    """Drop cached engine files, so that what follows reads the rewritten ones."""
    catalogue_engines.cache_clear()


def set_other_vendor(written: dict[str, dict[str, Any]], rows: Sequence[Row]) -> None:
    """Fit the two numbers that separate other vendors' GPUs from the generic set.

    Coarse steps and the mean absolute log error: some thirty points of one part carry no more.
    """
    known = calibration_from_data(written["generic"])
    foreign = [row for row in rows if is_main(row) and _vendor(row) not in ("", "nvidia")]

    def error(differs: OtherVendor) -> float:
        fit = replace(known, other_vendor=differs)
        found, _ = predictions(foreign, lambda gpu: assemble(gpu, fit, fit))
        return float(np.mean(np.abs(np.log1p(tpot_errors(found)))))

    steps = [
        OtherVendor(fp8_efficiency=fp8 / 10, fixed_factor=fixed / 2)
        for fp8 in range(3, 11)
        for fixed in range(2, 7)
    ]
    best = min(steps, key=error)
    written["generic"]["other_vendor"] = {
        "fp8_efficiency": best.fp8_efficiency,
        "fixed_factor": best.fixed_factor,
    }


def _vendor(row: Row) -> str:
    try:
        return point(row).gpu.vendor
    except Unsupported:
        return ""


def set_bands(written: dict[str, dict[str, Any]], rows: Sequence[Row]) -> None:
    """Set every band from the TPOT errors of the points it covers."""
    known = {name: calibration_from_data(data) for name, data in written.items()}
    generic = known["generic"]

    rows = [row for row in rows if not (may_speculate(row) or another_run(row))]

    def own(gpu: Gpu) -> Calibration:
        return assemble(gpu, known[gpu.calibration] if gpu.calibration else generic, generic)

    def inherited(gpu: Gpu) -> Calibration:
        return assemble(gpu, generic, generic)

    found, _ = predictions(rows, own)
    on_tables = [item for item in found if item.point.gpu.calibration]
    everyone, pooled = _band(on_tables), _family_bands(on_tables)
    for name, data in written.items():
        members = [item for item in on_tables if item.point.gpu.calibration == name]
        # A family on one GPU is few models; its band is never below the same family's on all GPUs.
        data["bands"] = {k: max(v, pooled[k]) for k, v in _family_bands(members).items()}
        enough = len(tpot_errors(members)) >= ENOUGH_ROWS
        if data["evidence"] == "measured_operators":
            data["band"] = _band(members) if enough else everyone
            data["band_source"] = (
                f"80 % of {len(tpot_errors(members))} measured TPOT on this GPU"
                if enough
                else f"80 % of {len(tpot_errors(on_tables))} measured TPOT on all measured GPUs"
            )
    blind, _ = predictions(rows, inherited)
    native = [item for item in blind if item.point.gpu.vendor == "nvidia"]
    foreign = [item for item in blind if item.point.gpu.vendor != "nvidia"]
    written["generic"]["band"] = _band(native)
    written["generic"]["bands"] = _family_bands(native)
    written["generic"]["band_other_vendor"] = _band(foreign)
    written["generic"]["band_source"] = (
        f"80 % of {len(tpot_errors(native))} measured TPOT predicted with the generic set; "
        f"{len(tpot_errors(foreign))} on GPUs of other vendors"
    )


def _family_bands(found: Sequence[Prediction]) -> dict[str, float]:
    """Return the band of every family with enough points: engine, dense or MoE."""
    families: dict[str, list[Prediction]] = {}
    for item in found:
        kind = "moe" if item.point.model.moe else "dense"
        families.setdefault(f"{item.point.engine.id}/{kind}", []).append(item)
    return {
        name: _band(members)
        for name, members in sorted(families.items())
        if len(tpot_errors(members)) >= ENOUGH_ROWS
    }


def _band(found: Sequence[Prediction]) -> float:
    return float(np.quantile(np.abs(tpot_errors(found)), BAND_QUANTILE))


def measure(folder: Path) -> list[tuple[Gpu, dict[str, Any]]]:
    """Return the fitted sections of every GPU with tables, in the order of `SYSTEMS`."""
    gpus = {system: catalogue_gpu(name) for system, name in SYSTEMS.items()}
    return [(gpu, gpu_data(folder, system, gpu)) for system, gpu in gpus.items()]


def files(measured: Sequence[tuple[Gpu, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the content of every calibration file by id."""
    written = {}
    for system, (_, sections) in zip(SYSTEMS, measured, strict=True):
        notes = [*NOTES, L40S_NOTE] if system == "l40s" else NOTES
        written[system] = {**_head(system, "measured_operators", 0.0, notes), **sections}
    written["generic"] = _generic(measured)
    written["ideal"] = {
        "id": "ideal",
        "evidence": "ideal",
        "fused_max": True,
        "band": 0.0,
        "band_source": "none: an upper bound on speed, not a prediction",
        "source": "the roofline of the theory: every efficiency 1, nothing fixed, one maximum",
        "date": DATE,
        "gemm": {},
        "moe": {},
        "attention": {},
        "all_reduce": {},
    }
    return written


def _head(name: str, evidence: str, band: float, notes: Sequence[str]) -> dict[str, Any]:
    return {
        "id": name,
        "evidence": evidence,
        "band": band,
        "band_source": "",
        "source": SOURCE,
        "date": DATE,
        "notes": list(notes),
    }


def _generic(measured: Sequence[tuple[Gpu, dict[str, Any]]]) -> dict[str, Any]:
    sections = [data for _, data in measured]
    note = "geometric mean over " + ", ".join(gpu.id for gpu, _ in measured)
    return {
        **_head("generic", "generic", 0.0, [note, *NOTES]),
        "band_other_vendor": 0.0,
        "gemm": generic_section(sections, "gemm"),
        "moe": generic_section(sections, "moe"),
        "attention": generic_section(sections, "attention"),
        "all_reduce": {},
        "ring": generic_ring(measured),
    }


def report(name: str, data: dict[str, Any]) -> str:
    """Return fit errors, one line an operator."""
    lines = []
    for section in ("gemm", "moe", "attention", "all_reduce"):
        for key, entry in data[section].items():
            if "median_error" not in entry:
                continue
            median, p90 = entry["median_error"], entry["p90_error"]
            lines.append(
                f"{name:<14} {section:<10} {key:<10} {entry['rows']:>5} rows"
                f"  median {median:6.1%}  p90 {p90:6.1%}\n"
            )
    return "".join(lines)


if __name__ == "__main__":
    main()
