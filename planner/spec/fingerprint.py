"""What a plan remembers of its inputs, files and catalogue entries: one hash each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from planner.spec.calibration import Calibration
from planner.spec.engine import Engine
from planner.spec.gpu import Gpu
from planner.spec.model import Model

BLOCK_BYTES = 1 << 20  # read at once when hashing


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


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
