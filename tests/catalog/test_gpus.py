"""GPUs: agreement with the reference table, aliases, errors, a GPU of one's own."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.resources import data_dir
from planner.spec import catalog
from planner.spec.gpu import Gpu

# Name in the reference table -> id.
TABLE = {
    "A100-40GB-SXM": "a100-40gb-sxm",
    "A100-40GB-PCIe": "a100-40gb-pcie",
    "A100-80GB-SXM": "a100-80gb-sxm",
    "A100-80GB-PCIe": "a100-80gb-pcie",
    "H100-80GB-SXM": "h100-sxm",
    "H100-80GB-PCIe": "h100-pcie",
    "H100-NVL": "h100-nvl",
    "H200-141GB-SXM": "h200-sxm",
    "GH200-96/144": "gh200",
    "B200-180GB-SXM": "b200-sxm",
    "B300-288GB-SXM": "b300-sxm",
    "GB200 (per GPU)": "gb200",
    "GB300 (per GPU)": "gb300",
    "L4": "l4",
    "L40S": "l40s",
    "L20": "l20",
    "A10G (AWS g5)": "a10g",
    "A10": "a10",
    "A40": "a40",
    "RTX A6000": "rtx-a6000",
    "RTX 4090": "rtx-4090",
    "RTX 5090": "rtx-5090",
    "RTX PRO 6000 Blackwell (WS/Server)": "rtx-pro-6000",
    "T4": "t4",
    "V100-32GB-SXM2": "v100-32gb-sxm",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI355X": "mi355x",
}
NOT_GPUS = {"TPU v5e", "TPU v6e", "Gaudi 3"}


# Added for measured points; its figures are those of another entry, see its file.
BESIDE_THE_TABLE = {"h800-sxm"}


def number(text: str) -> float | None:
    """Read a cell: a range means its lower end, a dash or a blank nothing."""
    text = text.strip().split("-")[0]
    try:
        return float(text)
    except ValueError:
        return None


@pytest.fixture(scope="module")
def rows(shared: Path) -> dict[str, dict[str, str]]:
    path = shared / "reference" / "gpus.csv"
    if not path.is_file():
        pytest.skip("needs reference/gpus.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return {row["gpu"]: row for row in csv.DictReader(file)}


def test_every_gpu_of_the_table_is_in_the_catalogue(rows: dict[str, dict[str, str]]) -> None:
    assert set(rows) - NOT_GPUS == set(TABLE)
    assert {gpu.id for gpu in catalog.gpus()} == set(TABLE.values()) | BESIDE_THE_TABLE


@pytest.mark.parametrize("name", TABLE)
def test_memory_and_links_equal_the_table(rows: dict[str, dict[str, str]], name: str) -> None:
    row, gpu = rows[name], catalog.gpu(TABLE[name])
    visible = number(row["mem_gib_visible"])
    assert gpu.memory_bytes_marketing == number(row["mem_gb_marketing"]) * 10**9  # type: ignore[operator]
    if visible is None:
        assert gpu.memory_bytes_visible is None
    else:
        assert gpu.memory_bytes_visible == pytest.approx(visible * 2**30, rel=1e-12)
    assert gpu.memory_bandwidth_bytes_per_s == number(row["mem_bw_gbs"]) * 10**9  # type: ignore[operator]
    assert gpu.scaleup_bytes_per_s == (number(row["scaleup_gbs_per_dir"]) or 0) * 10**9
    assert gpu.pcie_bytes_per_s == number(row["pcie_gbs_per_dir"]) * 10**9  # type: ignore[operator]
    assert gpu.confidence == row["confidence"]


@pytest.mark.parametrize("name", TABLE)
def test_dense_rates_equal_the_table(rows: dict[str, dict[str, str]], name: str) -> None:
    row, rates = rows[name], catalog.gpu(TABLE[name]).peak_flops_per_s
    # The table's 16-bit column is fp16 for the two GPUs that have no bf16.
    half = "fp16" if name in ("T4", "V100-32GB-SXM2") else "bf16"
    expected = {
        half: number(row["bf16_dense_tflops"]),
        "fp8": number(row["fp8_dense_tflops"]),
        "int8": number(row["int8_dense_tops"]),
        "fp4": number(row["fp4_dense_tflops"]),
    }
    for dtype, rate in expected.items():
        if rate is None:
            assert dtype not in rates
        else:
            assert rates[dtype] == pytest.approx(rate * 1e12, rel=1e-12)


@pytest.mark.parametrize("name", TABLE)
def test_prices_equal_the_table(rows: dict[str, dict[str, str]], name: str) -> None:
    row, gpu = rows[name], catalog.gpu(TABLE[name])
    for kind, column in (
        ("low", "usd_per_hr_low"),
        ("typical", "usd_per_hr_typ"),
        ("hyperscaler", "usd_per_hr_hyperscaler"),
    ):
        # GB200's "8-10 (unverified)" is no offer, so the catalogue has no price.
        expected = None if "unverified" in row[column] else number(row[column])
        assert gpu.price_usd_per_hour(kind) == expected


@pytest.mark.parametrize("name", TABLE)
def test_power_equals_the_table(rows: dict[str, dict[str, str]], name: str) -> None:
    expected = 1000.0 if name.startswith("GH200") else number(rows[name]["tdp_w"])  # 450-1000
    assert catalog.gpu(TABLE[name]).tdp_w == expected


@pytest.mark.parametrize("name", TABLE)
def test_engine_defaults_equal_the_tables_column(
    rows: dict[str, dict[str, str]], name: str
) -> None:
    row = catalog.batch_default(catalog.engine("vllm", "0.33"), catalog.gpu(TABLE[name]))
    column = next(key for key in rows[name] if key.startswith("vllm_openai_default"))
    assert f"{row.max_num_batched_tokens}/{row.max_num_seqs}" == rows[name][column]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100", "h100-sxm"),
        ("H100", "h100-sxm"),
        ("a100-80gb", "a100-80gb-sxm"),
        ("a100", "a100-80gb-sxm"),
        ("H100-80GB-SXM", "h100-sxm"),
        ("h100_pcie", "h100-pcie"),
        ("RTX 4090", "rtx-4090"),
        (" mi300x ", "mi300x"),
    ],
)
def test_aliases_mean_the_sxm_part_and_ignore_case(name: str, expected: str) -> None:
    assert catalog.gpu(name).id == expected


def test_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        catalog.gpu("h100-sxn")
    assert "unknown GPU 'h100-sxn'" in str(caught.value)
    assert "h100-sxm" in str(caught.value)


@pytest.mark.parametrize("gpu", catalog.gpus(), ids=lambda gpu: gpu.id)
def test_figures_are_possible(gpu: Gpu) -> None:
    rates = gpu.peak_flops_per_s
    assert "fp16" in rates
    if "bf16" in rates:
        assert rates["bf16"] == rates["fp16"]  # every tensor core with both runs them alike
    if "fp8" in rates:
        # Twice 16 bit; datasheets round, L40S most (733 against 724.1: 1.2 %).
        assert rates["fp8"] == pytest.approx(2 * rates["fp16"], rel=0.013)
    if gpu.memory_bytes_visible is not None:
        # "80 GB" parts hold 80 GiB less the driver's share; GDDR parts lose more to ECC.
        assert 0.97 < gpu.memory_bytes_visible / gpu.memory_bytes_marketing < 1.08
    assert (gpu.scaleup_bytes_per_s > 0) == (gpu.scaleup_domain_gpus > 1 or gpu.id == "gh200")
    assert gpu.scaleup_domain_gpus <= gpu.gpus_per_node or "NVL72" in gpu.scaleup_link
    kinds = [price.usd_per_hour for price in gpu.prices]
    assert kinds == sorted(kinds)  # low, typical, hyperscaler


@pytest.mark.parametrize("gpu", catalog.gpus(), ids=lambda gpu: gpu.id)
def test_calibration_exists_and_says_why(gpu: Gpu) -> None:
    assert catalog.catalog_file("gpus", gpu.id)["calibration_reason"]
    if gpu.calibration:
        assert (data_dir("calibration") / f"{gpu.calibration}.yaml").is_file()


@pytest.mark.parametrize("part", ["a100-80gb-pcie", "h100-pcie", "h100-nvl", "l4", "mi300x"])
def test_parts_of_another_clock_class_inherit_no_measurement(part: str) -> None:
    assert catalog.gpu(part).calibration == ""


def test_a_gpu_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    shutil.copy(data_dir("gpus") / "l40s.yaml", own)
    own.write_text(own.read_text().replace("id: l40s", "id: our-l40s").replace("864", "700"))
    gpu = catalog.gpu(str(own))
    assert (gpu.id, gpu.memory_bandwidth_bytes_per_s) == ("our-l40s", 700e9)


def test_a_broken_gpu_file_reports_every_problem_with_its_place(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    text = (data_dir("gpus") / "l40s.yaml").read_text()
    own.write_text(
        text.replace("confidence: high", "confidence: sure").replace("gpus_per_node: 8", "gpus: 8")
    )
    with pytest.raises(InputError) as caught:
        catalog.gpu(str(own))
    problems = caught.value.problems
    assert len(problems) >= 2
    assert all(problem.file == str(own) and problem.line > 0 for problem in problems)
    assert any("confidence" in problem.path for problem in problems)
    assert any("gpus_per_node" in str(problem) for problem in problems)


def test_a_missing_gpu_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        catalog.gpu(str(tmp_path / "none.yaml"))
