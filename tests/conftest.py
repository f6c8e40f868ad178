"""Fixtures every test folder may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# Examples are drawn from a fixed seed so that a red build is red again; no deadline, because the
# first example pays for lazy imports and kernels that compile.
settings.register_profile("planner", deadline=None, derandomize=True)
settings.load_profile("planner")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout's top folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the checkout; tests skip where it is absent."""
    folder = ROOT.parent / "shared"
    if not (folder / "reference").is_dir():
        pytest.skip("needs the reference data in ../shared, which is not part of the project")
    return folder
