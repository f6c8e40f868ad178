"""What a plan remembers of the catalogue entries it was made with: one hash each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from planner.spec.calibration import Calibration
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model


def catalogue_hashes(
    model: Model, engine: Engine, gpus: Sequence[Gpu], calibrations: Mapping[str, Calibration]
) -> dict[str, str]:
    """Return "gpus/h100-sxm" and the like with the SHA-256 of every value of the entry."""
    entries: dict[str, object] = {
        f"models/{model.id}": model,
        f"engines/{engine.id}-{engine.version}": engine,
        **{f"gpus/{gpu.id}": gpu for gpu in gpus},
        **{f"calibration/{key}": value for key, value in calibrations.items()},
    }
    return {
        name: hashlib.sha256(repr(entry).encode()).hexdigest() for name, entry in entries.items()
    }
