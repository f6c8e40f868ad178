"""Find the schemas, templates and catalogues that ship with the package.

In a checkout `schemas/` and `templates/` lie beside the package, in an installed wheel inside it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def resource_dir(kind: str) -> Path:
    """Return the folder of `kind` ("schemas" or "templates").

    Raises
    ------
    FileNotFoundError
        The installation is broken: neither the wheel's copy nor the checkout's exists.
    """
    for candidate in (PACKAGE / "_resources" / kind, PACKAGE.parent / kind):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"planner was installed without its {kind}; reinstall it")


def data_dir(kind: str) -> Path:
    """Return the catalogue folder of `kind` ("gpus", "models", "engines" or "calibration")."""
    return PACKAGE / "data" / kind


def user_cache_dir() -> Path:
    """Return the folder for what can be computed again: compiled kernels and templates."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named) / "llm-trace-planner"
    try:
        return Path.home() / ".cache" / "llm-trace-planner"
    except RuntimeError:  # a container's user without a home
        return Path(tempfile.gettempdir()) / "llm-trace-planner"


def is_writable(folder: Path) -> bool:
    """Return whether files can be written to `folder`, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
