"""The fit recovers what it should, and the committed files are what it writes."""

import sys

import numpy as np
import pytest

from planner.calibrate import operator_fits, tables
from planner.calibrate.build import generic_ring, generic_section
from planner.calibrate.fit import NOTES, SYSTEMS, files, measure
from planner.calibrate.yaml_text import dump, number
from planner.perf import operators as op
from planner.spec.calibration_file import calibration_from_data, load_calibration
from planner.spec.load import read_document


def gemm_table(compute, memory, fixed, sharpness, per_input, noise=0.0):
    rng = np.random.default_rng(11)
    rows = []
    for m in (1, 8, 64, 256, 1024, 4096):
        for n, k in ((1024, 8192), (8192, 1024), (4096, 4096), (8192, 16384)):
            seconds = op.gemm_s(
                op.gemm_flops(m, k, n),
                op.gemm_bytes(m, k, n, 2, 2),
                1e15,
                3e12,
                compute,
                memory,
                op.gemm_fixed_s(k, fixed, per_input),
                sharpness,
            )
            jitter = np.exp(noise * rng.standard_normal())
            rows.append(
                {"m": str(m), "n": str(n), "k": str(k), "latency_us": str(1e6 * seconds * jitter)}
            )
    return rows


def test_exact_table_is_recovered():
    fit = operator_fits.fit_gemm(gemm_table(0.8, 0.9, 4e-6, 3.0, 0.5e-9), 1e15, 3e12, 2, 2)
    assert fit.compute == pytest.approx(0.8, rel=1e-3)
    assert fit.memory == pytest.approx(0.9, rel=1e-3)
    assert fit.fixed_s == pytest.approx(4e-6, rel=1e-2)
    assert fit.per_input_s == pytest.approx(0.5e-9, rel=1e-2)
    assert fit.median_error < 1e-4


def test_noise_stays_noise():
    rows = gemm_table(0.8, 0.9, 4e-6, 3.0, 0.5e-9, noise=0.05)
    fit = operator_fits.fit_gemm(rows, 1e15, 3e12, 2, 2)
    assert fit.compute == pytest.approx(0.8, rel=0.1)
    assert 0.01 < fit.median_error < 0.06


def test_one_wild_measurement_changes_little():
    rows = gemm_table(0.8, 0.9, 4e-6, 3.0, 0.5e-9)
    rows[5] = {**rows[5], "latency_us": str(20 * float(rows[5]["latency_us"]))}
    fit = operator_fits.fit_gemm(rows, 1e15, 3e12, 2, 2)
    assert fit.compute == pytest.approx(0.8, rel=0.02)
    assert fit.p90_error < 0.05  # least squares would bend every other point by more


def test_both_all_reduce_algorithms_are_recovered():
    sizes = np.geomspace(256, 2.5e8, 24)
    times = op.all_reduce_s(sizes, 5e-6, 150e9, 1.2, 25e-6, 500e9)
    rows = [
        {"bytes": str(size), "latency_us": str(1e6 * time)}
        for size, time in zip(sizes, times, strict=True)
    ]
    fit = operator_fits.fit_all_reduce(rows)
    assert fit.latency_s == pytest.approx(5e-6, rel=0.02)
    assert fit.large_bandwidth_bytes_per_s == pytest.approx(500e9, rel=0.02)
    assert fit.median_error < 0.01


def test_fastest_keeps_one_row_a_point():
    rows = [
        {"m": "1", "latency_us": "5"},
        {"m": "1", "latency_us": "3"},
        {"m": "2", "latency_us": "4"},
    ]
    assert tables.fastest(rows, ("m",)) == rows[1:]


def test_generic_section_is_the_geometric_mean():
    entry = {"compute": 0.5, "median_error": 0.1, "rows": 3}
    other = {"compute": 0.8, "median_error": 0.2, "rows": 4}
    mean = generic_section([{"gemm": {"bf16": entry}}, {"gemm": {"bf16": other}}], "gemm")
    assert mean["bf16"]["compute"] == pytest.approx(np.sqrt(0.4))
    assert mean["bf16"]["median_error"] == 0.2  # the worst
    assert mean["bf16"]["rows"] == 7


def test_artefacts_are_left_out(shared):
    ops = shared / "groundtruth" / "ops"
    assert not tables.moe_rows(ops, "h100_sxm", "fp8")
    assert not tables.moe_rows(ops, "h200_sxm", "int4_wo")
    assert not tables.all_reduce_rows(ops, "l40s", 4)
    assert tables.all_reduce_rows(ops, "l40s", 2)
    block = tables.gemm_rows(ops, "b200_sxm", "fp8_block")
    assert block
    assert {row["engine"] for row in block} == {"trtllm"}
    decode = tables.decode_rows(ops, "l40s", "bfloat16")
    assert max(float(row["mbu"]) for row in decode) <= 1.0
    assert len(NOTES) == 4  # each exclusion is told in every file


