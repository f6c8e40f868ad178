"""The wheel, installed alone into an empty environment, runs the main job."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=root,
        check=True,
        capture_output=True,
    )
    (built,) = target.glob("*.whl")
    return built


def test_wheel_carries_schemas_templates_and_catalogues(root: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("schemas", "templates"):
        for path in (root / kind).rglob("*"):
            if path.is_file():
                relative = path.relative_to(root / kind).as_posix()
                assert f"planner/_resources/{kind}/{relative}" in names
    for path in (root / "planner" / "data").rglob("*.yaml"):
        assert path.relative_to(root).as_posix() in names


def test_installed_wheel_runs_the_main_job(root: Path, wheel: Path, tmp_path: Path) -> None:
    """An empty venv that sees the locked libraries but not the checkout."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin" / "python"
    libraries = next(p for p in sys.path if p.endswith("site-packages"))
    site = next((venv / "lib").glob("python*")) / "site-packages"
    subprocess.run(
        [str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)],
        check=True,
        capture_output=True,
    )
    # The locked libraries come from the running environment, without its editable planner:
    # a .pth that adds only the folder does not process the .pth files inside that folder.
    (site / "locked.pth").write_text(libraries + "\n", encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONNOUSERSITE": "1"}
    done = subprocess.run(
        [
            str(venv / "bin" / "planner"),
            "recommend",
            *("--trace", str(root / "traces" / "week42.parquet")),
            *("--gpu", "h100", "--slo", str(root / "slo.yaml")),
            *("--output", str(tmp_path / "report")),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "report.md").is_file()
    where = subprocess.run(
        [str(python), "-c", "import planner; print(planner.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(venv) in where.stdout
