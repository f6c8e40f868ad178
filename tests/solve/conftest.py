"""Let the tests of this folder import its helpers by name, and build cases from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.ingest.requests import Requests
from planner.perf.calibrations import calibration
from planner.profile.profile import profile_requests
from planner.solve.case import Case
from planner.solve.plan import ChunkAnalysis
from planner.spec import catalog
from planner.spec.slo import Slo

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """Build a Case from requests and an Slo, on catalogued GPUs."""

    def make(requests: Requests, slo: Slo, *gpus: str) -> Case:
        parts = tuple(catalog.gpu(name) for name in gpus or ("h100",))
        return Case(
            model=catalog.model(slo.model),
            engine=catalog.engine(slo.engine, slo.engine_version),
            gpus=parts,
            calibrations={gpu.id: calibration(gpu) for gpu in parts},
            slo=slo,
            requests=requests,
            profile=profile_requests(requests),
        )

    return make


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
