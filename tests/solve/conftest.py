"""Let the tests of this folder import its helpers by name, and build cases from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.solve.case import Case
from planner.solve.plan import ChunkAnalysis

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """Build a Case from requests and an Slo, on catalogued GPUs."""

    from solve_cases import case_of

    return case_of


@pytest.fixture
def chunk_of() -> Callable[..., ChunkAnalysis]:
    """Build the analysis of a chunk; what is not named is of no consequence."""

    def made(**changes: object) -> ChunkAnalysis:
        values = {
            "decode_seqs": 48.0,
            "context_tokens": 1_000.0,
            "ridge_flops_per_byte": 295.0,
            "balance_chunk_tokens": 300.0,
            "balance_flag_tokens": 348.0,
            "memory_floor_s": 0.012,
            "floor_weights_s": 0.010,
            "floor_kv_s": 0.002,
            "low_from": "",
            "high_from": "",
            "default_flag_tokens": 8_192,
            "matters": True,
            "reason": "chunking_matters",
            "prompt_tokens": 1_000.0,
            "curve": (),
            "missed_below_flag_tokens": None,
            "missed_above_flag_tokens": None,
        }
        return ChunkAnalysis(**{**values, **changes})

    return made


@pytest.fixture
def in_bench(request: pytest.FixtureRequest) -> None:
    """Leave a test of many minutes to `make bench`."""
    if not request.config.getoption("benchmark_only"):
        pytest.skip("takes minutes: run by `make bench`")
