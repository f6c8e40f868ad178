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