def test_operator_errors_meet_their_targets(shared, root):
    """Pooled over GPUs: dense GEMM and attention within 8 %, experts within 15 % (median)."""
    pooled = {"gemm": [], "moe": [], "attention": []}
    for name in SYSTEMS:
        data = read_document(root / "planner" / "data" / "calibration" / f"{name}.yaml").data
        for section in pooled:
            for entry in data[section].values():
                if "rows" in entry:
                    pooled[section] += [entry["median_error"]] * entry["rows"]
    assert np.median(pooled["gemm"]) < 0.08
    assert np.median(pooled["attention"]) < 0.08
    assert np.median(pooled["moe"]) < 0.15


def test_committed_files_are_what_the_fit_writes(shared, root):
    """Operators of every GPU, fitted again; bands need the end-to-end points (`make fit`)."""
    written = files(measure(shared / "groundtruth" / "ops"))
    folder = root / "planner" / "data" / "calibration"
    assert {path.stem for path in folder.glob("*.yaml")} == set(written)
    for name, data in written.items():
        committed = read_document(folder / f"{name}.yaml").data
        for section in ("gemm", "moe", "attention", "all_reduce", "ring"):
            fresh, stored = data.get(section, {}), committed.get(section, {})
            assert set(fresh) == set(stored)
            for key, entry in fresh.items():
                for field, value in entry.items():
                    if isinstance(value, float):
                        # Four digits are stored; another SciPy may stop elsewhere on a flat floor.
                        assert stored[key][field] == pytest.approx(value, rel=5e-3, abs=2e-3)


def test_every_committed_file_matches_its_schema(root):
    for path in sorted((root / "planner" / "data" / "calibration").glob("*.yaml")):
        fit = load_calibration(path)
        assert fit.id == path.stem
        assert fit.source
        assert fit.date


def test_ideal_is_the_roofline(root):
    ideal = load_calibration(root / "planner" / "data" / "calibration" / "ideal.yaml")
    assert ideal.fused_max
    assert ideal.band == 0


def test_units_become_si():
    data = {
        "id": "x",
        "evidence": "measured_operators",
        "band": 0.1,
        "source": "s",
        "date": "2026",
        "gemm": {
            "bf16": {
                "compute": 0.8,
                "memory": 0.9,
                "fixed_us": 4.0,
                "sharpness": 2.0,
                "per_input_ns": 0.5,
                "rows": 9,
            }
        },
        "moe": {},
        "attention": {},
        "all_reduce": {"4": {"latency_us": 5.0, "bandwidth_gb_per_s": 200.0, "sharpness": 1.0}},
    }
    fit = calibration_from_data(data)
    assert fit.gemm["bf16"].fixed_s == pytest.approx(4e-6)
    assert fit.gemm["bf16"].per_input_s == pytest.approx(0.5e-9)
    assert fit.all_reduce[4].bandwidth_bytes_per_s == 200e9


def test_yaml_text_is_stable_and_short():
    assert number(0.00012345) == "0.0001234"
    assert number(1234567.0) == "1235000.0"
    text = dump({"id": "x", "gemm": {"bf16": {"compute": 0.81234, "rows": 3}}, "notes": ["a"]})
    assert text == 'id: "x"\ngemm:\n  bf16: {compute: 0.8123, rows: 3}\nnotes:\n  - "a"\n'


def test_perf_does_not_import_numba():
    import subprocess

    code = (
        "import sys, planner.perf.compile, planner.perf.memory, planner.perf.calibrations;"
        "print('numba' in sys.modules, 'scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_ring_efficiency_by_hand():
    from planner.spec import catalog

    gpu = catalog.gpu("h100")
    entry = {"large_bandwidth_gb_per_s": 150.0, "latency_us": 4.0}
    pcie = catalog.gpu("l40s")
    ring = generic_ring(
        [
            (gpu, {"all_reduce": {"4": entry}}),
            (pcie, {"all_reduce": {"2": {**entry, "large_bandwidth_gb_per_s": 16.0}}}),
        ]
    )
    assert ring["link"]["efficiency"] == pytest.approx(150 / (450 / 1.5))
    assert ring["pcie"]["efficiency"] == pytest.approx(16 / 32)
